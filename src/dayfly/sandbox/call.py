"""One operation under way in a sandbox: its events, its answer, and what the agent may still be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dayfly.sandbox.exchange import Exchange
from dayfly.wire.messages import Cancel, Fail, Finish, Message
from dayfly.wire.operations import Operation

if TYPE_CHECKING:
    from dayfly.sandbox.link import Link

__all__ = ["Call", "OperationFailed"]


class OperationFailed(Exception):
    """The agent answered with ``Fail``. ``code`` is its word for why; both are claims."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Call(Exchange):
    """One operation that the host asked for.

    ``next`` gives ``Data``, ``Eof`` and ``Event`` messages and finally ``None``; then ``value`` is the answer. It raises
    ``OperationFailed`` for a refusal and ``LinkLost`` when the sandbox is gone.
    """

    def __init__(self, link: Link, number: int, operation: Operation, *, bulk: bool, long: bool) -> None:
        super().__init__(link, number, operation, bulk=bulk)
        self.value: dict[str, Any] = {}
        self.long = long
        self._over = False

    @property
    def events(self) -> dict[str, dict[str, object]]:
        return self._operation.to_opener

    @property
    def over(self) -> bool:
        """Whether the agent has answered, or the sandbox is gone."""
        return self._over or not self._link.is_open(self._number)

    async def next(self) -> Message | None:
        if self._over and not self._inbox:
            self._give_back()
            return None
        message = await self.arrival()
        if isinstance(message, Finish):
            self._over = True
            self.value = message.value
            return None
        if isinstance(message, Fail):
            self._over = True
            raise OperationFailed(message.code, message.message)
        return message

    async def answer(self) -> dict[str, Any]:
        """The value of ``Finish``, whatever else arrives before it is dropped."""
        while await self.next() is not None:
            pass
        return self.value

    def cancel(self) -> None:
        """Ask the agent to stop; it still answers. Nothing happens if it has answered already."""
        self.send(Cancel())

    def abandon(self) -> None:
        """Nobody will read on: ask the agent to stop and drop whatever still arrives. Harmless after the end."""
        self.leave()
        self.cancel()
