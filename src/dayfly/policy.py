"""What a sandbox may do. Parsed from Python, JSON or TOML; unknown keys are errors; frozen."""

from __future__ import annotations

import posixpath
import stat
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from dayfly.errors import PolicyError
from dayfly.limits import Limits

__all__ = ["DEFAULT_IMAGE", "DataMount", "Policy", "parse_policy"]

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


class DataMount(BaseModel):
    """A host file or directory, read-only inside at ``target``. Read-only is enforced outside the guest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Path
    target: str

    @field_validator("source")
    @classmethod
    def _safe_source(cls, source: Path) -> Path:
        if not source.is_absolute():
            raise ValueError(f"mount source must be absolute: {str(source)!r}")
        try:
            real = source.resolve(strict=True)
            mode = real.stat().st_mode
        except OSError as error:
            raise ValueError(f"mount source cannot be used: {str(source)!r}: {error.strerror}") from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ValueError(f"mount source must be a file or directory, not a socket or device: {str(real)!r}")
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
            raise ValueError(f"mount target must be a plain absolute path: {target!r}")
        if any(normal == bad or normal.startswith(bad + "/") for bad in _FORBIDDEN_TARGETS):
            raise ValueError(f"mount target is a system path of the sandbox: {target!r}")
        return normal


def _refuse_private(real: Path) -> None:
    for home in (Path.home().resolve(), Path("/root")):
        if home.is_relative_to(real) or _is_hidden_below(real, home):
            raise ValueError(f"mount source is or holds a home directory, or is hidden in one: {str(real)!r}")
    others = Path("/home")
    if real == others or (real.is_relative_to(others) and len(real.relative_to(others).parts) == 1):
        raise ValueError(f"mount source is or holds a home directory, or is hidden in one: {str(real)!r}")
    if real.is_relative_to(others) and _is_hidden_below(real, others / real.relative_to(others).parts[0]):
        raise ValueError(f"mount source is hidden in a home directory: {str(real)!r}")
    for bad in _FORBIDDEN_SOURCES:
        if real.is_relative_to(bad) or bad.is_relative_to(real):
            raise ValueError(f"mount source is or holds a system path: {str(real)!r}")


def _is_hidden_below(real: Path, home: Path) -> bool:
    """Anything hidden in a home (``~/.ssh``) holds somebody's secrets; a plain project folder there is fine."""
    return real.is_relative_to(home) and any(part.startswith(".") for part in real.relative_to(home).parts)


class Policy(BaseModel):
    """What one sandbox may do.

    ``strict`` demands that every limit be *enforced* by a kernel; otherwise *watched* ones are accepted too. A limit
    that is neither is refused unless ``accept_unenforced`` names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    boundary: str = "gvisor"
    image: str = DEFAULT_IMAGE
    network: Literal["none"] = "none"
    limits: Limits = Limits()
    mounts: tuple[DataMount, ...] = ()
    strict: bool = False
    accept_unenforced: frozenset[str] = frozenset()

    @field_validator("accept_unenforced")
    @classmethod
    def _known_limits(cls, names: frozenset[str]) -> frozenset[str]:
        unknown = sorted(names - set(Limits.model_fields))
        if unknown:
            raise ValueError(f"no such limit: {', '.join(unknown)}; limits are {', '.join(Limits.model_fields)}")
        return names

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        if self.strict and self.accept_unenforced:
            raise ValueError("strict demands every limit; accept_unenforced lets some go: choose one")
        targets = [mount.target for mount in self.mounts]
        for one in targets:
            if sum(other == one or other.startswith(one + "/") for other in targets) > 1:
                raise ValueError(f"mount targets overlap at {one!r}")
        return self


def parse_policy(value: Policy | dict[str, Any] | None) -> Policy:
    """A ``Policy`` from what a caller gave. Raises ``PolicyError`` with one line per mistake."""
    if isinstance(value, Policy):
        return value
    try:
        return Policy.model_validate(value or {})
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, item['loc'])) or 'policy'}: {item['msg']}" for item in error.errors(include_url=False)
        ]
        raise PolicyError("; ".join(lines)) from error
