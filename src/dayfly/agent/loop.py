"""The agent's event loop: one thread, one epoll, timers, and the deaths of children.

Law: no callback blocks. One that raises is forgotten together with its descriptor and told to ``on_error``; the loop
goes on, since the agent must outlive everything that happens inside.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # no import at run time: see the law of dayfly.wire
    import signal
    from collections.abc import Callable

    Callback = Callable[[], None]
else:
    import _signal as signal  # without the enums around it, which cost 4 ms inside gVisor

MAX_SOON = 64
"""Callbacks of ``call_soon`` per round: long work in slices may not starve descriptors and timers."""

MAX_SIGNALS = 4096
"""Signals that are taken in at once: a sixteenth of what the pipe holds, so there are as many before one is lost."""

TICK = 1e-6
"""Seconds: the least that an alarm can be set to, and what it is set to less when rounded."""

NEVER = float("inf")


class Timer:
    """One pending call. ``cancel`` is idempotent."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callback) -> None:
        self.due = due
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Waits for descriptors, timers and SIGCHLD. Made before anything else; owns the process's SIGCHLD and SIGALRM handlers.

    Timers ring by SIGALRM, which is set for the first of them and left alone when that is cancelled: a wait of limited length
    makes Python read the clock each time, a system call in a gVisor's first second, and runs come by the hundred meanwhile.
    """

    def __init__(self) -> None:
        self.on_error: Callable[[BaseException], None] = _print_error
        self.on_child: Callback = _nothing
        self._poll = select.epoll()
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._timers: list[Timer] = []  # a few hundred at most, so no heap
        self._now: float | None = None  # what the clock said in this round, if it was asked
        self._alarm = NEVER  # when SIGALRM comes; never later than the first timer that is not held
        self._held_since: float | None = None  # a time of the clock at which time stands still
        self._soon: list[Callback] = []
        self._left: set[int] = set()  # descriptors that were not watched at some moment of this round
        self._running = False
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _ignore_signal)
        signal.signal(signal.SIGALRM, _ignore_signal)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self.on_readable(self._wake_read, self._woken)

    # --- descriptors ----------------------------------------------------------------------------------------------

    def on_readable(self, fd: int, callback: Callback) -> None:
        """Call back whenever ``fd`` can be read, has ended or failed, until ``not_readable`` or ``forget``."""
        self._change(fd, self._readers, callback)

    def on_writable(self, fd: int, callback: Callback) -> None:
        self._change(fd, self._writers, callback)

    def not_readable(self, fd: int) -> None:
        self._change(fd, self._readers, None)

    def not_writable(self, fd: int) -> None:
        self._change(fd, self._writers, None)

    def forget(self, fd: int) -> None:
        """Before closing ``fd``: no callback of it comes any more. Idempotent."""
        self.not_readable(fd)
        self.not_writable(fd)

    def _change(self, fd: int, table: dict[int, Callback], callback: Callback | None) -> None:
        before = self._mask(fd)
        if callback is None:
            table.pop(fd, None)
        else:
            table[fd] = callback
        after = self._mask(fd)
        if before == after:
            return
        if not after:
            self._poll.unregister(fd)
            self._left.add(fd)
        elif not before:
            self._poll.register(fd, after)
        else:
            self._poll.modify(fd, after)

    def _mask(self, fd: int) -> int:
        return (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)

    # --- time -----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """``time.monotonic``, which spares this round another question: the clock takes 20 us inside a young gVisor."""
        self._now = time.monotonic()
        return self._now

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        return self.call_at(self.time() + seconds, callback)

    def call_at(self, due: float, callback: Callback) -> Timer:
        """``due`` is a time of ``time.monotonic``: who knows it spares the 10 us that the clock takes inside gVisor."""
        timer = Timer(due, callback)
        self._timers.append(timer)
        return timer

    def hold_timers(self) -> None:
        """Time stands still: no timer is due until ``release_timers``. Idempotent."""
        if self._held_since is None:
            self._held_since = time.monotonic()

    def release_timers(self) -> None:
        """Time goes on where it stood, however long that was: a snapshot may have lain on a disk for days."""
        since, self._held_since = self._held_since, None
        self._alarm = NEVER  # a restored process may have lost it
        if since is not None:
            passed = max(0.0, time.monotonic() - since)
            for timer in self._timers:
                timer.due += passed

    def call_soon(self, callback: Callback) -> None:
        """Call in the next round. For the next slice of long work."""
        self._soon.append(callback)

    # --- running --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until ``stop``."""
        self._running = True
        while self._running:
            self.step()

    def stop(self) -> None:
        self._running = False

    def step(self) -> None:
        """One round: wait for something and serve it."""
        wait, self._now = self._serve_timers(), None
        polled = self._poll.poll(wait)
        self._left.clear()
        for fd, events in polled:
            if events & ~select.EPOLLOUT:  # end and failure show as readable, or as writable where nobody reads
                self._serve(fd, self._readers)
            if events & ~select.EPOLLIN:
                self._serve(fd, self._writers)
        soon, self._soon = self._soon[:MAX_SOON], self._soon[MAX_SOON:]
        for callback in soon:
            self._guarded(callback)

    def _serve(self, fd: int, table: dict[int, Callback]) -> None:
        if fd in self._left:  # by now the number may be another file's, for which nothing was polled
            return
        callback = table.get(fd)
        if callback is not None and not self._guarded(callback):
            self.forget(fd)

    def _serve_timers(self) -> int:
        """Call what is due; 0: go on at once, -1: wait for as long as it takes."""
        self._timers = [timer for timer in self._timers if timer.callback is not None]
        if self._held_since is None and self._timers:
            first = min(timer.due for timer in self._timers)
            if first < self._alarm and self._serve_due(first):
                return 0
        return 0 if self._soon else -1

    def _serve_due(self, first: float) -> bool:
        """No alarm is set for the timer that is due ``first``: set one, or serve it with all that are due."""
        now = self._now or time.monotonic()  # that of a callback of this round: none of them blocks
        if first > now:
            self._alarm = first
            signal.setitimer(signal.ITIMER_REAL, first - now + TICK)
            return False
        for timer in sorted(self._timers, key=lambda timer: timer.due):
            callback = timer.callback
            if timer.due <= now and callback is not None:
                self._timers.remove(timer)
                self._guarded(callback)
        return True

    def _guarded(self, callback: Callback) -> bool:
        try:
            callback()
        except Exception as error:
            self.on_error(error)
            return False
        return True

    def _woken(self) -> None:
        try:
            signals = os.read(self._wake_read, MAX_SIGNALS)
        except BlockingIOError:
            return
        if signal.SIGALRM in signals or len(signals) == MAX_SIGNALS:  # where there are too many, some are lost
            self._alarm = NEVER
        if signal.SIGCHLD in signals:
            self.on_child()

    def hear_children(self, on: bool) -> None:
        """Off: deaths cost nothing, not even a signal, and nobody calls ``on_child`` until it is on again."""
        signal.signal(signal.SIGCHLD, _ignore_signal if on else signal.SIG_DFL)

    # --- fork -----------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """In a forked child: give up the loop's hold on the process's signals; descriptors are closed by the caller."""
        signal.set_wakeup_fd(-1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _ignore_signal(number: int, frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def _nothing() -> None:
    pass


def _print_error(error: BaseException) -> None:
    line = f"dayfly agent: {type(error).__name__}: {error!s:.500}\n"
    os.write(2, line.encode("ascii", "backslashreplace"))
