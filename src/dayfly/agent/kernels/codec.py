"""What a language's codec is: how its driver starts, and how requests and records are written."""

from __future__ import annotations

from dayfly.agent.kernels.records import ENVELOPE, HARD_LIMIT, Reader, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dayfly.agent.lent import Change
    from dayfly.agent.supervisor import Child, StartFailed, Supervisor


class Launch:
    """All that starting a driver takes. ``on_started`` gets ``None`` when the program runs, or why it does not."""

    __slots__ = ("control", "environment", "on_exit", "on_started", "stdio", "supervisor", "tag")

    def __init__(
        self,
        supervisor: Supervisor,
        tag: int,
        stdio: tuple[int, int, int],
        control: int,
        environment: Mapping[str, str],
        on_started: Callable[[StartFailed | None], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self.supervisor = supervisor
        self.tag = tag
        self.stdio = stdio
        self.control = control
        self.environment = environment
        self.on_started = on_started
        self.on_exit = on_exit

    def program(self, argv: list[str], extra: Mapping[str, str]) -> Child:
        """Start a driver that is a program of its own. Raises ``StartFailed``."""
        return self.supervisor.start(
            argv,
            tag=self.tag,
            stdio=self.stdio,
            keep=(self.control,),
            env={**self.environment, **extra},
            cwd=self.supervisor.home,
            on_started=self.on_started,
            on_exit=self.on_exit,
        )


class Codec:
    """Records with JSON, which Python and node speak. One codec serves one kernel."""

    renews = False
    """Whether the driver can draw its random state anew (see ``renewal``)."""

    takes_environment = False
    """Whether a request may bring a new environment (see ``Kernel.send``)."""

    memory_signals: tuple[int, ...] = ()
    """Signals by which the interpreter dies when it gets no more memory."""

    may_exit = False
    """Whether code ends its interpreter in the ordinary course of things, as scripts do with ``exit``."""

    loses_interrupts = False
    """Whether processes of a run can miss a SIGINT while they are being born, and are to get another."""

    settles = False
    """Whether the driver wants to know of a SIGINT since the last request: one may still be on its way, and hit the next run."""

    interrupted = False
    """Whether the driver's process got SIGINT since the last request."""

    def __init__(self) -> None:
        self._reader = Reader()

    def start(self, launch: Launch) -> Child:
        raise NotImplementedError

    def check(self, code: str) -> str | None:
        """Why this kernel cannot even be given the code; ``None`` if it can."""
        return None

    def request(
        self, run: int, code: str, cap: int, environment: Mapping[str, str] | None, change: Change | None = None
    ) -> bytes:
        """The bytes that make the driver run a cell. ``cap`` is the run's output cap, which bounds its records too."""
        self._reader.limit = min(cap, HARD_LIMIT) + ENVELOPE
        record: dict[str, object] = {"run": run, "code": code, "cap": cap}
        if environment is not None:
            record["env"] = dict(environment)
        if change is not None:
            record["lent"] = change.record
        if self.settles and self.interrupted:
            record["settle"] = True
        self.interrupted = False
        return encode(record)

    def renewal(self, keep_seeds: bool) -> bytes:
        """The bytes that make the driver do so; it answers with a record "renewed"."""
        return encode({"renew": {"keep_seeds": keep_seeds}})

    def wanted(self) -> int:
        return self._reader.wanted()

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    def next(self) -> dict[str, object] | None:
        """The next record, checked. Raises ``BadRecord``."""
        return self._reader.next()
