"""Another sandbox of the same machine, which leaves and starts what a careless one would."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import HostError
from dayfly.prove.bait import Bait
from dayfly.prove.bundle import bundle
from dayfly.prove.marks import tells
from dayfly.prove.probe import Probe
from dayfly.prove.program import PROGRAM, program

__all__ = ["PORT", "Neighbour", "neighbour"]

PORT = 8765
"""Where it listens, on all that it has."""

MOST_SAID = 4096
"""Characters of it that are kept until then."""

READY_SECONDS = 20.0
"""Until it says that it listens: Python starts."""

_TOLD = 200  # characters of what it said that an error shows
_REMEDY = "see what loads this machine, then prove again"


@dataclass
class Neighbour:
    """A scene: what the host watches, and what the neighbour alone knows. ``drawn``: what it has drawn at random."""

    prey: Bait
    sandbox: AsyncSandbox
    secret: str
    marks: Mapping[str, Any]
    drawn: Sequence[str]

    async def alive(self) -> str:
        """It answers itself, so whoever could reach it would have an answer."""
        asking = f"import socket\nprint(socket.create_connection(('127.0.0.1', {PORT}), 5).recv(100).decode())"
        done = await self.sandbox.commands.run(["python3", "-I", "-c", asking], timeout=READY_SECONDS)
        if self.secret not in done.stdout.decode("ascii", "replace"):
            return "the other sandbox does not answer itself"
        return await self.prey.alive()

    def watch(self) -> None:
        self.prey.watch()

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        return self.prey.contacts(probe)

    def late(self, probe: Probe) -> tuple[str, ...]:
        return self.prey.late(probe)

    def strays(self) -> tuple[str, ...]:
        return self.prey.strays()

    def leaked(self, output: str) -> tuple[str, ...]:
        found = [
            ("the other sandbox's secret", self.secret),
            *(("what the other one has drawn", one) for one in self.drawn),
        ]
        return (*self.prey.leaked(output), *dict.fromkeys(what for what, value in found if tells(output, value)))


@asynccontextmanager
async def neighbour(sandbox: AsyncSandbox, prey: Bait) -> AsyncIterator[Neighbour]:
    """Raises ``HostError`` where it does not begin to listen."""
    secret, nonce = secrets.token_hex(16), f"left{secrets.token_hex(8)}"
    await sandbox.files.write(PROGRAM, bundle())
    process = await sandbox.commands.start(
        ["python3", "-I", PROGRAM, "neighbour", json.dumps({"secret": secret, "nonce": nonce, "port": PORT})],
        stdin=False,
    )
    async with process:
        said = ""
        async with asyncio.timeout(READY_SECONDS):
            async for output in process.output():
                said = (said + output.data.decode("ascii", "replace"))[-MOST_SAID:]
                if "ready" in said or output.stream == "stderr":
                    break
        if "ready" not in said:
            raise HostError(f"the other sandbox does not listen: {said[-_TOLD:]!r}", remedy=_REMEDY)
        marks = {**prey.marks, "left": nonce, "neighbour": sandbox.id[:16]}
        yield Neighbour(prey, sandbox, secret, marks, await _drawn(sandbox))


async def _drawn(sandbox: AsyncSandbox) -> Sequence[str]:
    """Raises ``HostError`` where it cannot be known: then nothing could be compared."""
    async with program(sandbox) as inside:
        row = await inside.attempt("useful.drawn", {}, READY_SECONDS)
    told = row.get("told") if isinstance(row, dict) else None
    if not (isinstance(told, list) and len(told) == 1 and isinstance(told[0], list) and len(told[0]) > 1):
        raise HostError(f"the other sandbox does not draw at random: {str(row)[:_TOLD]!r}", remedy=_REMEDY)
    return [str(value) for value in told[0] if len(str(value)) > 8]
