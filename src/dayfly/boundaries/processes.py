"""Host processes of cells: started by one thread that lives as long as dayfly, waited for by descriptor.

The kernel's parent-death signal fires when the *thread* that started a process ends. So all cells are started by one
thread, which ends with the dayfly process and takes them along, however that ends.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dayfly.boundaries import forks

__all__ = ["Child", "Held", "Program", "children", "in_spawner", "own", "signal_process", "start_ticks", "wait_gone"]

T = TypeVar("T")

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the host's own tools are; the PATH of the caller is not trusted with it."""


@dataclass(frozen=True)
class Program:
    """What to start. ``cpus`` are the host's CPUs that it and its children may use; all when empty.

    With ``batch`` none of them takes the CPU from another process by waking up (sched(7), SCHED_BATCH).
    """

    argv: Sequence[str]
    stdin: int
    stdout: int
    stderr: int
    environment: dict[str, str]
    directory: Path
    cpus: frozenset[int] = frozenset()
    batch: bool = False


class Child:
    """A started process and a descriptor of it. ``start`` it in the spawner thread only."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        try:
            self._pidfd = forks.keep_from_children(os.pidfd_open(process.pid))
        except OSError:  # no descriptor is free: nobody else knows the process
            process.kill()
            process.wait()
            raise
        self._owner = os.getpid()
        self._reaping = threading.Lock()
        self._closed = False

    @classmethod
    def start(cls, program: Program) -> Child:
        """Raises ``OSError``."""
        with _scheduled(program):
            return cls(_popen(program))

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL. Nothing happens to one that has ended, nor from a forked child of the process that started it."""
        with self._reaping:
            if not self._closed and os.getpid() == self._owner:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def ended(self) -> None:
        """Return when the process has ended; it is not reaped by that."""
        loop = asyncio.get_running_loop()
        if self.wait(0):
            return
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._pidfd, _settle, ended)
        try:
            await ended
        finally:
            loop.remove_reader(self._pidfd)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within ``seconds``. Blocks for as long."""
        return self._closed or bool(_poll([self._pidfd], seconds))

    def reap(self) -> int:
        """The return code (negative: a signal) of a process that has ended. Idempotent."""
        with self._reaping:
            code = self._process.wait()
            if not self._closed:
                self._closed = True
                forks.close(self._pidfd)
            return code


class Held:
    """Some process, held by a descriptor: none that gets its number later is ever signalled, and signalling needs no
    descriptor that might not be free then. Any thread may use it.

    Raises ``ProcessLookupError`` if there is no such process, ``OSError`` if no descriptor is free.
    """

    def __init__(self, pid: int) -> None:
        pidfd = _open_process(pid)
        if pidfd is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self._pidfd = forks.keep_from_children(pidfd)
        self._owner = os.getpid()
        self._closing = threading.Lock()  # a signal must not meet a descriptor that is another's by then
        self._closed = False

    def send(self, number: signal.Signals) -> None:
        """Nothing happens to one that has ended, after ``close``, nor from a forked child of the process that holds it."""
        if os.getpid() != self._owner:
            return
        with self._closing:
            if not self._closed:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        with self._closing:
            if not self._closed:
                self._closed = True
                forks.close(self._pidfd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextmanager
def _scheduled(program: Program) -> Iterator[None]:
    """This thread is scheduled as the program is to be, which a child inherits."""
    everywhere, priority = os.sched_getaffinity(0), os.sched_param(0)
    batch = program.batch and os.sched_getscheduler(0) == os.SCHED_OTHER  # not where the caller has chosen another
    try:
        if program.cpus:
            os.sched_setaffinity(0, program.cpus)
        if batch:
            os.sched_setscheduler(0, os.SCHED_BATCH, priority)
        yield
    finally:
        if batch:
            os.sched_setscheduler(0, os.SCHED_OTHER, priority)
        if program.cpus:
            os.sched_setaffinity(0, everywhere)


def _popen(program: Program) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(program.argv),
        stdin=program.stdin,
        stdout=program.stdout,
        stderr=program.stderr,
        env=program.environment,
        cwd=program.directory,
        start_new_session=True,  # Ctrl-C in the terminal is dayfly's to handle, not the cell's
    )


def _poll(pidfds: Sequence[int], seconds: float) -> list[int]:
    poll = select.poll()
    for pidfd in pidfds:
        poll.register(pidfd, select.POLLIN)
    return [fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)]


def wait_gone(pids: Iterable[int], seconds: float) -> bool:
    """Whether all of ``pids`` have ended within ``seconds``. Blocks for as long."""
    return all(_gone(pid, seconds) for pid in pids)


def _open_process(pid: int) -> int | None:
    """A descriptor of the process; ``None`` if there is none, or if the number is a mere thread's by now."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):  # a thread: by the kernel's age
            return None
        raise


def _gone(pid: int, seconds: float) -> bool:
    pidfd = _open_process(pid)
    if pidfd is None:
        return True
    try:
        return bool(_poll([pidfd], seconds))
    finally:
        os.close(pidfd)


def signal_process(pid: int, started: int, number: signal.Signals) -> None:
    """Signal the process that had ``pid`` at its start ``started``; never another one that got the number later."""
    pidfd = _open_process(pid)
    if pidfd is None:
        return
    try:
        if start_ticks(pid) == started:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid, its identity. ``None`` if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[19])


def children(pid: int) -> list[int]:
    """The direct children of a process, whichever of its threads started them. Empty if there is no such process."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - plain strings are enough
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii").split())
    return found


# --- the spawner thread -----------------------------------------------------------------------------------------------

_jobs: queue.SimpleQueue[Callable[[], None]] | None = None
_starting = threading.Lock()


def in_spawner(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` in the thread that lives as long as this process. Jobs run one after another; keep them short."""
    outcome: Future[T] = Future()

    def job() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits; the thread must live on
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    _queue().put(job)
    return outcome


async def own(work: Future[T], undo: Callable[[T], None]) -> T:
    """What ``work`` starts. When cancelled meanwhile, waits for it (some 10 ms), undoes it, and then is cancelled."""
    waiting = asyncio.wrap_future(work)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # asyncio logs what nobody asks for
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not work.cancel():  # it is under way, or done
            with suppress(Exception):  # it failed: then it has left nothing, and the cancellation is what counts
                undo(work.result())
        raise


def _queue() -> queue.SimpleQueue[Callable[[], None]]:
    global _jobs
    with _starting:
        if _jobs is None:
            _jobs = queue.SimpleQueue()
            threading.Thread(target=_work, args=(_jobs,), name="dayfly-spawner", daemon=True).start()
        return _jobs


def _work(jobs: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _forget() -> None:
    """In a forked child: its parent's thread is not here, and the lock may be held by one that is not either."""
    global _jobs, _starting
    _jobs = None
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_forget)
