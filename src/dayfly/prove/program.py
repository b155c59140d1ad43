"""The probes' program in a live sandbox: it is asked one attempt at a time, so whatever the host sees meanwhile is that attempt's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dayfly.client.commands import AsyncProcess
from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import DayflyError
from dayfly.prove.bundle import bundle

__all__ = ["PROGRAM", "Program", "program"]

PROGRAM = ".dayfly-proof.pyz"
"""Where it is written, in the home directory."""

SPARE_SECONDS = 20.0
"""For an answer beyond what its attempt may take: Python starts, and the machine is busy."""

MOST_LINE = 256 * 1024
"""Bytes of one answer. The longest has 20 texts of 200 characters."""


class Program:
    """``failed``: why nothing more can be asked."""

    def __init__(self, process: AsyncProcess) -> None:
        self.failed = ""
        self._process = process
        self._output = process.output()
        self._rest = b""

    async def attempt(self, name: str, arguments: Mapping[str, Any], seconds: float) -> object:
        """What it says of one attempt, as JSON; ``None``: nothing that can be read. What it says is a claim."""
        return await self._ask({"attempt": name, "arguments": arguments, "seconds": seconds}, seconds)

    async def alive(self) -> str:
        """Why it is not; empty: it has answered a question that nobody could foresee."""
        challenge = secrets.token_hex(16)
        said = await self._ask({"challenge": challenge}, 0.0)
        if isinstance(said, dict) and said.get("answer") == hashlib.sha256(challenge.encode()).hexdigest():
            return ""
        return self.failed or "the probes' program gave no sign of life"

    async def _ask(self, question: Mapping[str, Any], seconds: float) -> object:
        if self.failed:
            return None
        try:
            async with asyncio.timeout(seconds + SPARE_SECONDS):
                await self._process.write_stdin(json.dumps(question) + "\n")
                return json.loads(await self._line())
        except TimeoutError:
            self.failed = "the probes' program did not answer in time"
        except DayflyError as error:
            self.failed = f"{type(error).__name__}: {error.message}"
        except (ValueError, RecursionError, EOFError):
            self.failed = "the probes' program has ended, or says what cannot be read"
        return None

    async def _line(self) -> bytes:
        """Raises ``EOFError`` at its end, ``ValueError`` where it is too long."""
        while b"\n" not in self._rest:
            if len(self._rest) > MOST_LINE:
                raise ValueError("too long")
            output = await anext(self._output, None)
            if output is None:
                raise EOFError
            if output.stream == "stdout":
                self._rest += output.data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@asynccontextmanager
async def program(sandbox: AsyncSandbox) -> AsyncIterator[Program]:
    """Raises what starting a command raises."""
    await sandbox.files.write(PROGRAM, bundle())
    async with await sandbox.commands.start(
        ["python3", "-I", PROGRAM], timeout=sandbox.policy.limits.lifetime_seconds
    ) as process:
        yield Program(process)
