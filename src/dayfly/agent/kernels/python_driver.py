"""The Python kernel: a process forked from the agent, already the user, that runs cells until the agent is gone.

Law of this module: whatever a cell does, the next one runs as if it had not, but for the names it left behind.
"""

from __future__ import annotations

import builtins
import os
import sys

from dayfly.agent.kernels import failure
from dayfly.agent.kernels.link import Interrupts, Link
from dayfly.agent.kernels.plain import PlainKernel
from dayfly.agent.kernels.publisher import Publisher
from dayfly.agent.kernels.records import HARD_LIMIT
from dayfly.agent.kernels.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Union

    from dayfly.agent.kernels.ipython import IPythonKernel

    Kernel = Union[PlainKernel, IPythonKernel]

NO_INPUT = "input() gets no answer here: nobody is at the keyboard. Put the value into the code."

PIP_DEFAULTS = {
    "PIP_RETRIES": "0",  # without a network, five retries with pauses look like a hang
    "PIP_DEFAULT_TIMEOUT": "15",
    "PIP_NO_INPUT": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",  # what is there already counts, what is not goes to the user's own directory
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def main(control_fd: int, environment: Mapping[str, str], home: str) -> None:
    """Serve cells; never returns. Descriptors 0-2 and the user are set already."""
    _become_a_fresh_interpreter(environment, home)
    driver = Driver(control_fd)
    driver.start()
    _hide_the_agent()
    try:
        driver.serve()
    finally:
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
        _forbid_input()
        namespace = _main_module().__dict__
        self.kernel, facts = make_kernel(namespace, self.publisher)
        self.link.send({"ready": facts})

    def serve(self) -> None:
        while True:
            request = self.link.receive()
            if request is None:
                return
            self.link.send(self.execute(request))

    def execute(self, request: dict[str, object]) -> dict[str, object]:
        """Run one request; the record that answers it."""
        run, code, cap = request["run"], request["code"], request["cap"]
        assert isinstance(run, int)
        assert isinstance(code, str)
        assert isinstance(cap, int)
        self.publisher.cap = min(cap, HARD_LIMIT)
        if "env" in request:
            _set_environment(request["env"])  # type: ignore[arg-type]
        self.streams.restore()
        self.interrupts.install()
        outcome = self._guarded(code, f"<cell {run}>")
        self._leave_if_forked()
        sys.settrace(None)
        sys.setprofile(None)
        self.streams.flush()
        return {"done": run, **outcome}

    def _guarded(self, code: str, name: str) -> dict[str, object]:
        """The outcome of a cell. An interrupt that comes as the cell ends is an interrupt; none comes after."""
        try:
            try:
                self.interrupts.arm()
                return self._outcome(code, name)
            finally:
                self.interrupts.armed = False
        except BaseException as error:
            self.interrupts.armed = False
            return _failed(error, self.interrupts.fired, self.kernel.hidden)

    def _outcome(self, code: str, name: str) -> dict[str, object]:
        outcome = _OK
        try:
            self.kernel.run(code, name)
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


_OK: dict[str, object] = {"status": "ok", "error": None, "limit": None, "exit_code": None}


def _failed(error: BaseException, interrupted: bool, hidden: tuple[str, ...]) -> dict[str, object]:
    status = "interrupted" if interrupted else "error"
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


def _no_input(prompt: object = "") -> str:
    raise EOFError(NO_INPUT)


def _forbid_input() -> None:
    import getpass

    builtins.input = _no_input
    getpass.getpass = _no_getpass


def _no_getpass(prompt: str = "Password: ", stream: object = None, **more: object) -> str:
    raise EOFError(NO_INPUT.replace("input()", "getpass()"))


def _main_module() -> object:
    module = type(sys)("__main__")
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    return module


def _become_a_fresh_interpreter(environment: Mapping[str, str], home: str) -> None:
    """Leave nothing of the agent that forked us but what is in memory."""
    import gc

    gc.freeze()
    _set_environment(environment)
    try:
        os.chdir(home)
    except OSError:
        os.chdir("/")
    sys.argv = [""]
    _be_an_ordinary_python()
    sys.path[0] = ""
    _add_user_packages(home)


def _be_an_ordinary_python() -> None:
    """The agent may have been started isolated (-I -S): a kernel is not, nor what it starts with the same flags."""
    if sys.flags.no_site:
        import site

        site.main()
    sys.flags = OrdinaryFlags(sys.flags)  # type: ignore[assignment]


class OrdinaryFlags:
    """``sys.flags`` as if none of the isolating ones had been given; ``multiprocessing`` hands them on."""

    def __init__(self, flags: object) -> None:
        for name in dir(flags):
            value = getattr(flags, name)
            if not name.startswith("_") and isinstance(value, int):
                setattr(self, name, value)
        for name in ("isolated", "ignore_environment", "no_user_site", "no_site", "safe_path"):
            if hasattr(self, name):
                setattr(self, name, type(getattr(self, name))(0))


def _set_environment(environment: Mapping[str, str]) -> None:
    own = {"MPLBACKEND": os.environ["MPLBACKEND"]} if "MPLBACKEND" in os.environ else {}
    os.environ.clear()
    os.environ.update({**PIP_DEFAULTS, **own, **environment})


def _add_user_packages(home: str) -> None:
    """Where ``pip install --user`` puts things; site has looked for the agent's user and not for this one."""
    path = f"{home}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if path not in sys.path:
        at = next((i for i, entry in enumerate(sys.path) if entry.endswith("-packages")), len(sys.path))
        sys.path.insert(at, path)


def _hide_the_agent() -> None:
    """Its modules would shadow packages of the user's; what is loaded stays loaded."""
    for name in [name for name in sys.modules if name == "dayfly" or name.startswith("dayfly.")]:
        del sys.modules[name]
