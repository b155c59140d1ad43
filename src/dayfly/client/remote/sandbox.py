"""A sandbox that a server holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dayfly.client.remote.executions import ExecutionCalls
from dayfly.client.remote.files import FileCalls
from dayfly.client.remote.held import Held
from dayfly.client.remote.ports import PortCalls
from dayfly.client.remote.processes import ProcessCalls
from dayfly.client.remote.values import read_usage
from dayfly.policy import Policy
from dayfly.spec import EndReason, LimitReport, Usage

__all__ = ["RemoteSandbox"]


class RemoteSandbox(ExecutionCalls, ProcessCalls, FileCalls, PortCalls):
    """Implements ``dayfly.client.backend.Backend`` and ``Elsewhere``. Made by ``Server``; used on one event loop.

    What needs no waiting is what the server said last. ``end_reason`` is learnt from whatever call finds the sandbox
    ended; between calls it may be ``None`` for one that has just ended. ``usage`` is empty until it was asked for. Both
    are true at the moment when ``refresh`` returns.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._usage = Usage()

    def __repr__(self) -> str:
        return f"<RemoteSandbox {self.id} at {self._held.http.address.url} {self.end_reason or 'ready'}>"

    def require_live(self) -> None:
        """Raises ``SandboxEnded`` if it is known to be gone."""
        self._held.require_live()

    @property
    def id(self) -> str:
        return self._held.told.id

    @property
    def policy(self) -> Policy:
        return self._held.told.policy

    @property
    def languages(self) -> Sequence[str]:
        return self._held.told.languages

    @property
    def limits(self) -> Sequence[LimitReport]:
        return self._held.limits

    @property
    def end_reason(self) -> EndReason | None:
        return self._held.end_reason

    @property
    def unsaved(self) -> str | None:
        return self._held.told.unsaved

    def usage(self) -> Usage:
        return self._usage

    async def explain(self) -> Mapping[str, Any]:
        """Asked of the server each time."""
        return (await self._held.ask("GET", "/explain")).raw

    async def refresh(self) -> None:
        """Ask the server for the usage and the end, if there was one. What one that has ended used last stays."""
        await self._held.refresh()
        if self.end_reason is None:
            self._usage = read_usage(await self._held.ask("GET", "/usage"))

    async def leave(self) -> None:
        """Use it no more; it goes on without this client, until its limits. What this client still follows breaks off."""
        await self._held.leave()

    async def close(self) -> None:
        """End the sandbox, also a paused one. Idempotent."""
        if self.end_reason in (None, EndReason.PAUSED):
            await self._held.end()
