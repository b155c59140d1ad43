"""What a sandbox may do. Parsed from Python, JSON or TOML; unknown keys are errors; frozen."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from dayfly.limits import AS_KEPT, LONGEST_LIFE, Checked, Limits, Unfit
from dayfly.network import BaseRule, Input, Network, Output, refuse_overlapping

__all__ = ["AS_KEPT", "DEFAULT_IMAGE", "DataMount", "Policy", "parse_policy"]

DEFAULT_IMAGE = "data"

# Never mounted, nor anything below or above them: they hold other people's secrets, sockets or kernel interfaces.
_FORBIDDEN_SOURCES = tuple(
    Path(name)
    for name in (
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/var/run",
        "/boot",
        "/etc",
        "/var/lib/docker",
        "/var/lib/containerd",
        "/var/lib/kubelet",
    )
)
_FORBIDDEN_TARGETS = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/root",
    "/.dayfly",
)
_GOOD_TARGET = "a target such as '/data' is free"
_GOOD_SOURCE = "put the data into a directory of its own, and mount that"


class DataMount(Checked):
    """A host file or directory, read-only inside at ``target``. Read-only is enforced outside the guest.

    Raises ``PolicyError``.
    """

    source: Path
    target: str

    @field_validator("source")
    @classmethod
    def _safe_source(cls, source: Path, info: ValidationInfo) -> Path:
        if not source.is_absolute():
            raise Unfit(f"mount source must be absolute: {str(source)!r}", "write the whole path, from / on")
        if info.context == AS_KEPT:
            return source
        try:
            real = source.resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, ValueError, RuntimeError) as error:  # also NUL in it, and links in a circle
            raise Unfit(
                f"mount source cannot be used: {str(source)!r}: {getattr(error, 'strerror', None) or error}",
                "name a file or directory of this machine that you may read",
            ) from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise Unfit(
                f"mount source must be a file or directory, not a socket or device: {str(real)!r}",
                "mount the directory that holds the data",
            )
        _refuse_private(real)
        return real

    @field_validator("target")
    @classmethod
    def _safe_target(cls, target: str) -> str:
        normal = posixpath.normpath(target)
        if (
            not target.startswith("/")
            or target.startswith("//")
            or normal != target.rstrip("/")
            or "\0" in target
            or normal == "/"
        ):
            raise Unfit(f"mount target must be a plain absolute path: {target!r}", _GOOD_TARGET)
        if any(normal == bad or normal.startswith(bad + "/") for bad in _FORBIDDEN_TARGETS):
            raise Unfit(f"mount target is a system path of the sandbox: {target!r}", _GOOD_TARGET)
        return normal


def _refuse_private(real: Path) -> None:
    for home in (Path.home().resolve(), Path("/root")):
        if home.is_relative_to(real) or _is_hidden_below(real, home):
            raise Unfit(f"mount source is or holds a home directory, or is hidden in one: {str(real)!r}", _GOOD_SOURCE)
    others = Path("/home")
    if real == others or (real.is_relative_to(others) and len(real.relative_to(others).parts) == 1):
        raise Unfit(f"mount source is or holds a home directory, or is hidden in one: {str(real)!r}", _GOOD_SOURCE)
    if real.is_relative_to(others) and _is_hidden_below(real, others / real.relative_to(others).parts[0]):
        raise Unfit(f"mount source is hidden in a home directory: {str(real)!r}", _GOOD_SOURCE)
    for bad in _FORBIDDEN_SOURCES:
        if real.is_relative_to(bad) or bad.is_relative_to(real):
            raise Unfit(f"mount source is or holds a system path: {str(real)!r}", _GOOD_SOURCE)


def _is_hidden_below(real: Path, home: Path) -> bool:
    """Anything hidden in a home (``~/.ssh``) holds somebody's secrets; a plain project folder there is fine."""
    return real.is_relative_to(home) and any(part.startswith(".") for part in real.relative_to(home).parts)


class Policy(Checked):
    """What one sandbox may do. Raises ``PolicyError``.

    ``strict`` demands that every limit be *enforced* by a kernel; otherwise *watched* ones are accepted too. A limit
    that is neither is refused unless ``accept_unenforced`` names it.
    """

    boundary: str = "gvisor"
    image: str = DEFAULT_IMAGE
    network: Network = "none"
    """Where it may connect to: rules, each for a name. A literal address is nowhere."""
    inputs: tuple[Input, ...] = ()
    """Objects that are files inside before anything runs there. The code needs no network for them."""
    outputs: tuple[Output, ...] = ()
    """Files that become objects when the sandbox ends in good order, and when they are asked for."""
    limits: Limits = Limits()
    longest_seconds: float = Field(86400.0, ge=1, le=LONGEST_LIFE)
    """Wall time of the sandbox's life that extending it may not go beyond. A day."""
    mounts: tuple[DataMount, ...] = ()
    strict: bool = False
    accept_unenforced: frozenset[str] = frozenset()

    @field_validator("accept_unenforced")
    @classmethod
    def _known_limits(cls, names: frozenset[str]) -> frozenset[str]:
        unknown = sorted(names - set(Limits.model_fields))
        if unknown:
            raise Unfit(f"no such limit: {', '.join(unknown)}", f"limits are {', '.join(Limits.model_fields)}")
        return names

    @field_validator("inputs", "outputs", mode="before")
    @classmethod
    def _a_list(cls, ones: object, info: ValidationInfo) -> object:
        if isinstance(ones, Mapping):
            name = info.field_name
            raise Unfit(f"{name} are a list", f"write [{{...}}]; in TOML [[{name}]], in two brackets")
        return ones

    @field_validator("inputs")
    @classmethod
    def _inputs_apart(cls, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        refuse_overlapping(inputs, "inputs", places=False)
        return inputs

    @field_validator("outputs")
    @classmethod
    def _outputs_apart(cls, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        refuse_overlapping(outputs, "outputs", places=True)
        return outputs

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        if self.strict and self.accept_unenforced:
            raise Unfit("strict demands every limit, accept_unenforced lets some go", "choose one of the two")
        targets = [mount.target for mount in self.mounts]
        for one in targets:
            if sum(other == one or other.startswith(one + "/") for other in targets) > 1:
                raise Unfit(f"mount targets overlap at {one!r}", "give each mount a target of its own")
        return self

    @property
    def destinations(self) -> tuple[tuple[str, BaseRule], ...]:
        """Everything that it leads to outside, each with its place in the policy: rules, and what is copied."""
        rules = () if isinstance(self.network, str) else self.network
        return (
            *((f"network[{index}]", rule) for index, rule in enumerate(rules)),
            *((f"inputs[{index}]", one.rule) for index, one in enumerate(self.inputs)),
            *((f"outputs[{index}]", one.rule) for index, one in enumerate(self.outputs)),
        )


def parse_policy(value: Policy | dict[str, Any] | None) -> Policy:
    """A ``Policy`` from what a caller gave. Raises ``PolicyError`` that names every mistake."""
    return value if isinstance(value, Policy) else Policy.model_validate({} if value is None else value)
