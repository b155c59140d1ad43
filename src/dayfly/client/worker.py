"""A thread of its own for what may block: the user's callbacks, iterables and local files.

The loop never waits for it and it never runs on the loop. A worker is a daemon thread, so that a callback that hangs
cannot keep the interpreter from ending; that is why this is not ``asyncio.to_thread``.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

__all__ = ["Worker"]

T = TypeVar("T")

_Job = Callable[[], None]


class Worker:
    """Runs jobs one after the other, in the context of whoever made the worker. Made and used on one loop.

    The thread starts with the first job and ends when the worker is closed; the queue holds at most the one job that
    ``do`` is waiting for, and whatever was given up while it ran.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._name = name
        self._started = False

    async def do(self, function: Callable[..., T], /, *args: Any, undo: Callable[[T], object] | None = None) -> T:
        """``function(*args)`` on the thread. Raises what it raises. If cancelled, returns at once and the job goes on; what
        it gives then belongs to nobody, and ``undo`` gets it, on a thread of its own."""
        outcome: asyncio.Future[T] = self._loop.create_future()

        def job() -> None:
            try:
                value = self._context.run(function, *args)
            except (
                StopIteration,
                asyncio.CancelledError,
            ) as error:  # a future cannot carry it, or would mean another thing
                self._report(outcome, None, RuntimeError(f"{type(error).__name__} from {function!r}: {error}"), None)
            except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits
                self._report(outcome, None, error, None)
            else:
                self._report(outcome, value, None, undo)

        self._start()
        self._jobs.put(job)
        return await outcome

    def _report(
        self,
        outcome: asyncio.Future[T],
        value: T | None,
        error: BaseException | None,
        undo: Callable[[Any], object] | None,
    ) -> None:
        def settle() -> None:
            if outcome.done():
                if undo is not None:
                    threading.Thread(target=undo, args=(value,), name=f"dayfly-undo-{self._name}", daemon=True).start()
                return
            if error is None:
                outcome.set_result(value)  # type: ignore[arg-type]
            else:
                outcome.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=_work, args=(self._jobs,), name=f"dayfly-{self._name}", daemon=True).start()

    def close(self) -> None:
        """Let the thread end after the job it is at. Idempotent; does not wait."""
        self._jobs.put(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # what it holds must not live until the next one
