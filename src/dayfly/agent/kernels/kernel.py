"""One live interpreter: its process, its control socket, and the two pipes that it prints to (pipe.py)."""

from __future__ import annotations

import _socket
import os
import time

from dayfly.agent.kernels.pipe import Glance, Pipe, mark
from dayfly.agent.kernels.records import BadRecord
from dayfly.agent.lent import Told
from dayfly.agent.streams import pipe, waiting_bytes
from dayfly.agent.supervisor import StartFailed, send_signal
from dayfly.wire.operations import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping

    from dayfly.agent.kernels.codec import Codec
    from dayfly.agent.supervisor import Child, Supervisor
else:
    import _signal as signal  # see loop.py

DYING_SECONDS = 0.5
"""Between the end of the control socket and the process's own, which follows unless code closed the descriptor."""


class KernelSink:
    """Where what comes from a kernel goes: its context."""

    def room(self) -> int:
        """Bytes of output that are wanted now; 0: whoever wants them again calls ``Kernel.resume``."""
        raise NotImplementedError

    def take(self, stream: int, data: bytes) -> None:
        """At most ``room()`` bytes of output."""
        raise NotImplementedError

    def on_record(self, record: dict[str, object]) -> None:
        raise NotImplementedError

    def on_exit(self, kernel: Kernel, status: int) -> None:
        """The process is dead; what it had sent before has been delivered."""
        raise NotImplementedError

    def on_start_failed(self, kernel: Kernel, why: StartFailed) -> None:
        """There is no kernel."""
        raise NotImplementedError

    def on_settled(self) -> None:
        """A pipe was read as far as ``settle`` asked for."""
        raise NotImplementedError


class Kernel:
    """``used`` says whether it ever ran anything, ``broken`` how it broke the protocol (then it is being killed)."""

    def __init__(self, supervisor: Supervisor, tag: int, codec: Codec, sink: KernelSink) -> None:
        self.ready = False
        self.used = False
        self.cpu_known = 0.0  # seconds that it had used when last asked
        self.broken: str | None = None
        self.environment = supervisor.environment
        self._told = Told(supervisor.lent, self.environment)
        self.pipes: list[Pipe] = []
        self._glance = Glance(supervisor.null)
        self._supervisor = supervisor
        self._loop = supervisor.loop
        self._tag = tag
        self._codec = codec
        self.sink = sink
        self._child: Child | None = None
        self._control = -1
        self._unwritten = b""
        self._paused = False

    @property
    def pid(self) -> int:
        return self._child.pid if self._child else 0

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.status is None

    def cpu_seconds(self) -> float:
        """CPU of the process itself, without children: one system call, cheap enough for every run."""
        try:
            self.cpu_known = time.clock_gettime((~self.pid << 3) | 2)  # another process's clock: clock_getcpuclockid
        except OSError:  # it is gone
            return self.cpu_known
        return self.cpu_known

    # --- starting -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Raises ``StartFailed``, with nothing left behind."""
        ends: list[int] = []  # ours at even places, the kernel's at odd ones
        try:
            ends += (end.detach() for end in _socket.socketpair())
            ends += (*pipe(), *pipe())
            for end in ends[3::2]:
                mark(end)
            self._child = self._launch(ends[1], ends[3], ends[5])
        except OSError as error:
            _close(ends)
            raise StartFailed(error.errno or 0, "a kernel's pipes") from None
        except StartFailed:
            _close(ends)
            raise
        _close(ends[1::2])
        self._watch(*ends[::2])

    def _watch(self, control: int, out: int, err: int) -> None:
        self._control = control
        os.set_blocking(control, False)
        self._loop.on_readable(control, self.guarded(self._readable))
        self.pipes = [Pipe(self, self._loop, out, STDOUT), Pipe(self, self._loop, err, STDERR)]

    def _launch(self, control: int, out: int, err: int) -> Child:
        from dayfly.agent.kernels.codec import Launch

        stdio = (self._supervisor.null, out, err)
        return self._codec.start(
            Launch(self._supervisor, self._tag, stdio, control, self.environment, self._started, self._exited)
        )

    def _started(self, failure: StartFailed | None) -> None:
        if failure is not None:
            self._close()
            self.sink.on_start_failed(self, failure)

    # --- control --------------------------------------------------------------------------------------------------

    def died_of_memory(self, number: object) -> bool:
        """Whether an end by this signal means that it got no more memory."""
        return number in self._codec.memory_signals

    @property
    def may_exit(self) -> bool:
        """Whether an exit of it, now that it is dead, can be what its code meant to do."""
        return self._codec.may_exit and self.ready and self.broken is None

    @property
    def loses_interrupts(self) -> bool:
        return self._codec.loses_interrupts

    def check(self, code: str) -> str | None:
        return self._codec.check(code)

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether code that is to have ``environment`` can run here: a kernel that was used keeps the one it has."""
        if self.used or self._codec.takes_environment:
            return True
        return self.environment == environment and self._told.knows(self._supervisor.lent)

    def send(self, run: int, code: str, cap: int, *, silent: bool = False) -> None:
        """Give it a cell. An unused kernel takes over the environment as it is now; a silent cell does not use it, and has
        it take the environment in any case: what that touches is in memory then. One that was used hears of what is lent."""
        now, environment = self._supervisor.environment, None
        if not self.used and (silent or self.environment != now):
            environment = self.environment = now
            self._told = Told(self._supervisor.lent, now)
        change = self._told.change(self._supervisor.lent, now)
        self.used = self.used or not silent
        self._unwritten += self._codec.request(run, code, cap, environment, change)
        self._writable()

    @property
    def renews(self) -> bool:
        return self._codec.renews

    def renew(self, keep_seeds: bool) -> None:
        """Have it draw its random state anew; the answer is a record."""
        self._unwritten += self._codec.renewal(keep_seeds)
        self._writable()

    def _writable(self) -> None:
        try:
            while self._unwritten and self._control >= 0:
                self._unwritten = self._unwritten[os.write(self._control, self._unwritten) :]
        except BlockingIOError:
            self._loop.on_writable(self._control, self.guarded(self._writable))
            return
        except OSError:  # it is dead, or has closed its end: both show elsewhere
            self._unwritten = b""
        if self._control >= 0:
            self._loop.not_writable(self._control)

    def _readable(self) -> None:
        self._read(self._codec.wanted())

    def _read(self, most: int) -> int:
        """Take in ``most`` bytes or fewer, 0 at the end; how many."""
        try:
            data = os.read(self._control, most)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            self._glance.at(self.pipes)
            self._codec.feed(data)
            self._deliver()
        else:  # it is dying, as a rule: then its exit says more
            self._loop.not_readable(self._control)
            self._loop.call_later(DYING_SECONDS, self._still_there)
        return len(data)

    def _still_there(self) -> None:
        if self.alive and self._control >= 0:
            self._break("it closed its control socket")

    def _deliver(self) -> None:
        try:
            while not self._paused:
                record = self._codec.next()
                if record is None:
                    return
                self.sink.on_record(record)
        except BadRecord as error:
            self._break(str(error))

    def guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        """``callback`` such that what it raises ends this kernel, and with it the run, but nothing else."""

        def call() -> None:
            try:
                callback()
            except Exception as error:
                self._loop.on_error(error)
                self._break(f"the agent failed: {type(error).__name__}")

        return call

    def hold(self) -> None:
        """Take no further record for now: the last one is still on its way to the host. A dead kernel's are all taken."""
        if self.alive and not self._paused:
            self._paused = True
            if self._control >= 0:
                self._loop.not_readable(self._control)

    def go_on(self) -> None:
        if self._paused:
            self._paused = False
            if self._control >= 0:
                self._loop.on_readable(self._control, self.guarded(self._readable))
            self._deliver()

    def resume(self) -> None:
        """There is room for output again."""
        for one in self.pipes:
            one.resume()

    # --- end ------------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        self._codec.interrupted = True
        send_signal(self.pid, signal.SIGCONT)  # a stopped process takes no SIGINT
        send_signal(self.pid, signal.SIGINT)

    def kill(self) -> None:
        if self.alive:
            send_signal(self.pid, signal.SIGKILL)

    def _break(self, how: str) -> None:
        """It does not keep the protocol: nothing that it says counts any more."""
        self.broken = self.broken or how
        self._close_control()
        self.kill()

    def _exited(self, status: int) -> None:
        for one in self.pipes:
            one.empty = False
        self._paused = False
        self.guarded(self._hear_last_words)()
        self.sink.on_exit(self, status)

    def _hear_last_words(self) -> None:
        """What it had said before, which is there now: a child of it that holds the socket may go on for ever."""
        left = waiting_bytes(self._control) if self._control >= 0 else 0
        while left > 0 and self._control >= 0:
            left -= self._read(min(left, self._codec.wanted())) or left
        self._close_control()

    def _close_control(self) -> None:
        if self._control >= 0:
            fd, self._control = self._control, -1
            self._loop.forget(fd)
            os.close(fd)

    def _close(self) -> None:
        self._close_control()
        self.close_pipes()

    def close_pipes(self) -> None:
        for one in self.pipes:
            one.close()


def _close(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)
