"""One run of a command, bounded in time and in what it says. Whatever comes out is hostile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dayfly.prove.ended import gone

__all__ = ["MOST_OUTPUT", "Output", "run"]

MOST_OUTPUT = 256 * 1024
"""Bytes that are kept of each of its two streams. The longest row has 20 texts of 200 characters; who says more is ended."""

PIECE = 65536
"""Bytes of one read."""

GONE_SECONDS = 5.0
"""For one that was killed to be gone."""


@dataclass(frozen=True)
class Output:
    """``why``: what went wrong with the run itself; empty: it ended by itself, whatever its exit code."""

    stdout: str = ""
    stderr: str = ""
    why: str = ""

    def last_line(self) -> str:
        """Of the errors, or else of the output: what a person would look at first."""
        for said in (self.stderr, self.stdout):
            lines = [line.strip() for line in said.splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return ""


async def run(command: Sequence[str], program: bytes, seconds: float, environment: Mapping[str, str]) -> Output:
    """Never raises for what the command does. Its process group is gone afterwards."""
    try:
        process = await _started(command, program, environment)
    except OSError as error:
        return Output(why=f"{command[0]} cannot be started: {error.strerror}")
    streams = (_Kept(process.stdout), _Kept(process.stderr))
    why = ""
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for one in streams:
                group.create_task(one.read())
            group.create_task(process.wait())
    except* TimeoutError:
        why = f"it was not done in {seconds:g} s"
    except* _TooMuch:
        why = f"it said more than {MOST_OUTPUT} bytes"
    finally:
        _kill(process)
        await gone(process, GONE_SECONDS)
    return Output(streams[0].text(), streams[1].text(), why)


async def _started(
    command: Sequence[str], program: bytes, environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """With the program as a file on its standard input, which nobody has to feed. Raises ``OSError``."""
    with tempfile.TemporaryFile() as given:
        given.write(program)
        given.seek(0)
        return await asyncio.create_subprocess_exec(
            *command, stdin=given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True, env=environment,
        )  # fmt: skip


class _TooMuch(Exception):
    pass


class _Kept:
    """A stream, up to what is kept of it."""

    def __init__(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None  # it was asked for
        self._stream, self._said = stream, b""

    async def read(self) -> None:
        """To its end. Raises ``_TooMuch``."""
        while piece := await self._stream.read(PIECE):
            self._said += piece
            if len(self._said) > MOST_OUTPUT:
                raise _TooMuch

    def text(self) -> str:
        return self._said[:MOST_OUTPUT].decode("utf-8", "replace")


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
