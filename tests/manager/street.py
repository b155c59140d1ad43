"""Gateways in memory, and an outlet to them: no process, no clock but the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dayfly.egress.client import Closed, EgressDenied, Gateway
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from dayfly.errors import HostError
from dayfly.manager.outlet import Outlet
from dayfly.network import Rule

__all__ = ["ENDED", "FakeGateway", "Street"]

ENDED = Closed("files.example.com", 443, 0, "93.184.216.34", 10, 20, 1.0, "done")


class FakeGateway:
    """Writes down what it is asked. ``hold``: answers come when it is set."""

    def __init__(self, street: Street) -> None:
        self.street = street
        self.lost = asyncio.Event()
        self.on_closed: Callable[[str, Closed], None] = lambda sandbox, closed: None
        self.rules: dict[str, tuple[Rule, ...]] = {}
        self.closed = False
        self.refuses = False
        self.hold = asyncio.Event()
        self.hold.set()

    async def _answer(self) -> None:
        await self.hold.wait()
        if self.refuses:
            raise HostError("it is of another version")
        if self.lost.is_set():
            raise HostError("the gateway is gone")

    async def admit(self, sandbox: str, terms: Terms) -> None:
        rules = terms.rules
        await self._answer()
        if sandbox in self.street.refused:
            raise HostError("it does not take these rules")
        self.rules[sandbox] = rules

    async def withdraw(self, sandbox: str) -> None:
        await self.hold.wait()
        if self.rules.pop(sandbox, None) and not self.lost.is_set():
            self.on_closed(sandbox, ENDED)

    async def connect(self, sandbox: str, host: str, port: int, early: bytes = b"") -> Any:
        if self.lost.is_set():
            raise EgressDenied(Denied(host, port, "gateway_gone", "it is gone", ""))
        return (self, sandbox, host, port)

    async def close(self) -> None:
        self.lost.set()
        self.closed = True

    def die(self) -> None:
        self.lost.set()
        self.hold.set()


class Street:
    """Gateways as they are started, and an outlet to them. ``ready``: a start is over when it is set."""

    def __init__(self) -> None:
        self.all: list[FakeGateway] = []
        self.starts: list[float] = []
        self.ready = asyncio.Event()
        self.ready.set()
        self.failure: HostError | None = None
        self.held = False
        self.refused: set[str] = set()
        self.outlet = Outlet(self.start)

    async def start(self) -> Gateway:
        self.starts.append(asyncio.get_running_loop().time())
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure
        self.all.append(FakeGateway(self))
        if self.held:
            self.all[-1].hold.clear()
        return self.all[-1]  # type: ignore[return-value]
