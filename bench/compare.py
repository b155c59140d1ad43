"""``python -m bench.compare --python PEERS``: the same probes against every sandbox that can be had here, as a table in the docs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from tools.program import program

from bench.comparison import Absent, page
from dayfly.errors import DayflyError
from dayfly.prove import Proof, Row, Verdict
from dayfly.prove.targets import KINDS, Means, Target, asked, prove_target

HERE = Path(__file__).parent
REPORT = HERE / "results" / "compare.json"
DOCS = HERE.parent / "docs" / "comparison.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="one that has the libraries of others")
    parser.add_argument("--runsc", default="", help="for others; dayfly's own unless it is given")
    parser.add_argument("--only", action="append", help="this target; again for more. The others stay as they were")
    options = parser.parse_args()
    means = Means(str(Path(options.python).absolute()), _programs(), options.runsc)
    proofs, absent = _earlier(options.only or [])
    for name, make in KINDS.items():
        if options.only and name not in options.only:
            continue
        try:
            proofs[name] = _proved(make(means))
        except DayflyError as error:
            proofs.pop(name, None)
            absent[name] = Absent(name, f"{error.message} ({error.remedy})")
            print(f"{name}: left out: {error.message}")
    _write({name: proofs[name] for name in KINDS if name in proofs}, absent)


def _programs() -> dict[str, str]:
    """Of the distribution's, without installing them. One that cannot be had is left out later, with its remedy."""
    try:
        return {"bwrap": str(program("bwrap", "bubblewrap"))}
    except DayflyError as error:
        print(error.message)
        return {}


def _proved(target: Target) -> Proof:
    print(f"{target.name}:", end=" ", flush=True)
    proof = asyncio.run(prove_target(target, asked(), _tell))
    print(f" {proof.seconds:g} s, {dict(proof.count())}")
    return proof


def _tell(row: Row) -> None:
    print("." if row.green else row.verdict.value[0], end="", flush=True)


def _earlier(only: list[str]) -> tuple[dict[str, Proof], dict[str, Absent]]:
    """What an earlier comparison found of those that are not tried again."""
    if not only or not REPORT.is_file():
        return {}, {}
    said = json.loads(REPORT.read_text("utf-8"))
    proofs = {name: Proof.model_validate(one) for name, one in said["proofs"].items()}
    return proofs, {name: Absent(name, why) for name, why in said["absent"].items() if name not in only}


def _write(proofs: dict[str, Proof], absent: dict[str, Absent]) -> None:
    REPORT.parent.mkdir(exist_ok=True)
    kept = {
        "proofs": {name: one.model_dump(mode="json") for name, one in proofs.items()},
        "absent": {name: one.why for name, one in absent.items()},
    }
    REPORT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    mute = [name for name, one in proofs.items() if one.count()[Verdict.INCONCLUSIVE] == len(one.rows)]
    for name in mute:
        absent[name] = replace(Absent(name, proofs[name].rows[0].why), proof=proofs[name])
    DOCS.write_text(page([one for name, one in proofs.items() if name not in mute], list(absent.values())), "utf-8")
    print(f"written: {REPORT}, {DOCS}")


if __name__ == "__main__":
    main()
