"""JSON of the server, read into the nouns of ``dayfly.spec``: every field has the type that it is said to have, or the
whole answer is a ``BadAnswer``. Fields that this client does not know are left alone: a newer server has more of them."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from dayfly.client.remote.failures import BadAnswer
from dayfly.errors import PolicyError
from dayfly.policy import AS_KEPT, Policy
from dayfly.saved import LeftOut, SavedOutputs
from dayfly.spec import (
    Denial,
    EndReason,
    Enforcement,
    Execution,
    ExecutionError,
    FileInfo,
    FileKind,
    LimitReport,
    Outcome,
    ProcessInfo,
    ProcessResult,
    Result,
    Usage,
)

__all__ = [
    "Context",
    "Fields",
    "Told",
    "is_id",
    "load",
    "read_context",
    "read_end",
    "read_execution",
    "read_file_info",
    "read_limits",
    "read_process",
    "read_process_result",
    "read_result",
    "read_usage",
    "told_sandbox",
]

E = TypeVar("E", bound=StrEnum)

MOST = 2**63 - 1

MOST_DENIALS = 1000
"""Of one run: a server remembers the last 200."""

BINARY_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
"""What of a result travels as base64."""


def load(data: bytes) -> object:
    """The JSON value of an answer. Raises ``BadAnswer``."""
    try:
        return _DECODER.decode(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"the server's answer is no JSON: {type(error).__name__}") from None


def _no_number(text: str) -> float:
    raise ValueError(f"JSON has no {text}")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


class Fields:
    """One object of the server. Every method raises ``BadAnswer`` if the field is missing or of another type."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise BadAnswer(f"{what} is no JSON object")
        self._value: dict[str, Any] = value
        self._what = what

    def _wrong(self, name: str, wanted: str) -> BadAnswer:
        found = type(self._value[name]).__name__ if name in self._value else "missing"
        return BadAnswer(f"{self._what}: {name} should be {wanted}, and is {found}")

    def has(self, name: str) -> bool:
        """Whether it is there, and not null."""
        return self._value.get(name) is not None

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def flag(self, name: str) -> bool:
        value = self._value.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def whole(self, name: str, *, most: int = MOST) -> int:
        """From 0 to ``most``."""
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self._wrong(name, f"a whole number up to {most}")
        return value

    def number(self, name: str, *, signed: bool = False) -> float:
        """Finite, and not negative unless ``signed``."""
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -MOST <= value <= MOST:
            raise self._wrong(name, "a number")
        if not signed and value < 0:
            raise self._wrong(name, "a number that is not negative")
        return float(value)

    def one_of(self, name: str, kind: type[E]) -> E:
        try:
            return kind(self.text(name))
        except ValueError:
            raise self._wrong(name, f"one of {', '.join(kind)}") from None

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._value.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return tuple(value)

    def rows(self, name: str) -> list[Fields]:
        value = self._value.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [Fields(row, f"{self._what}: {name}") for row in value]

    def part(self, name: str) -> Fields:
        return Fields(self._value.get(name), f"{self._what}: {name}")

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._value.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def data(self, name: str) -> bytes:
        """Bytes that travelled as base64."""
        try:
            return base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError):
            raise self._wrong(name, "base64") from None

    @property
    def raw(self) -> dict[str, Any]:
        return self._value


@dataclass(frozen=True)
class Context:
    """An interpreter inside. What it says is the sandbox's claim."""

    name: str
    language: str
    busy: bool


@dataclass(frozen=True)
class Told:
    """A sandbox as the server describes it."""

    id: str
    policy: Policy
    languages: tuple[str, ...]
    limits: tuple[LimitReport, ...]
    end_reason: EndReason | None
    end_detail: str
    unsaved: str | None = None


def told_sandbox(one: Fields) -> Told:
    """Raises ``BadAnswer``."""
    ident = one.text("id")
    if not is_id(ident):
        raise BadAnswer("a sandbox's id is letters and digits")
    ended, paused = one.text("state") == "ended", one.text("state") == "paused"
    return Told(
        id=ident,
        policy=_policy(one.mapping("policy")),
        languages=one.texts("languages"),
        limits=read_limits(one),
        end_reason=one.one_of("end_reason", EndReason) if ended else EndReason.PAUSED if paused else None,
        end_detail=one.text("end_detail") if ended and one.has("end_detail") else "",
        unsaved=one.text("unsaved") if ended and one.has("unsaved") else None,
    )


def is_id(text: str) -> bool:
    """Whether a sandbox may be called so."""
    return text.isascii() and text.isalnum() and len(text) <= 128


def _policy(told: dict[str, Any]) -> Policy:
    try:
        return Policy.model_validate(told, context=AS_KEPT)
    except PolicyError as error:
        raise BadAnswer(
            f"the sandbox's policy: {error.message}", remedy="is the server's dayfly a newer one?"
        ) from None


def read_limits(one: Fields) -> tuple[LimitReport, ...]:
    """Raises ``BadAnswer``, as all that follow. Every run brings those of its sandbox: the same again are not read again."""
    global _last_limits
    told = one.raw.get("limits")
    if told is None or not _same(told, _last_limits[0]):
        _last_limits = (told, tuple(map(_limit, one.rows("limits"))))
    return _last_limits[1]


def _same(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:  # what could just be read may be too deep to be compared
        return False


_last_limits: tuple[object, tuple[LimitReport, ...]] = (None, ())


def _limit(one: Fields) -> LimitReport:
    return LimitReport(one.text("name"), one.number("value"), one.one_of("enforcement", Enforcement), one.text("how"))


def read_usage(one: Fields) -> Usage:
    counts = {
        name: one.whole(name) if one.has(name) else None for name in ("memory", "memory_peak", "disk", "processes")
    }
    return Usage(cpu_seconds=one.number("cpu_seconds") if one.has("cpu_seconds") else None, **counts)


def read_execution(one: Fields, *, stdout: str = "", stderr: str = "", results: tuple[Result, ...] = ()) -> Execution:
    """The end of a run, with what has been sent before it."""
    return Execution(
        outcome=one.one_of("outcome", Outcome),
        stdout=stdout,
        stderr=stderr,
        results=results,
        error=_error(one.part("error")) if one.has("error") else None,
        execution_count=one.whole("execution_count"),
        exit_code=_exit_code(one),
        signal=_signal(one),
        state_survived=one.flag("state_survived"),
        limit=one.text("limit") if one.has("limit") else None,
        dropped=one.whole("dropped"),
        duration=one.number("duration"),
        cpu_seconds=one.number("cpu_seconds"),
        end_reason=read_end(one),
        limits=read_limits(one),
        denied=_denials(one),
    )


def _denials(one: Fields) -> tuple[Denial, ...]:
    """A server that is older than they are says nothing of them."""
    if not one.has("denied"):
        return ()
    rows = one.rows("denied")
    if len(rows) > MOST_DENIALS:
        raise BadAnswer(f"more than {MOST_DENIALS} denials in one answer")
    return tuple(map(_denial, rows))


def _denial(one: Fields) -> Denial:
    return Denial(
        host=one.text("host"),
        port=one.whole("port", most=65535) if one.has("port") else None,
        code=one.text("code"),
        reason=one.text("reason"),
        remedy=one.text("remedy"),
        claimed=one.flag("claimed"),
        count=one.whole("count"),
        began=one.text("began") if one.has("began") else None,
    )


def read_end(one: Fields) -> EndReason | None:
    return one.one_of("end_reason", EndReason) if one.has("end_reason") else None


def _exit_code(one: Fields) -> int | None:
    return one.whole("exit_code", most=255) if one.has("exit_code") else None


def _signal(one: Fields) -> int | None:
    return one.whole("signal", most=255) if one.has("signal") else None


def _error(one: Fields) -> ExecutionError:
    return ExecutionError(one.text("name"), one.text("value"), one.text("traceback"))


def read_result(one: Fields) -> Result:
    data = one.part("data")
    return Result(
        {kind: _representation(data, kind) for kind in data.raw}, one.mapping("metadata"), one.flag("is_main")
    )


def _representation(data: Fields, kind: str) -> object:
    if kind == "application/json" or kind.endswith("+json"):
        return data.raw[kind]
    return data.data(kind) if kind in BINARY_TYPES else data.text(kind)


def read_process_result(one: Fields, stdout: bytes, stderr: bytes) -> ProcessResult:
    return ProcessResult(
        outcome=one.one_of("outcome", Outcome),
        stdout=stdout,
        stderr=stderr,
        exit_code=_exit_code(one),
        signal=_signal(one),
        limit=one.text("limit") if one.has("limit") else None,
        dropped=one.whole("dropped"),
        duration=one.number("duration"),
        end_reason=read_end(one),
        denied=_denials(one),
    )


def read_saved(one: Fields) -> SavedOutputs:
    """What became of a sandbox's outputs."""
    return SavedOutputs(
        keys=one.texts("keys"),
        size=one.whole("size"),
        left_out=tuple(LeftOut(row.text("path"), row.text("reason")) for row in one.rows("left_out")),
        left_out_count=one.whole("left_out_count"),
        problem=one.text("problem") if one.has("problem") else None,
    )


def read_process(one: Fields) -> ProcessInfo:
    return ProcessInfo(
        pid=one.whole("pid"),
        argv=one.texts("argv"),
        cwd=one.text("cwd"),
        running=one.flag("running"),
        pty=one.flag("pty"),
        exit_code=_exit_code(one),
        signal=_signal(one),
    )


def read_context(one: Fields) -> Context:
    return Context(one.text("name"), one.text("language"), one.flag("busy"))


def read_file_info(one: Fields) -> FileInfo:
    kind = one.text("kind")
    return FileInfo(
        name=one.text("name"),
        path=one.text("path"),
        kind=FileKind(kind) if kind in set(FileKind) else FileKind.OTHER,
        size=one.whole("size"),
        mode=one.whole("mode", most=0o7777),
        modified=one.number("modified", signed=True),
        target=one.text("target") if one.has("target") else None,
    )
