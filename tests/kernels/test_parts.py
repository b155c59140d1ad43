"""Parts of a run and its kernel alone, with others in place of the loop, the processes and the host."""

from __future__ import annotations

import os
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dayfly.agent.child import Child
from dayfly.agent.kernels import meter, stop
from dayfly.agent.kernels.bash import BashCodec
from dayfly.agent.kernels.codec import Codec, Launch
from dayfly.agent.kernels.execution import Execution
from dayfly.agent.kernels.kernel import Kernel, KernelSink
from dayfly.agent.kernels.meter import Meter
from dayfly.agent.kernels.pipe import Glance
from dayfly.agent.kernels.stop import ANSWER_SECONDS, JUST_BORN
from dayfly.agent.lent import NOTHING
from dayfly.agent.loop import Timer

KERNEL = 1 << 29  # the pid of nobody, should a test signal it all the same
DONE = {"done": 1, "status": "ok", "error": None, "limit": None, "exit_code": None, "background": 0}
EXIT_3 = 3 << 8


class FakeLoop:
    """Timers that the test fires, and descriptors that nobody serves."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, callback: Any) -> Timer:
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    call_at = call_later

    def time(self) -> float:
        return time.monotonic()

    def ignore(self, *unused: object) -> None:
        """For all that is only told."""

    on_readable = on_writable = not_readable = not_writable = forget = on_error = ignore

    def fire(self, until: float = float("inf")) -> None:
        """Whatever is armed for a time until then, but not what that arms itself."""
        due = [timer for timer in self.timers if timer.due <= until]
        self.timers = [timer for timer in self.timers if timer.due > until]
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class FakeChannel:
    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self.task: Any = None

    def room(self) -> int:
        return 1 << 20

    def guarded(self, callback: Any) -> Any:
        return callback

    def finish(self, value: dict[str, Any]) -> None:
        self.value = value
        self.task.on_close()


class FakeKernel:
    """``last_words``: what ``go_on`` delivers."""

    def __init__(self, codec: Codec) -> None:
        self.pid = KERNEL
        self.alive = self.ready = True
        self.broken: str | None = None
        self.pipes: list[Any] = []
        self.cpu_known = 0.0
        self.interrupts = 0
        self.last_words: Any = None
        self._codec = codec

    def send(self, *unused: object, silent: bool = False) -> None:
        """A cell."""

    def cpu_seconds(self) -> float:
        return 0.0

    def go_on(self) -> None:
        words, self.last_words = self.last_words, None
        if words is not None:
            words()

    def interrupt(self) -> None:
        self.interrupts += 1

    def kill(self) -> None:
        """By force."""

    loses_interrupts = Kernel.loses_interrupts
    may_exit = Kernel.may_exit
    died_of_memory = Kernel.died_of_memory


class Run:
    """One run under way, in a context without processes of its own; kills are counted, and end at once."""

    def __init__(self, codec: Codec | None = None) -> None:
        self.loop = FakeLoop()
        self.memory = self.kills = self.kills_each = 0
        self.cpu = 0.0
        self.processes: list[Any] = []
        self.kernel: Any = FakeKernel(codec or Codec())
        self.channel = FakeChannel()
        params = {"code": "", "output": 1 << 20, "cpu_seconds": 60.0}
        self.execution = self.channel.task = Execution(self, self.channel, params)  # type: ignore[arg-type]
        self.execution.begin(self.kernel, 1)

    def memory_kills(self) -> int:
        return self.memory

    def members_since(self, ticks: int) -> list[Any]:
        return [one for one in self.processes if one.started >= ticks]

    def kill_since(self, ticks: int, on_dead: Any) -> None:
        self.kills += 1
        on_dead(self.kills_each, 0)

    def cpu_seconds(self) -> float:
        return self.cpu

    def closed(self, execution: Execution) -> None:
        """The next run may begin."""

    def die(self, status: int) -> dict[str, Any]:
        self.kernel.alive = False
        self.execution.died(status)
        return self.channel.value


# --- stopping -----------------------------------------------------------------------------------------------------


def test_a_stop_that_finds_the_answer_waiting_leaves_the_next_run_alone() -> None:
    run = Run()
    run.kernel.last_words = lambda: run.execution.done(DONE)
    run.execution.end("interrupted", 1.0)
    assert (run.channel.value["status"], run.kills) == ("ok", 1)
    run.loop.fire()
    assert (run.kernel.interrupts, run.kills) == (0, 1)


def test_a_stop_without_an_answer_asks_and_then_kills() -> None:
    run = Run()
    run.execution.end("interrupted", 1.0)
    assert (run.channel.value, run.kernel.interrupts, run.kills) == ({}, 1, 0)
    run.loop.fire()
    assert run.kills == 1


def test_a_kernel_that_waited_for_what_is_killed_is_not_asked_again_while_it_breaks_off() -> None:
    run = Run()
    run.kills_each = 1
    run.execution.end("interrupted", 1.0)
    run.loop.fire(until=1.0)
    assert (run.kills, run.kernel.interrupts) == (1, 1)
    run.loop.fire(until=ANSWER_SECONDS)
    assert run.kernel.interrupts == 2


@pytest.mark.parametrize(("codec", "again"), [(BashCodec, [6, 7]), (Codec, [])])
def test_only_who_may_have_missed_an_interrupt_is_interrupted_again(
    codec: type[Codec], again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(stop, "send_signal", lambda pid, number: told.append(pid))
    monkeypatch.setattr(stop, "in_ticks", lambda moment: 1000)
    run = Run(codec())
    monkeypatch.setattr(Execution, "since", 900)
    kernel, older, old, young = (
        SimpleNamespace(pid=pid, started=started)
        for pid, started in ((KERNEL, 950), (4, 899), (5, 999 - JUST_BORN), (6, 1000))
    )
    run.processes = [kernel, older, old, young]
    run.execution.end("interrupted", 1.0)
    assert told == [5, 6]
    run.processes.append(SimpleNamespace(pid=7, started=1001))
    run.loop.fire(until=0.5)
    assert (told[2:], run.kernel.interrupts) == (again, 1)


def test_nobody_is_interrupted_again_after_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(stop, "send_signal", lambda pid, number: told.append(pid))
    run = Run(BashCodec())
    monkeypatch.setattr(Execution, "since", 0)
    run.execution.end("interrupted", 1.0)
    run.execution.done({**DONE, "status": "interrupted"})
    run.processes = [SimpleNamespace(pid=6, started=1)]
    run.loop.fire()
    assert told == []


def test_a_meter_that_ended_its_run_looks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "crowded", lambda: False)
    run = Run()
    run.kernel.last_words = lambda: run.execution.done(DONE)
    found = run.execution._meter
    assert isinstance(found, Meter)
    found._used, found._last = 61.0, 0.0
    run.loop.fire()
    assert run.channel.value["status"] == "ok"
    assert found._look not in [timer.callback for timer in run.loop.timers]


# --- how a kernel ends --------------------------------------------------------------------------------------------


def test_a_script_that_exits_is_no_dead_kernel() -> None:
    value = Run(BashCodec()).die(EXIT_3)
    assert (value["status"], value["error"], value["limit"]) == ("ok", None, None)
    assert (value["exit_code"], value["signal"], value["state_survived"]) == (3, None, False)


def died(value: dict[str, Any]) -> bool:
    return value["status"] == "died" and value["error"]["name"] == "KernelDied" and not value["state_survived"]


def test_the_exit_of_another_languages_interpreter_is_its_death() -> None:
    assert died(Run(Codec()).die(EXIT_3))


def test_a_signal_is_a_death() -> None:
    assert died(Run(BashCodec()).die(9))


def test_a_shell_that_was_never_ready_died() -> None:
    run = Run(BashCodec())
    run.kernel.ready = False
    assert died(run.die(127 << 8))


def test_a_shell_that_broke_the_protocol_died() -> None:
    run = Run(BashCodec())
    run.kernel.broken = "somehow"
    assert died(run.die(EXIT_3))


def test_a_shell_that_ran_out_of_memory_died() -> None:
    run = Run(BashCodec())
    run.memory = 1
    value = run.die(137 << 8)
    assert died(value)
    assert value["limit"] == "memory"


def test_a_shell_that_exits_because_it_is_stopped_was_interrupted() -> None:
    run = Run(BashCodec())
    run.execution.end("interrupted", 1.0)
    assert run.die(EXIT_3)["status"] == "interrupted"


# --- last words ---------------------------------------------------------------------------------------------------


class Refilled(Codec):
    """A kernel that exists only as a child whose socket somebody fills again whenever something is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = 0

    def start(self, launch: Launch) -> Child:
        self.held = os.dup(launch.control)
        self.child = Child(KERNEL, launch.tag, launch.on_exit, False)
        return self.child

    def wanted(self) -> int:
        return 4

    def feed(self, data: bytes) -> None:
        self.heard += len(data)
        assert self.heard < 100, "it is held in a loop"
        os.write(self.held, data)

    def next(self) -> None:
        return None


class Listener(KernelSink):
    status: int | None = None

    def room(self) -> int:
        return 0

    def on_exit(self, kernel: Kernel, status: int) -> None:
        self.status = status


def test_a_process_that_keeps_filling_a_dead_kernels_socket_is_not_listened_to() -> None:
    supervisor: Any = SimpleNamespace(loop=FakeLoop(), environment={}, lent=NOTHING, null=-1)
    codec, sink = Refilled(), Listener()
    kernel = Kernel(supervisor, 1, codec, sink)
    kernel.start()
    os.write(codec.held, b"last words")
    codec.child.status = 0
    codec.child.on_exit(0)
    assert (codec.heard, sink.status) == (10, 0)
    kernel.close_pipes()
    os.close(codec.held)


def test_a_glance_tells_which_pipes_hold_something() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    (out, into_out), (err, into_err) = os.pipe(), os.pipe()
    pipes: list[Any] = [SimpleNamespace(fd=out, empty=None), SimpleNamespace(fd=err, empty=None)]
    glance = Glance(null)

    def seen() -> list[bool]:
        glance.at(pipes)
        return [one.empty for one in pipes]

    assert seen() == [True, True]
    os.write(into_err, b"x")
    assert seen() == [True, False]
    os.read(err, 1)
    os.close(into_out)  # an end is to be read, too
    assert seen() == [False, True]
    os.close(out)
    pipes[0].fd = -1
    assert seen()[1] is True
    os.close(into_err)
    os.close(err)
    os.close(null)


def test_output_that_came_before_a_result_is_read_before_it() -> None:
    """However the kernel hands both over: what a glance has not seen was not there when the record was."""
    null = os.open("/dev/null", os.O_RDWR)
    out, into_out = os.pipe()
    pipes: list[Any] = [SimpleNamespace(fd=out, empty=None)]
    glance, wrong = Glance(null), 0
    ours, theirs = socket.socketpair()

    def kernel() -> None:
        for _ in range(2000):
            os.write(into_out, b"x")
            theirs.send(b"r")
            theirs.recv(1)

    thread = threading.Thread(target=kernel)
    thread.start()
    for _ in range(2000):
        ours.recv(1)
        glance.at(pipes)
        wrong += pipes[0].empty
        os.read(out, 1)
        ours.send(b"n")
    thread.join()
    for end in (ours, theirs):
        end.close()
    for fd in (null, out, into_out):
        os.close(fd)
    assert wrong == 0
