"""What every kind of call shares: the link, the limits, and the sandbox's own life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from dayfly.boundaries.base import CellEnd
from dayfly.errors import DayflyError, InputError, SandboxEnded
from dayfly.limits import Limits
from dayfly.sandbox.call import Call, OperationFailed
from dayfly.sandbox.denials import Denials
from dayfly.sandbox.failures import translate
from dayfly.sandbox.link import Link, LinkLost
from dayfly.spec import EndReason, LimitReport
from dayfly.wire import operations
from dayfly.wire.errors import ProtocolError, RemoteProtocolError

__all__ = ["FAILURES", "Inside", "Lifetime", "checked_rows"]


class Lifetime(Protocol):
    """The part of a sandbox's life that calls need."""

    def call_begins(self) -> None: ...
    def call_ends(self) -> None: ...
    async def kill(self, reason: EndReason, detail: str) -> CellEnd: ...
    async def ended(self) -> CellEnd:
        """Wait for the end and say why."""
        ...


class Inside:
    """Access to one live cell for the classes that make calls."""

    def __init__(self, link: Link, limits: Limits, reports: tuple[LimitReport, ...], life: Lifetime) -> None:
        self.link = link
        self.limits = limits
        self.reports = reports
        self.life = life
        self.denials = Denials()

    def adopt(self, limits: Limits, reports: tuple[LimitReport, ...]) -> None:
        """Other limits, before anything was run."""
        self.limits = limits
        self.reports = reports

    @contextmanager
    def call(self) -> Iterator[None]:
        """Counts as activity while it lasts."""
        self.life.call_begins()
        try:
            yield
        finally:
            self.life.call_ends()

    async def kill_unconfirmed(self, detail: str) -> CellEnd:
        return await self.life.kill(EndReason.UNRESPONSIVE, detail)

    async def violated(self, error: RemoteProtocolError) -> CellEnd:
        """The agent broke a rule that only this layer knows: the sandbox ends."""
        return await self.life.kill(EndReason.PROTOCOL_VIOLATION, str(error))

    async def error(self, caught: Exception, path: str = "") -> DayflyError:
        """The public error for what a call raised."""
        if isinstance(caught, RemoteProtocolError):
            await self.violated(caught)
        if isinstance(caught, (LinkLost, RemoteProtocolError)):
            end = await self.life.ended()
            return SandboxEnded(end.reason.value, end.detail)
        if isinstance(caught, OperationFailed):
            return translate(caught, path)
        if isinstance(caught, ProtocolError):
            return InputError(
                f"the request is too large or malformed: {caught}", remedy="put large content into a file"
            )
        raise caught

    async def send(self, call: Call, data: bytes) -> bool:
        """Send all of ``data`` to what runs inside; false if it has ended before. Raises the public errors."""
        try:
            return await call.send_data(operations.STDIN, data)
        except FAILURES as caught:
            raise await self.error(caught) from None

    def smaller(self, name: str, asked: int | None) -> int:
        """A cap in bytes that may only tighten what the policy says."""
        most: int = getattr(self.limits, name)
        if asked is None:
            return most
        if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
            raise InputError(f"{name} must be a number of bytes, not {asked!r}")
        return min(asked, most)

    def seconds(self, asked: float | None) -> float:
        """A timeout: the policy's ``run_seconds`` unless the call asks for another, at most the sandbox's lifetime."""
        if asked is None:
            return self.limits.run_seconds
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < float("inf"):
            raise InputError(f"timeout must be a positive number of seconds, not {asked!r}")
        return min(float(asked), self.limits.lifetime_seconds)


def checked_rows(rows: list[object], shape: Mapping[str, object], what: str) -> list[dict[str, Any]]:
    """Rows of a list that the agent claims, each of the shape that the table says. Raises ``RemoteProtocolError``."""
    return [operations.check(row, shape, what, RemoteProtocolError) for row in rows]


FAILURES: tuple[type[Exception], ...] = (LinkLost, OperationFailed, ProtocolError)
"""What calls raise and ``Inside.error`` translates."""
