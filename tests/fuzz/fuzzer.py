"""The loop: try an input made of a former one, and keep it if it went where none has been."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from tests.fuzz.coverage import Coverage, constants, covered
from tests.fuzz.mutation import Mutation
from tests.fuzz.target import Target, trial, weighed

__all__ = ["Finding", "Fuzzer", "Report", "fuzz"]

MOST_FINDINGS = 20
"""Of one target: whoever has that many mends some first."""

SHRINKING = 400
"""Trials that one finding is worth, to make it smaller."""

_RECENT = 0.5
"""How often what was found last is tried on: it is where nobody has been."""


@dataclass(frozen=True)
class Finding:
    """``where`` names the kind of it: two inputs with the same are one finding."""

    data: bytes
    where: str
    trace: str


@dataclass
class Report:
    """Of one target: ``executions``, branches that were ``taken`` of those that there are, inputs that were kept."""

    target: str
    executions: int = 0
    branches: int = 0
    taken: int = 0
    kept: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.target:12} {self.executions:9} inputs in {self.seconds:6.1f} s, {self.taken:4} of {self.branches:4} branches, "
            f"{self.kept:4} kept, {len(self.findings)} findings"
        )


class Fuzzer:
    """Over ``coverage``, which counts the branches of the target's modules."""

    def __init__(
        self,
        target: Target,
        coverage: Coverage,
        chance: random.Random,
        inputs: Iterable[bytes],
        keep: Callable[[bytes], None],
        most: int,
    ) -> None:
        self._most = most
        self._tell = keep
        self.report = Report(target.name, branches=coverage.branches)
        self._target = target
        self._coverage = coverage
        self._chance = chance
        self._mutation = Mutation(chance, constants(target.reads), target.words, target.longest)
        self._features: set[tuple[int, int]] = set()
        self._inputs: list[bytes] = []
        self._known: set[str] = set()
        for data in (*target.seeds, *inputs, b""):
            if not self.enough:
                self._try(data)
        self._inputs = self._inputs or [b""]

    def step(self) -> None:
        """One more input."""
        data = self._chance.choice(self._inputs[-16:] if self._chance.random() < _RECENT else self._inputs)
        self._try(self._mutation.of(data, self._chance.choice(self._inputs)))

    @property
    def enough(self) -> bool:
        return len(self.report.findings) >= self._most

    def _try(self, data: bytes) -> None:
        self.report.executions += 1
        self._coverage.clear()
        finding = _failure(self._target, data)
        features = self._coverage.features()
        if finding is not None:
            self._found(finding)
        elif not features <= self._features:
            self._features |= features
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Only these are weighed: that is slow, and what takes another way is what may take more."""
        self._inputs.append(data)
        self._tell(data)
        self.report.kept = len(self._inputs)
        self.report.taken = len({number for number, _ in self._features})
        heavy = _failure(self._target, data, weigh=True)
        if heavy is not None:
            self._found(heavy)

    def _found(self, finding: Finding) -> None:
        if finding.where not in self._known:
            self._known.add(finding.where)
            self.report.findings.append(self._smaller(finding) if self._most > 1 else finding)

    def _smaller(self, finding: Finding) -> Finding:
        """The same with less: runs are taken away while it stays what it is."""
        data, size, left = finding.data, max(1, len(finding.data) // 2), SHRINKING
        while size and left:
            at = 0
            while at < len(data) and left:
                left -= 1
                less = data[:at] + data[at + size :]
                again = _failure(self._target, less, weigh=finding.where.startswith("Greedy"))
                if again is not None and again.where == finding.where:
                    data, finding = less, again
                else:
                    at += size
            size //= 2
        return finding


def _failure(target: Target, data: bytes, *, weigh: bool = False) -> Finding | None:
    try:
        (weighed if weigh else trial)(target, data)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return Finding(data, _where(error), "".join(traceback.format_exception(error)))
    return None


def _where(error: BaseException) -> str:
    """The kind of error and the last place in this project that it came from."""
    name = type(error).__name__
    if name in ("Endless", "Greedy"):
        return name
    frames = [
        one for one in traceback.extract_tb(error.__traceback__) if "dayfly" in one.filename or "tests" in one.filename
    ]
    last = frames[-1] if frames else None
    return f"{name} at {last.filename.rpartition('/')[2]}:{last.lineno}" if last else name


def fuzz(
    target: Target,
    *,
    seed: int,
    inputs: Iterable[bytes] = (),
    examples: int | None = None,
    seconds: float | None = None,
    keep: Callable[[bytes], None] = lambda data: None,
    most: int = MOST_FINDINGS,
) -> Report:
    """So many ``examples``, or for so many ``seconds``. The same seed and examples try the same inputs. ``keep`` is told of each that went
    where none had been. It ends after ``most`` findings; a single one is given as it was found."""
    begun = time.monotonic()
    with closing(target), covered(target.reads) as coverage:
        one = Fuzzer(target, coverage, random.Random(seed), inputs, keep, most)
        while not one.enough and (examples is None or one.report.executions < examples):
            if seconds is not None and time.monotonic() - begun >= seconds:
                break
            one.step()
    one.report.seconds = time.monotonic() - begun
    return one.report
