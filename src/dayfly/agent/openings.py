"""Operations that the agent opens: connections that code inside makes, and what there is to tell the host about names.

The connection takes ``MAX_CHANNELS`` at once, and none between Quiesced and Resume: what comes then waits here, in order.
"""

from __future__ import annotations

from dayfly.agent.session import Channel
from dayfly.wire.messages import Cancel, Fail, Finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from dayfly.agent.core import Agent
    from dayfly.agent.session import Fields, Session, Task
    from dayfly.wire.messages import Message
    from dayfly.wire.operations import Operation
else:
    from _collections import deque  # see dayfly.wire.flow

MAX_WAITING = 128
"""Operations that wait for a channel: a browser's worth of connections beyond those that are open."""


class Full(Exception):
    """As many wait as may."""


class Opened(Channel):
    """The opener's handle. Its task hears ``on_finish`` or ``on_fail``, unless it cancelled, and then ``on_close``.

    ``number`` is 0 while it waits; nothing can be sent then. The host may have ended the channel before the task hears of
    it, so whatever is sent then is dropped.
    """

    def __init__(self, openings: Openings, operation: Operation, params: Fields, task: Task) -> None:
        super().__init__(openings.session, 0, operation)
        self.task = task
        self.params = dict(params)
        self._openings = openings

    def data(self, stream: int, data: bytes | memoryview) -> None:
        if self._session.connection.is_open(self.number):
            super().data(stream, data)

    def cancel(self) -> None:
        """Of no interest any more: the task hears nothing but ``on_close``, now."""
        if not self.open:
            return
        if self.number:
            self._send(Cancel())
        else:
            self._openings.forget(self)
        self._session.closed(self)

    def fail(self, code: str, message: str) -> None:
        """The agent's part of it went wrong, which is its own business."""
        self.cancel()

    def deliver(self, message: Message) -> None:
        task = self.task
        if isinstance(message, Finish):
            value = message.value
            self._answered(lambda: task.on_finish(value))
        elif isinstance(message, Fail):
            code, text = message.code, message.message
            self._answered(lambda: task.on_fail(code, text))
        else:
            super().deliver(message)

    @property
    def _shapes(self) -> dict[str, dict[str, object]]:
        return self.operation.to_opener

    def _answered(self, tell: Callable[[], None]) -> None:
        self.open = False
        try:
            tell()
        finally:
            self._session.closed(self)

    def _send(self, message: Message) -> None:
        if self.open and self._session.connection.is_open(self.number):
            self._session.send(message, self.number)


class Openings:
    """All that wait for a channel. One of an agent: ``agent.part(Openings)``."""

    def __init__(self, agent: Agent) -> None:
        self.session: Session = agent.session
        self._waiting: deque[Opened] = deque()
        self.session.on_served = self._serve

    def open(self, operation: Operation, params: Fields, task: Task, *, first: bool = False) -> Opened:
        """Open as soon as it can be; ``first``: before all that wait. Raises ``Full``."""
        if len(self._waiting) >= MAX_WAITING:
            raise Full
        channel = Opened(self, operation, params, task)
        self._waiting.appendleft(channel) if first else self._waiting.append(channel)
        self._serve()
        return channel

    def forget(self, channel: Opened) -> None:
        if channel in self._waiting:
            self._waiting.remove(channel)

    def _serve(self) -> None:
        connection = self.session.connection
        while self._waiting and connection.can_open:
            channel = self._waiting.popleft()
            channel.number = connection.open(channel.operation.name, channel.params)
            self.session.opened(channel)
