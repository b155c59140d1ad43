"""A room with an agent in it: code in, and everything that came of it out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dayfly.wire.operations import RESULTS
from tests.agent.host import Call, Host


@dataclass(frozen=True)
class Done:
    """What one run gave. ``fields`` is the agent's answer; ``results`` are (data, is_main), in order."""

    fields: dict[str, Any]
    stdout: str
    stderr: str
    results: list[tuple[dict[str, Any], bool]]

    @property
    def count(self) -> int:
        return int(self.fields["count"])

    @property
    def status(self) -> str:
        return str(self.fields["status"])

    @property
    def error(self) -> dict[str, str]:
        assert self.fields["error"], self
        found: dict[str, str] = self.fields["error"]
        return found

    @property
    def text(self) -> str | None:
        """text/plain of the last expression."""
        return next((data.get("text/plain") for data, main in self.results if main), None)


class Room:
    """Code runs in the language's default context unless another is named."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def start(
        self, code: str, language: str = "python", context: str = "", cpu: float = 60.0, output: int = 4 << 20
    ) -> Call:
        """Begin a run without waiting for anything."""
        return await self.host.open(
            "execute", context=context or language, language=language, code=code, cpu_seconds=cpu, output=output
        )

    async def end(self, call: Call) -> Done:
        fields = await call.result()
        out, err = (bytes(call.streams.get(number, b"")).decode("utf-8", "replace") for number in (1, 2))
        return Done(fields, out, err, list(records(bytes(call.streams.get(RESULTS, b"")))))

    async def run(self, code: str, language: str = "python", **more: Any) -> Done:
        return await self.end(await self.start(code, language, **more))

    async def value(self, code: str, language: str = "python", **more: Any) -> str | None:
        """The text of the last expression of code that must succeed."""
        done = await self.run(code, language, **more)
        assert done.status == "ok", done
        return done.text

    async def interrupt(self, code: str, language: str = "python", grace: float = 0.5, **more: Any) -> Done:
        """Run code that prints "go" when it is to be interrupted."""
        call = await self.start(code, language, **more)
        await call.output(b"go")
        await call.tell("interrupt", grace=grace)
        return await self.end(call)

    async def alive(self, name: str) -> bool:
        """Whether a process of this (unique) command line runs inside."""
        call = await self.host.shell(f"grep -qs '[{name[0]}]{name[1:]}' /proc/[0-9]*/cmdline")  # but not this grep
        return bool((await call.result())["exit_code"] == 0)


def records(data: bytes) -> Any:
    while data:
        size = int.from_bytes(data[:4], "big")
        value = json.loads(data[4 : 4 + size])
        assert set(value) == {"data", "metadata", "main"}
        yield value["data"], value["main"]
        data = data[4 + size :]
