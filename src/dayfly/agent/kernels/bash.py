"""The Bash kernel: its codec is simpler than the others', since Bash has no JSON (see driver.sh)."""

from __future__ import annotations

import os

from dayfly.agent.kernels import find_program
from dayfly.agent.kernels.codec import Codec
from dayfly.agent.kernels.records import MAX_VALUE, BadRecord, clip_error
from dayfly.agent.kernels.scripts import installed, source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dayfly.agent.kernels.codec import Launch
    from dayfly.agent.lent import Change, Row
    from dayfly.agent.supervisor import Child

CELL = 'eval "$__dayfly_code"\n'
"""One line, so that the line numbers in error messages are the cell's own."""

INTERRUPTED = 130
"""The exit code that a shell gives for SIGINT."""

MAX_RECORD = 4 * MAX_VALUE
"""Bytes of one answer: three numbers and what the parser complains about."""


class BashCodec(Codec):
    """A non-zero exit code is not an error of the run: it is the run's ``exit_code``. Code that does not parse is one."""

    may_exit = True
    loses_interrupts = True  # a subshell forgets, as it begins, the signals that its trap has not yet run for

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    def start(self, launch: Launch) -> Child:
        program = find_program("bash", launch.environment.get("PATH", "")) or "/bin/bash"
        argv = [program, "--norc", "--noprofile", "-c", source("driver.sh"), "bash"]
        cell = installed("cell", CELL)
        return launch.program(argv, {"DAYFLY_CONTROL": str(launch.control), "DAYFLY_CELL": cell})

    def check(self, code: str) -> str | None:
        if "\0" in code:
            return "Bash code cannot contain NUL"
        try:
            os.fsencode(code)
        except UnicodeEncodeError:
            return "the code is not encodable as UTF-8"
        return None

    def request(
        self, run: int, code: str, cap: int, environment: Mapping[str, str] | None, change: Change | None = None
    ) -> bytes:
        first = os.fsencode("".join(map(_statement, change.rows))) if change is not None else b""
        content = os.fsencode(code)
        return b"%d %d %d\n" % (run, len(first), len(content)) + first + content

    def wanted(self) -> int:
        return MAX_RECORD

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> dict[str, object] | None:
        end = self._buffer.find(b"\0")
        if end < 0:
            if len(self._buffer) > MAX_RECORD:
                raise BadRecord("a record without an end")
            return None
        record = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return {"ready": {"kernel": "bash"}} if record == b"ready" else _done(record)


def _statement(row: Row) -> str:
    """One variable gets its value if it has the one that is expected."""
    name, before, after = row
    test = f"! -v {name}" if before is None else f"-v {name} && ${name} == {_quoted(before)}"
    work = f"unset -v {name}" if after is None else f"export {name}={_quoted(after)}"
    return f"[[ {test} ]] && builtin {work} 2>/dev/null\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _done(record: bytes) -> dict[str, object]:
    parts = record.split(b" ", 3)
    if len(parts) != 4 or not all(part.isdigit() and len(part) < 10 for part in parts[:3]):
        raise BadRecord("a record of no known kind")
    run, code, interrupted = map(int, parts[:3])
    complaint = parts[3].decode("utf-8", "replace").partition(": ")[2]
    done: dict[str, object] = {
        "done": run,
        "status": "ok",
        "error": None,
        "limit": None,
        "exit_code": code & 0xFF,
        "background": 0,
    }
    if interrupted:
        done.update(status="interrupted", exit_code=INTERRUPTED)
    elif complaint:
        done.update(status="error", error=clip_error("SyntaxError", complaint, complaint))
    return done
