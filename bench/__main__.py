"""``python -m bench [--rounds N] [--quick]``"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from bench import crowds, lives, measures, neighbours, outward, report
from bench.contenders import contenders
from dayfly.images import build, load_recipe

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="counted rounds of the life cycle")
    parser.add_argument("--rich", default="data", help="image with IPython")
    parser.add_argument("--quick", action="store_true", help="3 rounds, for a look; writes nothing")
    options = parser.parse_args()
    rounds = 3 if options.quick else options.rounds
    plain = build(load_recipe(HERE / "plain.toml"))
    field = contenders(plain.name, options.rich)
    samples = measures.life(field, rounds, repeats=50)
    samples |= measures.bare_pipe(5)
    samples |= measures.transfers(options.rich, 3 if options.quick else 5)
    comparable = [one for one in field if ("runsc" in one.name or "dayfly" in one.name) and "CPU" not in one.name]
    samples |= measures.idle_memory(comparable, 1 if options.quick else 5)
    samples |= measures.idle_cpu(options.rich)
    samples |= lives.lives(rounds)
    samples |= crowds.crowds(
        3 if options.quick else 5, plain=20 if options.quick else 200, rich=8 if options.quick else 80
    )
    samples |= outward.outward(1 if options.quick else 5)
    samples |= neighbours.neighbours(1 if options.quick else 5)
    if options.quick:
        print("\n".join(report._lines(samples, "a quick look")))
        return
    date = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d")
    print(report.write(samples, date, HERE / "results", HERE.parent / "docs" / "benchmarks.md"))


if __name__ == "__main__":
    main()
