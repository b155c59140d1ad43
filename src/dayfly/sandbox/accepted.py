"""One operation that the agent asks for: a connection out, a word about something inside. What it says is a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dayfly.sandbox.exchange import Exchange
from dayfly.wire.messages import Cancel, Data, Fail, Finish, Message
from dayfly.wire.operations import Operation

if TYPE_CHECKING:
    from dayfly.sandbox.link import Link

__all__ = ["Accepted"]

MAX_TEXT = 2000
"""Characters of a refusal: a sentence and what to do about it."""


class Accepted(Exchange):
    """``next`` gives ``Data``, ``Eof`` and ``Event`` messages, and ``None`` when the agent has lost interest or the
    channel is answered. It must be answered: ``finish`` or ``fail``, whichever is first; later ones do nothing."""

    def __init__(self, link: Link, number: int, operation: Operation, params: dict[str, Any]) -> None:
        super().__init__(link, number, operation, bulk=True)
        self.params = params
        self.on_end: Callable[[], None] = _nothing  # called as soon as nobody wants the answer of whoever serves it

    @property
    def events(self) -> dict[str, dict[str, object]]:
        return self._operation.to_acceptor

    @property
    def operation(self) -> str:
        """Its name."""
        return self._operation.name

    @property
    def over(self) -> bool:
        """Whether it is answered, or the sandbox is gone."""
        return not self._link.is_open(self._number)

    async def next(self) -> Message | None:
        """Raises ``LinkLost``."""
        if self.over:
            return None
        message = await self.arrival()
        return None if isinstance(message, Cancel) else message

    def early(self, most: int) -> bytes:
        """The data that has arrived by now, whole messages of at most ``most`` bytes in all. It counts as dealt with."""
        pieces: list[bytes] = []
        while self._inbox and isinstance(message := self._inbox[0].message, Data):
            most -= len(message.data)
            if most < 0:
                break
            pieces.append(message.data)
            self._link.consume(self._number, self._inbox.popleft().cost)
        return b"".join(pieces)

    def _check(self, message: Message) -> None:
        super()._check(message)
        if isinstance(message, Cancel):
            self.on_end()

    def finish(self, value: dict[str, object]) -> None:
        self._answer(Finish(value))

    def fail(self, code: str, message: str) -> None:
        self._answer(Fail(code, message[:MAX_TEXT]))

    def break_off(self, code: str, message: str) -> None:
        """Answer it over the head of whoever serves it."""
        self.fail(code, message)
        self.on_end()

    def _answer(self, message: Message) -> None:
        if not self.over:
            self.leave()
            self.send(message)
            self._link.answered(self._number)


def _nothing() -> None:
    pass
