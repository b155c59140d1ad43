"""Named contexts, each with its kernel and its queue of runs: serial within one, parallel across them."""

from __future__ import annotations

from dayfly.agent.kernels import CODECS
from dayfly.agent.kernels.execution import Execution
from dayfly.agent.kernels.kernel import Kernel, KernelSink
from dayfly.agent.session import BadRequest, Refused, Task
from dayfly.agent.supervisor import StartFailed
from dayfly.wire.operations import BAD_REQUEST, BUSY, CANNOT_START, NO_SUCH_CONTEXT, UNKNOWN_LANGUAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dayfly.agent.census import Process
    from dayfly.agent.core import Agent
    from dayfly.agent.kernels.codec import Codec
    from dayfly.agent.session import Channel

MAX_CONTEXTS = 16
"""Each is an interpreter of some 10-50 MB, and may make the agent hold one record."""

MAX_QUEUE = 16
"""Runs that wait in one context; each holds its code, up to 1 MiB."""

MAX_NAME = 128
"""Characters of a context's name."""

MAX_HELD = 64 * 1024
"""Bytes of output that arrive while nothing runs and are kept for the next run; more is dropped."""


class Context(KernelSink):
    """One name, one language, at most one live kernel. Its tag outlives kernels: it marks all that the context started."""

    def __init__(self, contexts: Contexts, name: str, language: str) -> None:
        self.name = name
        self.language = language
        self.loop = contexts.supervisor.loop
        self.kernel: Kernel | None = None
        self.current: Execution | None = None
        self.background = 0  # what its kernel says that goes on after its last run: threads, timers
        self._contexts = contexts
        self._supervisor = contexts.supervisor
        self._tag = contexts.supervisor.new_tag()
        self._queue: list[Execution] = []
        self._count = 0
        self._held: list[tuple[int, bytes]] = []
        self._held_size = 0
        self._prepares: list[Channel] = []
        self._removed = False
        self._on_renewed: Callable[[list[str], list[str]], None] | None = None

    # --- runs -----------------------------------------------------------------------------------------------------

    def enqueue(self, execution: Execution) -> None:
        """Raises ``Refused`` when too many wait already, or there can be no kernel."""
        if len(self._queue) >= MAX_QUEUE:
            raise Refused(BUSY, f"{MAX_QUEUE} runs wait in context {self.name!r}")
        self._queue.append(execution)
        self._next()

    def _next(self) -> None:
        while self.current is None and self._queue and not self._removed:
            execution = self.current = self._queue.pop(0)
            try:
                self._begin(execution)
            except Refused as refusal:
                execution.channel.fail(refusal.code, str(refusal))  # and with it ``closed``
            except BadRequest as error:
                execution.channel.fail(BAD_REQUEST, str(error))

    def _begin(self, execution: Execution) -> None:
        kernel = self._fresh_kernel()
        problem = kernel.check(execution.code)
        if problem is not None:
            raise BadRequest(problem)
        self._count += not execution.silent
        held, self._held, self._held_size = self._held, [], 0
        execution.begin(kernel, self._count)
        for stream, data in held:
            execution.take(stream, data)

    def closed(self, execution: Execution) -> None:
        """The execution has been answered."""
        if execution in self._queue:
            self._queue.remove(execution)
        if self.current is not execution:
            return
        self.current = None
        kernel = self.kernel
        if kernel is not None and kernel.alive:
            kernel.go_on()
            for pipe in kernel.pipes:
                pipe.unsettle()
        elif kernel is not None:
            self._bury(kernel)
        self._next()

    # --- the kernel -----------------------------------------------------------------------------------------------

    def prepare(self, channel: Channel | None) -> None:
        """Have a kernel, and answer when it can run code. Raises ``Refused``."""
        kernel = self._fresh_kernel()
        if channel is None:
            return
        if kernel.ready:
            channel.finish({"pid": kernel.pid})
        else:
            self._prepares.append(channel)

    def _fresh_kernel(self) -> Kernel:
        """The live kernel, or a new one. Raises ``Refused``."""
        kernel = self.kernel
        if kernel is not None and kernel.alive and not kernel.broken:
            if kernel.suits(self._supervisor.environment):
                return kernel
            kernel.kill()  # never used, and made for another environment
        kernel = Kernel(self._supervisor, self._tag, self._new_codec(), self)
        try:
            kernel.start()
        except StartFailed as failure:
            raise Refused(CANNOT_START, str(failure)) from None
        self.kernel = kernel
        return kernel

    def _new_codec(self) -> Codec:
        from dayfly.agent.core import load

        codec: Codec = load(CODECS[self.language])()
        return codec

    def on_record(self, record: dict[str, object]) -> None:
        if "ready" in record:
            self._ready()
        elif "display" in record:
            if self.current is not None:
                self._show(self.current, record["display"])  # type: ignore[arg-type]
        elif "renewed" in record:
            self._renewed(record)
        elif self.current is not None and record["done"] == self.current.number and self.current.answer is None:
            self.background = int(record["background"])  # type: ignore[call-overload]
            self.current.done(record)
        else:
            raise_bad("an answer to a run that is not under way")

    def _show(self, execution: Execution, display: dict[str, object]) -> None:
        assert self.kernel is not None
        for pipe in self.kernel.pipes:  # what was printed before comes before, as far as there is room
            if pipe.fd >= 0 and pipe.left and not pipe.empty and execution.room():
                pipe.read()
        execution.show(display)

    def renew(self, keep_seeds: bool, on_renewed: Callable[[list[str], list[str]], None]) -> None:
        """Have the live kernel draw its random state anew; ``on_renewed`` gets what it did, and what it left."""
        assert self.kernel is not None
        self._on_renewed = on_renewed
        self.kernel.renew(keep_seeds)

    def _renewed(self, record: dict[str, object]) -> None:
        told, self._on_renewed = self._on_renewed, None
        if told is None:
            raise_bad("an answer to a renewal that nobody asked for")
        else:
            told(record["renewed"], record["kept"])  # type: ignore[arg-type]

    def replace(self) -> None:
        """Another kernel in the place of one that ran nothing yet. Raises ``Refused``."""
        if self.kernel is not None:
            self.kernel.kill()
            self.kernel = None
        self.prepare(None)

    def _ready(self) -> None:
        assert self.kernel is not None
        self.kernel.ready = True
        self.kernel.cpu_seconds()  # its start is no run's
        waiting, self._prepares = self._prepares, []
        for channel in waiting:
            channel.finish({"pid": self.kernel.pid})

    def on_exit(self, kernel: Kernel, status: int) -> None:
        if kernel is not self.kernel:
            kernel.close_pipes()
            return
        self._fail_prepares(f"the {self.language} kernel ended while it started")
        if self._on_renewed is not None:
            self._renewed({"renewed": [], "kept": []})
        if self.current is not None:
            self.current.died(status)
        if self.kernel is kernel:
            self._bury(kernel)

    def _bury(self, kernel: Kernel) -> None:
        """Its last output is read when the run that it died under is over; if none is, nobody waits for it."""
        if self.current is None:
            kernel.close_pipes()
            self.kernel = None

    def on_start_failed(self, kernel: Kernel, why: StartFailed) -> None:
        if kernel is not self.kernel:
            return
        self.kernel = None
        self._fail_prepares(str(why))
        if self.current is not None:
            self.current.channel.fail(CANNOT_START, str(why))

    def _fail_prepares(self, why: str) -> None:
        waiting, self._prepares = self._prepares, []
        for channel in waiting:
            channel.fail(CANNOT_START, why)

    # --- output ---------------------------------------------------------------------------------------------------

    def room(self) -> int:
        return self.current.room() if self.current is not None else MAX_HELD

    def take(self, stream: int, data: bytes) -> None:
        if self.current is not None:
            self.current.take(stream, data)
        elif self._held_size < MAX_HELD:
            kept = data[: MAX_HELD - self._held_size]
            self._held_size += len(kept)
            self._held.append((stream, kept))

    def on_settled(self) -> None:
        if self.current is not None:
            self.current.settled()

    # --- processes ------------------------------------------------------------------------------------------------

    def cpu_seconds(self) -> float:
        return self._supervisor.cpu_seconds(self._tag)

    def memory_kills(self) -> int:
        """Processes of the context that were killed so far because the sandbox's memory ran out."""
        return self._supervisor.memory_kills.get(self._tag, 0)

    def members_since(self, ticks: int) -> list[Process]:
        return [one for one in self._supervisor.members(self._tag) if one.started >= ticks]

    def kill_since(self, ticks: int, on_dead: Callable[[int, int], None]) -> None:
        """Kill what the context started since then, but for its kernel."""
        spare = self.kernel.pid if self.kernel is not None and self.kernel.alive else 0
        self._supervisor.kill(self._tag, on_dead, spare=spare, since=ticks)

    def remove(self, on_dead: Callable[[int, int], None]) -> None:
        """Kill everything; runs that wait are refused, the one under way dies."""
        self._removed = True
        waiting, self._queue = self._queue, []
        for execution in waiting:
            execution.channel.fail(NO_SUCH_CONTEXT, f"context {self.name!r} was removed")

        def dead(killed: int, left: int) -> None:
            if not left:
                self._supervisor.drop_tag(self._tag)
            on_dead(killed, left)

        self._supervisor.kill(self._tag, dead)

    @property
    def resting_pid(self) -> int:
        """The process of its kernel if that waits for a run and nothing else; 0 if there is none, or it does more."""
        if self.current is not None or self.background or self.kernel is None or not self.kernel.alive:
            return 0
        return self.kernel.pid

    def describe(self) -> dict[str, object]:
        busy = self.current is not None
        pid = self.kernel.pid if self.kernel is not None and self.kernel.alive else 0
        return {"name": self.name, "language": self.language, "busy": busy, "pid": pid}


class Contexts:
    """All contexts, by name."""

    def __init__(self, agent: Agent) -> None:
        self.supervisor = agent.supervisor
        self._by_name: dict[str, Context] = {}

    def find_or_make(self, name: str, language: str) -> Context:
        """Raises ``BadRequest`` or ``Refused``."""
        context = self._by_name.get(name)
        if context is not None:
            if context.language != language:
                raise BadRequest(f"context {name!a} is of {context.language}, not {language!a:.40}")
            return context
        return self._make(name, language)

    def _make(self, name: str, language: str) -> Context:
        from dayfly.agent.kernels import languages

        if not 0 < len(name) <= MAX_NAME:
            raise BadRequest(f"a context's name has 1 to {MAX_NAME} characters")
        if language not in languages(self.supervisor.environment):
            raise Refused(UNKNOWN_LANGUAGE, f"this image has no kernel for {language!a:.40}")
        if len(self._by_name) >= MAX_CONTEXTS:
            raise Refused(BUSY, f"there are {MAX_CONTEXTS} contexts already")
        context = self._by_name[name] = Context(self, name, language)
        return context

    def pop(self, name: str) -> Context:
        """Raises ``Refused``."""
        context = self._by_name.pop(name, None)
        if context is None:
            raise Refused(NO_SUCH_CONTEXT, f"no context {name!a:.200}")
        return context

    def all(self) -> list[Context]:
        return list(self._by_name.values())

    def describe(self) -> list[dict[str, object]]:
        return [context.describe() for context in self._by_name.values()]


def raise_bad(how: str) -> None:
    from dayfly.agent.kernels.records import BadRecord

    raise BadRecord(how)


# --- the operations -----------------------------------------------------------------------------------------------


def execute(agent: Agent, channel: Channel, params: Mapping[str, object]) -> Task:
    context = _contexts(agent).find_or_make(str(params["context"]), str(params["language"]))
    execution = Execution(context, channel, params)
    channel.task = execution
    context.enqueue(execution)
    return execution


def prepare(agent: Agent, channel: Channel, params: Mapping[str, object]) -> None:
    _contexts(agent).find_or_make(str(params["context"]), str(params["language"])).prepare(channel)


def resting_kernels(agent: Agent) -> set[int]:
    """Processes of kernels that do nothing until they are asked to."""
    return {context.resting_pid for context in _contexts(agent).all()} - {0}


def list_contexts(agent: Agent, channel: Channel, params: Mapping[str, object]) -> None:
    channel.finish({"contexts": _contexts(agent).describe()})


def remove(agent: Agent, channel: Channel, params: Mapping[str, object]) -> None:
    context = _contexts(agent).pop(str(params["context"]))

    def dead(killed: int, left: int) -> None:
        if not left:  # else no answer: what cannot be killed is the host's to end
            channel.finish({})

    context.remove(dead)


def prestart(agent: Agent, names: list[str]) -> None:
    """Start the default kernels of these languages, whose contexts are named after them. Never raises."""
    for language in names:
        try:
            _contexts(agent).find_or_make(language, language).prepare(None)
        except (Refused, BadRequest):  # whoever runs code in it will hear why
            continue


def _contexts(agent: Agent) -> Contexts:
    contexts = agent.part(Contexts)
    assert isinstance(contexts, Contexts)
    return contexts
