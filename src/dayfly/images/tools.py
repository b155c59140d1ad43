"""Running the host's own tools (apt, dpkg-deb, pip) for a build: bounded, dying with the builder, errors translated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dayfly.errors import HostError, OutOfSpace
from dayfly.limits import KIB, MIB

__all__ = ["ToolFailed", "need", "run", "with_parent_death"]

# Of all that one tool may say: resolving the largest images takes some 100 kB.
_OUTPUT_CAP = 32 * MIB
_LINE_CAP = 64 * KIB  # a longer line comes in parts
# What is kept of a tool's output for the error message; a page says enough.
_TAIL = 4000


class ToolFailed(HostError):
    """A tool of the host ended with an error. ``output`` is the end of what it said."""

    def __init__(self, message: str, output: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.output = output


def need(name: str, package: str) -> str:
    """The path of a host tool. Raises ``HostError`` naming the package that has it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise HostError(f"{name} is not installed", remedy=f"apt-get install {package}")
    return found


def with_parent_death(argv: Sequence[str]) -> list[str]:
    """``argv`` so that it is killed when this thread ends, even by SIGKILL: no tool goes on in a dead build."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else list(argv)


def run(
    argv: Sequence[str],
    *,
    what: str,
    remedy: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a tool to its end and return its stdout. ``what`` is the sentence for the error: "cannot ...".

    No time limit: downloads may be slow, and the tools have their own network timeouts. Raises ``ToolFailed`` or
    ``OutOfSpace``.
    """
    lines: list[str] = []
    size = 0
    with subprocess.Popen(
        with_parent_death(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**(os.environ if env is None else env), "LC_ALL": "C.UTF-8"},
        cwd=cwd,
        text=True,
        errors="replace",
    ) as process:
        try:
            while line := process.stdout.readline(_LINE_CAP) if process.stdout else "":
                size += len(line)
                if size > _OUTPUT_CAP:
                    raise ToolFailed(f"{what}: {argv[0]} does not stop talking", line[:_TAIL], remedy=remedy)
                lines.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise _failure(what, "".join(lines), remedy)
    return "".join(lines)


def _failure(what: str, output: str, remedy: str | None) -> HostError:
    if "No space left" in output or "Disk quota exceeded" in output:
        return OutOfSpace(f"{what}: no space left", remedy="free some space, or set DAYFLY_DATA to another disk")
    wrong = [line for line in output.splitlines() if re.match(r"^(E:|ERROR:|error:|.*: error)", line)]
    said = " ".join((wrong or output.splitlines()[-1:])[:2]).strip()
    return ToolFailed(f"{what}: {plain(said)}" if said else what, output[-_TAIL:], remedy=remedy)


def plain(text: str) -> str:
    """What a tool said, on one line and bounded."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text)[:400]
