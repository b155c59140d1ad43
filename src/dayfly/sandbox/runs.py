"""Something that runs inside until it ends or must end: deadline on the host's clock, escalation, confirmation.

At the deadline the agent is told to interrupt. If it has not confirmed the end ``CONFIRM_SECONDS`` later, the cell is
killed: a run that cannot be confirmed dead is not left alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dayfly.sandbox.call import Call
from dayfly.wire.errors import ProtocolError, RemoteProtocolError
from dayfly.wire.messages import Message

__all__ = ["CONFIRM_SECONDS", "GRACE_SECONDS", "Run"]

GRACE_SECONDS = 0.3
"""Between SIGINT (SIGTERM for commands) and SIGKILL inside: time for a handler, within the caller's timeout + 1 s."""

CONFIRM_SECONDS = 5.0
"""Between the deadline and the end of the cell if the agent cannot confirm that the run is dead."""


class Run:
    """Follows one call and enforces its deadline.

    ``stop`` is the event that makes the agent end it. ``kill`` ends the cell. ``expired`` and ``cancelled`` say why the
    run was stopped, if it was.
    """

    def __init__(self, call: Call, *, stop: str, kill: Callable[[str], Awaitable[object]]) -> None:
        self.expired = False
        self.cancelled = False
        self._left = False
        self._call = call
        self._stop_event = stop
        self._kill = kill
        self._stopping = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()

    def set_deadline(self, seconds: float) -> None:
        """Stop the run ``seconds`` from now."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._expire)

    @property
    def has_deadline(self) -> bool:
        return self._timer is not None

    def leave(self) -> None:
        """From now on a cancelled ``follow`` ends at once and stops nothing: the agent knows what goes on without us."""
        self._left = True

    def _expire(self) -> None:
        self.expired = True
        self.stop()

    @contextmanager
    def stopped_by(self, wish: asyncio.Future[None] | None) -> Iterator[None]:
        """Stop it when ``wish`` is fulfilled."""
        if wish is None:
            yield
            return

        def fulfilled(_: asyncio.Future[None]) -> None:
            self.stop()

        wish.add_done_callback(fulfilled)
        try:
            yield
        finally:
            wish.remove_done_callback(fulfilled)

    def stop(self) -> None:
        """Tell the agent to end it, and the cell to end if the agent does not."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(CONFIRM_SECONDS, self._unconfirmed)
        try:
            self._call.send_event(self._stop_event, {"grace": GRACE_SECONDS})
        except ProtocolError:  # the agent takes no more events: a last word needs no room, and the timer runs
            self._call.cancel()

    def _unconfirmed(self) -> None:
        if self._call.over:
            return
        task = asyncio.ensure_future(self._end_cell())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _end_cell(self) -> None:
        await self._kill(f"a run was not confirmed dead {CONFIRM_SECONDS:g} s after its end was ordered")

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def follow(self, take: Callable[[Message], Coroutine[None, None, None] | None]) -> None:
        """Give every message to ``take`` until the agent has ended the run; raises like ``Call.next``.

        ``take`` keeps what it wants at once and may return a coroutine that hands it on to a sink. That one is awaited,
        but not beyond the moment when the run is being stopped: a sink that hangs must not delay the end. When the
        caller is cancelled, or the sink raises, the run is stopped first and the exception goes on when it is over.
        """
        try:
            while (message := await self._call.next()) is not None:
                handing = take(message)
                if handing is not None:
                    await self._hand_on(handing)
        except RemoteProtocolError:
            raise  # nothing the agent says counts any more: the caller ends the sandbox
        except BaseException as error:
            if self._left:
                raise
            self.cancelled = isinstance(error, asyncio.CancelledError)
            self.stop()
            await self._settle()
            raise
        finally:
            if self._call.over or not self._stopping.is_set():
                self._disarm()

    async def _hand_on(self, handing: Coroutine[None, None, None]) -> None:
        if self._stopping.is_set():
            handing.close()
            return
        task = asyncio.ensure_future(handing)
        await asyncio.sleep(0)
        if not task.done():
            await self._wait_or_stop(task)
        if task.done():
            task.result()

    async def _wait_or_stop(self, task: asyncio.Task[None]) -> None:
        stopped: asyncio.Task[Any] = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()

    async def _settle(self) -> None:
        with suppress(Exception):  # the agent's refusal or the end of the sandbox: over, either way
            await asyncio.shield(asyncio.ensure_future(self._call.answer()))
