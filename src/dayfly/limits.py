"""What a sandbox may use. Every default stands here with its unit and its reason; there are no other bare numbers.

Sizes are bytes, times are seconds, CPU is cores. A size may be written as text: ``"512MiB"``, ``"2GB"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dayfly.errors import InputError, PolicyError

__all__ = [
    "AS_KEPT",
    "GIB",
    "KIB",
    "LONGEST_LIFE",
    "LONGEST_PAUSE",
    "MIB",
    "MOST_FORKS",
    "MOST_PAUSED",
    "ByteSize",
    "Checked",
    "Limits",
    "Unfit",
    "amount_text",
    "parse_size",
    "size_text",
]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

LONGEST_LIFE = 14 * 86400
"""Seconds that a sandbox may live, whatever is asked for. Two weeks: what is needed for longer is no disposable one."""

LONGEST_PAUSE = 14 * 86400
"""Seconds that a paused sandbox is kept at most: a fortnight, after which few come back, and machines have been updated."""

MOST_PAUSED = 50 * GIB
"""Bytes on disk of all paused sandboxes together: some 400 with pandas loaded."""

MOST_FORKS = 16
"""Copies that one call makes: each is a sandbox, and all of them start at once."""

_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1000, "kib": KIB, "m": 10**6, "mb": 10**6, "mib": MIB,
          "g": 10**9, "gb": 10**9, "gib": GIB}  # fmt: skip
_SIZE = re.compile(r"^\s*(\d{1,30}(?:\.\d{1,30})?)\s*([a-zA-Z]*)\s*$", re.ASCII)
_HOW_TO_WRITE = "write bytes, or text such as '512MiB': a number with KiB, MiB, GiB, kB, MB or GB"


def parse_size(value: Any) -> int:
    """Bytes from an integer or from text such as ``"512MiB"``. Raises ``InputError``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.match(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InputError(f"not a size: {_shown(value)}", remedy=_HOW_TO_WRITE)
    return int(Fraction(match[1]) * unit)


def size_text(size: float) -> str:
    """A number of bytes for a person: ``1 GiB``, ``96 MiB``, ``1000 B``."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size and size % unit == 0:
            return f"{size / unit:.0f} {name}" if abs(size) < 2**80 else "far too many bytes"
    return f"{size:.0f} B"


AS_KEPT = {"kept": True}
"""pydantic's context for a policy that was checked when it was given, and is read back: this machine's files are not looked at,
nor lists that change, such as that of public suffixes. They are where it is used again."""


class Unfit(ValueError):
    """For validators: what is wrong in one clause, and what to do about it."""

    def __init__(self, message: str, remedy: str | None) -> None:
        super().__init__(message)
        self.remedy = remedy


class Checked(BaseModel):
    """A frozen model without unknown keys, whose mistakes are a ``PolicyError`` in the words of whoever wrote them.

    As a field of another model it behaves as any model does: pydantic collects its mistakes in that model's
    ``ValidationError``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **data: Any) -> None:
        with _in_plain_words(type(self)):
            super().__init__(**data)

    # Told apart from a constructor of one's own, which pydantic would call for nested models, and so lose their place.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Raises ``PolicyError``."""
        with _in_plain_words(cls):
            return super().model_validate(obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Raises ``PolicyError``."""
        with _in_plain_words(cls):
            return super().model_validate_json(json_data, **options)

    if not TYPE_CHECKING:  # a checker shall still refuse the assignment

        def __setattr__(self, name: str, value: object) -> None:
            with _in_plain_words(type(self)):
                super().__setattr__(name, value)


@contextmanager
def _in_plain_words(model: type[BaseModel]) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise _policy_error(error, model) from None


_MOST_PROBLEMS = 8  # that are told at once: beyond that it is not a policy at all


def _policy_error(error: ValidationError, model: type[BaseModel]) -> PolicyError:
    problems = [_problem(dict(item), model) for item in error.errors(include_url=False)]
    told = [message for message, _ in problems[:_MOST_PROBLEMS]]
    if len(problems) > len(told):
        told.append(f"and {len(problems) - len(told)} more")
    remedies = dict.fromkeys(remedy for _, remedy in problems[:_MOST_PROBLEMS])
    return PolicyError("; ".join(told), remedy="; ".join(remedies))


def _problem(item: dict[str, Any], model: type[BaseModel]) -> tuple[str, str]:
    """One mistake: what is wrong, and what to do."""
    loc, kind = item["loc"], item["type"]
    holder = _holder(model, loc)
    name = next((part for part in reversed(loc) if isinstance(part, str)), "")
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".") or model.__name__
    if kind == "extra_forbidden":
        return f"there is no key {key!r}", _nearest(name, _own_first(holder))
    if kind == "missing":
        return f"{key} is missing", f"give {key}"
    if kind == "value_error":
        error = item["ctx"]["error"]
        return (f"{key}: {error}" if loc else str(error)), getattr(error, "remedy", None) or _default(holder, name)
    if kind == "frozen_instance":
        return f"a {holder.__name__} is frozen: {name} cannot be changed", f"make a new {holder.__name__}"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {amount_text(name, item['ctx']['ge'])}" if "ge" in item["ctx"] else ""
        bound = bound or f"at most {amount_text(name, item['ctx']['le'])}"
        return f"{key} must be {bound}, not {amount_text(name, item['input'])}", _range(holder, name)
    if kind == "model_type":
        return f"{key} has keys of its own, and is not {_shown(item['input'])}", _keys(_inner(holder, name) or holder)
    message = str(item["msg"]).replace("Input should be", "must be")
    return f"{key} {message}, not {_shown(item['input'])}", _default(holder, name)


def _holder(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model, at or below ``model``, that the last key of ``loc`` belongs to."""
    keys = [part for part in loc if isinstance(part, str)]
    for part, following in pairwise(keys):
        field = model.model_fields.get(part)
        below = list(_models(field.annotation)) if field else []
        model = next((one for one in below if following in one.model_fields), below[0] if below else model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Those that an annotation speaks of, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _own_first(model: type[BaseModel]) -> list[str]:
    """Names of fields: what makes it what it is, then what others have too."""
    own = [name for name in model.__annotations__ if name in model.model_fields]
    names = [*own, *(name for name in model.model_fields if name not in own)]
    return [model.model_fields[name].alias or name for name in names]


def _nearest(name: str, names: list[str]) -> str:
    import difflib  # only for mistakes

    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"keys are {', '.join(names)}"


def _inner(holder: type[BaseModel], name: str) -> type[BaseModel] | None:
    field = holder.model_fields.get(name)
    return next(_models(field.annotation), None) if field else None


def _keys(model: type[BaseModel]) -> str:
    return f"keys are {', '.join(_own_first(model))}"


def _default(holder: type[BaseModel], name: str) -> str:
    field = holder.model_fields.get(name)
    if field is None or field.is_required():
        return f"keys are {', '.join(_own_first(holder))}"
    if isinstance(field.default, BaseModel):
        return f"keys are {', '.join(type(field.default).model_fields)}"
    return f"the default is {_shown(field.default)}"


def _range(holder: type[BaseModel], name: str) -> str:
    bounds = {
        key: getattr(one, key)
        for one in holder.model_fields[name].metadata
        for key in ("ge", "le")
        if hasattr(one, key)
    }
    return f"{name} may be {amount_text(name, bounds['ge'])} to {amount_text(name, bounds['le'])}"


def amount_text(name: str, value: Any) -> str:
    """The value of a limit with the unit of its name, for a person: ``1 GiB``, ``60 s``, ``256``."""
    if isinstance(value, (int, float)) and abs(value) < 10**18:
        if name in _SIZES:
            return size_text(value)
        return f"{value:g} s" if name.endswith("_seconds") else f"{value:g}"
    return _shown(value)


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001  # such as an integer of too many digits: what cannot be shown is still refused
        return f"a {type(value).__name__}"


def _size_for_pydantic(value: Any) -> int:
    try:
        return parse_size(value)
    except InputError as error:
        raise Unfit(error.message, error.remedy) from error


ByteSize = Annotated[int, BeforeValidator(_size_for_pydantic)]


class Limits(Checked):
    """Caps of one sandbox. Frozen; unknown keys are errors. Raises ``PolicyError``.

    The ranges refuse what cannot work (a Python needs some tens of MiB) and what is surely a mistake.
    """

    cpus: float = Field(1.0, ge=0.1, le=1024)
    """Cores. One: model-written code is mostly single-threaded, and a loop then takes one core, not the machine."""

    memory: ByteSize = Field(1 * GIB, ge=96 * MIB, le=1024 * GIB)
    """Bytes for everything inside together, tmpfs included. 1 GiB: pandas with a 100 MB file fits, a leak stays small."""

    processes: int = Field(256, ge=16, le=32768)
    """Processes and threads inside together. 256: a thread pool per core and node fit, a fork bomb ends early."""

    disk: ByteSize = Field(2 * GIB, ge=16 * MIB, le=1024 * GIB)
    """Bytes written over the read-only image (home, /tmp, ...). 2 GiB: a data set and its results."""

    shm: ByteSize = Field(64 * MIB, ge=1 * MIB, le=64 * GIB)
    """Bytes of /dev/shm, a tmpfs counted as memory. 64 MiB: what Docker gives, enough for multiprocessing."""

    open_files: int = Field(1024, ge=64, le=65536)
    """Open descriptors per process: the usual soft limit of Linux."""

    output: ByteSize = Field(4 * MIB, ge=1 * KIB, le=4 * GIB)
    """Bytes of stdout, stderr and rich results that one run may deliver. 4 MiB: more than a model can read."""

    run_seconds: float = Field(60.0, ge=0.05, le=86400)
    """Wall time of one run. A minute: longer work says so with ``timeout=``."""

    run_cpu_seconds: float = Field(60.0, ge=0.05, le=86400 * 64)
    """CPU time of one run, over all its processes."""

    lifetime_seconds: float = Field(1800.0, ge=1, le=LONGEST_LIFE)
    """Wall time of the sandbox, whatever happens in it. Half an hour: one conversation's work."""

    idle_seconds: float = Field(600.0, ge=1, le=LONGEST_LIFE)
    """Wall time without any call before the sandbox ends. Ten minutes: a person reading an answer."""

    cpu_seconds: float = Field(3600.0, ge=1, le=86400 * 64)
    """CPU time of the sandbox over its life. An hour: a loop ends in a bounded failure, not in a bill."""


_SIZES = frozenset(
    name
    for name, field in Limits.model_fields.items()
    if any(isinstance(one, BeforeValidator) for one in field.metadata)
) | {"max_bytes", "rate"}  # of a rule of the network
