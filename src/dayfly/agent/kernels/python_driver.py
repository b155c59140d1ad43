"""The Python kernel: a process forked from the agent, already the user, that runs cells until the agent is gone.

Law of this module: whatever a cell does, the next one runs as if it had not, but for the names it left behind.
"""

from __future__ import annotations

import os
import sys

from dayfly.agent.kernels import failure, generators, interpreter
from dayfly.agent.kernels.link import Interrupts, Link
from dayfly.agent.kernels.plain import PlainKernel
from dayfly.agent.kernels.publisher import Publisher
from dayfly.agent.kernels.records import HARD_LIMIT
from dayfly.agent.kernels.streams import Streams
from dayfly.agent.unlimited import breathe, breathing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Union

    from dayfly.agent.kernels.ipython import IPythonKernel

    Kernel = Union[PlainKernel, IPythonKernel]


def main(control_fd: int, environment: Mapping[str, str], home: str) -> None:
    """Serve cells; never returns. Descriptors 0-2 and the user are set already."""
    interpreter.become_ordinary(environment, home)
    driver = Driver(control_fd)
    driver.start()
    interpreter.hide_the_agent()
    driver.serve()
    os._exit(0)


class Driver:
    """Takes requests off the link, runs them, answers."""

    def __init__(self, control_fd: int) -> None:
        self.streams = Streams()
        self.interrupts = Interrupts()
        self.link = Link(control_fd, self.interrupts)
        self.publisher = Publisher(self.link)
        self.kernel: Kernel

    def start(self) -> None:
        """Make the kernel and say so."""
        self.streams.restore()
        self.interrupts.install()
        self.interrupts.survive_hangups()
        self.kernel, facts = make_kernel(interpreter.main_namespace(), self.publisher)
        self.link.send({"ready": facts})

    def serve(self) -> None:
        while True:
            request = breathing(self.link.receive)
            if request is None:
                return
            if "renew" in request:
                self.link.send(generators.renew(request["renew"]["keep_seeds"]))  # type: ignore[index]
                continue
            self._answer(self.execute(request))
            breathing(self._mend)  # after the answer, while nobody waits: 30 us of system calls

    def _answer(self, record: dict[str, object]) -> None:
        breathing(lambda: self.link.send(record))

    def _mend(self) -> None:
        """Whatever the cell closed, replaced or took for itself is as it was."""
        self.streams.restore()
        self.interrupts.install()

    def execute(self, request: dict[str, object]) -> dict[str, object]:
        """Run one request; the record that answers it."""
        run, code, cap = request["run"], request["code"], request["cap"]
        assert isinstance(run, int)
        assert isinstance(code, str)
        assert isinstance(cap, int)
        self.publisher.cap = min(cap, HARD_LIMIT)
        breathing(lambda: _prepare(request, code))
        outcome = self._guarded(code, run)
        self._leave_if_forked()
        background = breathing(self._settle)
        return breathing(lambda: {"done": run, **outcome, "background": background})

    def _settle(self) -> int:
        """Before the answer: what is printed by now belongs to this run. Returns how many threads go on."""
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        self.streams.flush()
        return _background()

    def _guarded(self, code: str, run: int) -> dict[str, object]:
        """The outcome of a cell. An interrupt that comes as the cell ends is an interrupt; none comes after."""
        try:
            try:
                self.interrupts.arm()
                return self._outcome(code, run)
            finally:
                self.interrupts.armed = False
        except BaseException as error:
            self.interrupts.armed = False
            return _failed(error, self.interrupts.fired, self.kernel.hidden)

    def _outcome(self, code: str, run: int) -> dict[str, object]:
        outcome = _OK
        try:
            self.kernel.run(code, run)
        except SystemExit as request:
            outcome = _exited(request)
        except BaseException as error:
            outcome = _failed(error, self.interrupts.fired, self.kernel.hidden)
        try:
            self.kernel.finish()
        except BaseException as error:
            if outcome["status"] == "ok":
                outcome = _failed(error, self.interrupts.fired, self.kernel.hidden)
        if self.interrupts.fired and outcome["status"] == "ok":  # the code swallowed it and went on
            outcome = {**outcome, "status": "interrupted"}
        return outcome

    def _leave_if_forked(self) -> None:
        """A cell that forks comes back here twice. The child's part of the work is done."""
        if not self.link.is_mine:
            self.streams.flush()
            os._exit(0)


def _prepare(request: dict[str, object], code: str) -> None:
    if "env" in request:
        interpreter.set_environment(request["env"])  # type: ignore[arg-type]
    if "lent" in request:
        interpreter.change_environment(request["lent"]["rows"])  # type: ignore[index]
    interpreter.forbid_getpass(code)


def _background() -> int:
    """Threads that go on now that the cell is over."""
    threading = sys.modules.get("threading")
    return max(0, threading.active_count() - 1) if threading is not None else 0


_OK: dict[str, object] = {"status": "ok", "error": None, "limit": None, "exit_code": None}


def _failed(error: BaseException, interrupted: bool, hidden: tuple[str, ...]) -> dict[str, object]:
    status = "interrupted" if interrupted else "error"
    if isinstance(error, MemoryError):
        breathe()
    try:
        told = failure.describe(error, hidden)
        limit = failure.limit_of(error)
    except BaseException:  # no memory even for that, or an exception that raises whatever it is asked
        told = {"name": failure.name_of(error), "value": "", "traceback": ""}
        limit = "memory" if type(error) is MemoryError else None
    failure.forget_last()
    return {"status": status, "error": told, "limit": limit, "exit_code": None}


def _exited(request: SystemExit) -> dict[str, object]:
    """``sys.exit()`` ends the cell and not the kernel; like a script's, it is an error unless the code is 0 or None."""
    code = request.code
    if code is None or (isinstance(code, int) and code & 0xFF == 0):
        return {**_OK, "exit_code": 0}
    number = code & 0xFF if isinstance(code, int) else 1
    return {**_failed(request, False, ()), "exit_code": number}


def make_kernel(namespace: dict[str, object], publisher: Publisher) -> tuple[Kernel, dict[str, object]]:
    """IPython's kernel if it can be had, else the plain one, and facts about it."""
    reason = ""
    try:
        from dayfly.agent.kernels.ipython import IPythonKernel

        kernel: Kernel = IPythonKernel(namespace, publisher)
    except Exception as error:  # none there, or of a shape that this code does not know: work without it
        if not (isinstance(error, ModuleNotFoundError) and error.name == "IPython"):
            reason = f"{type(error).__name__}: {error!s:.200}"
        kernel = PlainKernel(namespace, publisher)
    return kernel, {"kernel": kernel.name, "reason": reason, "python": sys.version.split()[0]}
