"""``python -m tests.fuzz [SECONDS] [TARGET ...]``: the long form. Every target gets its share; what was found out is gone on with the next time."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.fuzz.corpus import FINDINGS, TARGETS, WORK, Shelf, kept
from tests.fuzz.fuzzer import Report, fuzz
from tests.fuzz.target import Target

SECONDS = 600.0


def run(target: Target, seconds: float) -> Report:
    shelf = Shelf(WORK / target.name)
    inputs = [*kept(target.name).values(), *shelf.all()]
    seed = random.SystemRandom().randrange(1 << 32)
    return fuzz(target, seed=seed, inputs=inputs, seconds=seconds, keep=lambda data: shelf.put(data) and None)


def shown(report: Report) -> None:
    print(report, flush=True)
    for finding in report.findings:
        path: Path = Shelf(FINDINGS / report.target).put(finding.data)
        print(f"\n{finding.where}, {len(finding.data)} bytes in {path}\n{finding.trace}", flush=True)


def main(arguments: list[str]) -> int:
    seconds = float(arguments[0]) if arguments else SECONDS
    names = arguments[1:] or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    reports = []
    for name in names:
        reports.append(run(TARGETS[name], seconds / len(names)))
        shown(reports[-1])
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
