"""An event loop on a thread of its own, for callers who have none or must not be blocked by theirs.

Laws: there is one per process, made at first use. A child of ``os.fork`` has none of it and makes its own; what it
inherited is never touched, since both processes' epoll is one. At the interpreter's exit everything opened over it is
closed. Whoever waits can be interrupted: the work inside is then cancelled, and waited for, before the interrupt goes on.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dayfly.errors import InputError, SandboxEnded

__all__ = ["Bridge", "bridge_here", "shared_bridge"]

T = TypeVar("T")

CANCEL_SECONDS = 8.0
"""For cancelled work to end: an interrupt's grace and the wait for its confirmation inside, and some air."""

NOTICE_SECONDS = 0.5
"""How long Ctrl-C may go unnoticed in the worst case: a signal that comes while a thread is about to block on a lock does
not wake it, so a wait must end by itself now and then."""

CLOSE_SECONDS = 10.0
"""For everything to be closed at exit. Afterwards the process ends, and with it every cell."""


class _Call(Generic[T]):
    """One piece of work that crosses to the loop, and what came of it.

    Law: it is settled once, by the loop, and that is the last that is done there for it: whoever waits is woken by a bare lock,
    and has nothing else to wait for.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._given_up = False
        self._waiting = threading.Lock()  # free once it is settled
        self._waiting.acquire()
        self._value: T
        self._error: BaseException | None = None
        self.over = False

    def start(self) -> None:  # on the loop, like all below but ``wait`` and ``result``
        if self._given_up:
            self._settle(SandboxEnded("stopped", "interrupted before it began"))
            return
        self._task = asyncio.ensure_future(self._work())
        self._task.add_done_callback(self._never_began)

    def give_up(self) -> None:
        self._given_up = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        """By the time that it is settled nothing here holds what the caller may want to be rid of."""
        assert self._task is not None
        self._task.remove_done_callback(self._never_began)
        work: Awaitable[T] | None = None
        try:
            work = self._make()
            del self._make
            self._value = await work
        except BaseException as error:
            del work
            task, self._task = self._task, None
            if isinstance(error, Exception):  # it belongs to whoever waits
                self._settle(error)
                return
            if isinstance(error, asyncio.CancelledError):
                self._settle(SandboxEnded("stopped", "dayfly was shut down"))
            else:  # it is the loop's too (see ``_run_until_stopped``)
                task.add_done_callback(asyncio.Task.exception)  # seen
                self._settle(error)
            raise
        del work
        self._task = None
        self._settle(None)

    def _never_began(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._settle(SandboxEnded("stopped", "dayfly was shut down"))

    def _settle(self, error: BaseException | None) -> None:
        self._error = error
        self.over = True
        self._waiting.release()

    def wait(self, seconds: float) -> bool:
        """Whether it is over, at the latest after so long. By one thread, and once that it is."""
        return self.over or self._waiting.acquire(timeout=seconds)

    def result(self) -> T:
        """What came of it, once it is over."""
        if self._error is not None:
            raise self._error
        return self._value


class Bridge:
    """Runs coroutines on its loop for callers on any other thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="dayfly-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._run_until_stopped():
            pass
        with suppress(RuntimeError):  # a generator that does not want to end
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _run_until_stopped(self) -> bool:
        """What a user's callback raises goes to its caller; these two also end the loop, but other callers need it still."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            return False
        return True

    def run(self, make: Callable[[], Awaitable[T]]) -> T:
        """The result of the awaitable that ``make`` makes on the loop, in the caller's context."""
        self._check()
        call = _Call(make)
        try:
            self._post(call.start)
            while not call.wait(NOTICE_SECONDS):
                pass
            return call.result()
        except BaseException:  # an interrupt while waiting; the work's own exception is over and just goes on
            if not call.over:
                self._stop(call)
            raise
        finally:
            del call  # its exception's traceback refers to this frame

    def _post(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function, context=contextvars.copy_context())
        except RuntimeError as error:
            raise SandboxEnded("stopped", "dayfly was shut down") from error

    def _stop(self, call: _Call[T]) -> None:
        with suppress(SandboxEnded):
            self._post(call.give_up)
            call.wait(CANCEL_SECONDS)

    def post(self, make: Callable[[], Awaitable[object]]) -> None:
        """Start work and wait for nothing: for finalizers, which may run on any thread."""
        if self.is_ours and not self._closed:
            with suppress(SandboxEnded):
                self._post(_Call(make).start)

    @property
    def is_ours(self) -> bool:
        """Whether it was made in this process, not inherited by a fork."""
        return os.getpid() == self._pid

    @property
    def on_loop(self) -> bool:
        return threading.current_thread() is self._thread  # an ident may be another thread's by now

    def _check(self) -> None:
        if not self.is_ours:
            raise InputError(
                "this sandbox belongs to the process that opened it, and this is a fork of that process",
                remedy="open a new Sandbox in the child",
            )
        if self.on_loop:
            raise InputError(
                "a Sandbox cannot be used on dayfly's own event loop thread", remedy="callbacks must be plain functions"
            )

    def at_close(self, closer: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have ``closer`` awaited when the bridge closes."""
        self._closers.append(closer)

    def close(self) -> None:
        """Close everything that was opened, then the loop. Idempotent; bounded in time."""
        if self._closed or not self.is_ours:
            return
        self._closed = True
        with suppress(Exception):  # the loop is stopped in any case, and the process's end ends every cell
            asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    async def _wind_up(self) -> None:
        for closer in self._closers:
            await closer()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


_lock = threading.Lock()
_current: Bridge | None = None
_inherited: list[Bridge] = []  # of a parent process: kept, so that nothing of it is ever finalized here
_registered = False


def shared_bridge() -> Bridge:
    """This process's bridge."""
    global _current
    with _lock:
        if _current is None or _current._closed:
            _register()
            _current = Bridge()
        return _current


def bridge_here() -> Bridge | None:
    """The bridge whose loop the calling thread runs, if it does."""
    return _current if _current is not None and _current.on_loop else None


def _register() -> None:
    global _registered
    if _registered:
        return
    _registered = True
    # Executors take no work any more once the threading module shuts down, and closing needs them. So this must run
    # before the hook that concurrent.futures.thread registers when it is imported, and the last one registered runs first.
    # The function is CPython's own and private; without it, atexit does most of it.
    import concurrent.futures.thread  # noqa: F401

    early = getattr(threading, "_register_atexit", atexit.register)
    early(_close_current)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)


def _close_current() -> None:
    if _current is not None:
        _current.close()


def _forget() -> None:
    global _current, _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    if _current is not None:
        _inherited.append(_current)
    _current = None
