"""The agent as a plain process in a network namespace of its own: port 53 and the rest of loopback are all its own there."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dayfly.agent_bundle import agent_for
from dayfly.boundaries import fake
from dayfly.spec import Image
from tests.agent.host import Host

START = """
import fcntl, os, socket, struct, sys
with socket.socket() as one:  # SIOCSIFFLAGS: loopback up and running
    fcntl.ioctl(one, 0x8914, struct.pack("16sH", b"lo", 0x1 | 0x8 | 0x40).ljust(40, b"\\0"))
os.execv(sys.argv[1], sys.argv[1:])
"""


class Stream:
    """As ``Host`` uses a cell's."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        self._reader, self._writer = process.stdout, process.stdin

    async def read(self, limit: int) -> bytes:
        return await self._reader.read(limit)

    async def write(self, *buffers: bytes | memoryview) -> None:
        self._writer.writelines(buffers)
        await self._writer.drain()


class Cell:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream


@asynccontextmanager
async def open_alone(agents: Path) -> AsyncIterator[Host]:
    """Greeted. The disks are read-only to root, as they are to the fake boundary's agent."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    bundle = agent_for(Image("here", "sha256:0", os.uname().machine, Path("/"), python_version=version), agents)
    with tempfile.TemporaryDirectory(prefix="dft-") as scratch:
        ours = ["--mount"] if os.geteuid() == 0 else ["--map-root-user"]
        guard = ["/bin/sh", str(fake._GUARD), scratch] if os.geteuid() == 0 else []
        command = [sys.executable, "-c", START, *guard, sys.executable, "-I", "-S", str(bundle)]
        process = await asyncio.create_subprocess_exec(
            "unshare", "--net", *ours, "--", *command,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20, cwd=scratch,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": scratch, "TMPDIR": scratch},
        )  # fmt: skip
        try:
            host = Host(Cell(Stream(process)))  # type: ignore[arg-type]
            await host.hello()
            yield host
        finally:
            assert process.stdin
            process.stdin.close()  # then the agent ends all that it started, and itself
            await process.wait()
