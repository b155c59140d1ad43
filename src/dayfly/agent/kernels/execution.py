"""One run of code in a kernel, from its place in the queue to its answer.

It is over when four things are: the kernel has answered or died, what it printed until then has been read and sent, its
results too, and, if it was stopped or the kernel died, what the run had started is dead.
"""

from __future__ import annotations

from dayfly.agent.census import in_ticks
from dayfly.agent.kernels import records
from dayfly.agent.kernels.meter import Meter
from dayfly.agent.kernels.stop import Stop
from dayfly.agent.session import Task
from dayfly.agent.streams import UNLIMITED
from dayfly.agent.supervisor import exit_fields
from dayfly.wire.operations import RESULTS
from dayfly.wire.payloads import dump_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dayfly.agent.kernels.contexts import Context
    from dayfly.agent.kernels.kernel import Kernel
    from dayfly.agent.session import Channel

ENOUGH = 2048
"""Bytes of room that are worth going on for."""

STOP_GRACE = 0.3
"""Seconds between SIGINT and SIGKILL where the host names none."""

MAX_GRACE = 3600.0
"""Seconds; the host's own deadline is much shorter."""


class Execution(Task):
    """``number`` is the run's number in its context."""

    def __init__(self, context: Context, channel: Channel, params: Mapping[str, object]) -> None:
        self.channel = channel
        self.code = str(params["code"])
        self.cap = max(0, int(params["output"]))  # type: ignore[call-overload]
        self.silent = params.get("silent") is True
        self.number = 0
        self.stop: Stop | None = None
        self.answer: dict[str, object] | None = None  # the kernel's "done"
        self._context = context
        self._cpu_cap = float(params["cpu_seconds"])  # type: ignore[arg-type]
        self._kernel: Kernel | None = None
        self._left = self.cap
        self._dropped = 0
        self._results: list[memoryview] = []
        self._exit: int | None = None  # the kernel's wait status, if it died
        self._cleared = True
        self._over = False
        self._meter: Meter | None = None
        self._memory_kills = 0

    # --- beginning ------------------------------------------------------------------------------------------------

    def begin(self, kernel: Kernel, number: int) -> None:
        """Its turn has come."""
        self._kernel = kernel
        self.number = number
        self._meter = Meter(self._context, kernel, self._cpu_cap, self)
        self._memory_kills = self._context.memory_kills()
        kernel.send(number, self.code, self.cap, silent=self.silent)
        self.code = ""

    @property
    def ended(self) -> bool:
        """The kernel has answered or died, or nobody waits for it any more."""
        return self._over or self.answer is not None or self._exit is not None

    @property
    def since(self) -> int:
        """When it began, in ticks: what is older than that is not of this run."""
        assert self._meter is not None
        return in_ticks(self._meter.began)

    # --- what the host says ---------------------------------------------------------------------------------------

    def on_event(self, name: str, fields: Mapping[str, object]) -> None:
        if name == "interrupt":
            self.end("interrupted", min(max(0.0, float(fields["grace"])), MAX_GRACE))  # type: ignore[arg-type]

    def on_cancel(self) -> None:
        """Nobody reads any more: what is still on its way is dropped."""
        self._left = 0
        self._results = []
        self.end("interrupted", STOP_GRACE)
        self._roomy()

    def on_close(self) -> None:
        self._over = True
        self._results = []
        if self._meter is not None:
            self._meter.stop()
        self._context.closed(self)

    def end(self, cause: str, grace: float) -> None:
        """Make it end: by asking, then by force. ``cause`` is the status that the answer will have."""
        if self.ended or self.stop is not None:
            return
        if self._kernel is None:
            self._finish(cause, None)
            return
        self._cleared = False
        self.stop = Stop(self._context, self._kernel, self, cause)
        self._kernel.go_on()
        self.stop.begin(grace)

    # --- output ---------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Bytes of output wanted now. What is beyond the cap is read too, and dropped."""
        if not self._left or self._over:
            return UNLIMITED
        room = self.channel.room()
        if not room:  # the window is full, or the connection is being drained for a checkpoint
            self._wait_for_room()
            return 0
        return room

    def discard(self) -> None:
        """The host is slow and the kernel is to end: what does not fit now is dropped, so that nobody waits for room."""
        if not self._over and not self.channel.room():
            self._dropped += sum(map(len, self._results))
            self._results = []
            self._left = 0
            self._roomy()

    def take(self, stream: int, data: bytes) -> None:
        kept = data[: self._left]
        self._left -= len(kept)
        self._dropped += len(data) - len(kept)
        self.channel.data(stream, kept)

    def show(self, display: dict[str, object]) -> None:
        """A result: whole if it fits into what is left of the cap, else a note in its place."""
        record = _framed(display) if not display["omitted"] else b""
        size = len(record) or int(display["omitted"])  # type: ignore[call-overload]
        if self.stop is not None and self._results:  # the kernel is to answer, not to wait for a slow host
            self._dropped += size
            return
        if not record or size > self._left:
            self._dropped += size
            record = _framed(_note(size, self.cap, bool(display["main"])))
            if len(record) > self._left:
                return
        self._left -= len(record)
        self._results.append(memoryview(record))
        self._send_results()

    def _send_results(self) -> None:
        while self._results:
            room = self.channel.room()
            if not room:
                break
            record = self._results[0]
            self.channel.data(RESULTS, record[:room])
            self._results[0] = record[room:]
            if not self._results[0]:
                del self._results[0]
        if self._kernel is None:
            return
        if self._results:
            self._wait_for_room()
            if self.stop is None:
                self._kernel.hold()
        else:
            self._kernel.go_on()

    def _wait_for_room(self) -> None:
        self.channel.when_room(self._roomy, ENOUGH)

    def _roomy(self) -> None:
        self._send_results()
        if self._kernel is not None:
            self._kernel.resume()
        self._end_if_over()

    # --- the end --------------------------------------------------------------------------------------------------

    def done(self, answer: dict[str, object]) -> None:
        """The kernel says that the cell is over."""
        assert self._kernel is not None
        self.answer = answer
        if self.stop is not None:
            self.stop.answered()
        for pipe in self._kernel.pipes:
            pipe.settle()
        self._end_if_over()

    def died(self, status: int) -> None:
        """The kernel is dead, before or after its answer."""
        assert self._kernel is not None
        self._exit = status
        for pipe in self._kernel.pipes:
            pipe.settle()
        if self.stop is not None:
            self.stop.kernel_died()
        elif self.answer is None:
            self._cleared = False
            self._context.kill_since(self.since, self.cleared)
        self._end_if_over()

    def cleared(self, killed: int, left: int) -> None:
        """What the run had started is dead. If something is left, there is no answer: the host ends the cell."""
        if not left:
            self._cleared = True
            self._end_if_over()

    def settled(self) -> None:
        if self.answer is not None or self._exit is not None:
            self._end_if_over()

    def _end_if_over(self) -> None:
        kernel = self._kernel
        if self._over or kernel is None or not self.ended:
            return
        if self._results or not self._cleared or not all(pipe.settled for pipe in kernel.pipes):
            return
        self._finish(self._status(), kernel)

    def _status(self) -> str:
        status = "died" if self.answer is None else str(self.answer["status"])
        if self.stop is None:
            return "error" if status == "interrupted" else status  # nobody asked for it: the code did it to itself
        return self.stop.cause if status in ("died", "interrupted") else status

    def _limit(self, status: str, kernel: Kernel | None) -> object:
        """The limit that the run came to, if any."""
        if status == "cpu_limit":
            return "run_cpu_seconds"
        if kernel is None:
            return None
        if self.answer is not None and self.answer["limit"] is not None:
            return self.answer["limit"]
        starved = self.answer is None and kernel.died_of_memory(exit_fields(self._exit)["signal"])
        return "memory" if starved or self._context.memory_kills() > self._memory_kills else None

    def _finish(self, status: str, kernel: Kernel | None) -> None:
        answer = self.answer or {"error": None, "limit": None, "exit_code": None}
        fields: dict[str, object] = {"exit_code": answer["exit_code"], "signal": None}
        error = answer["error"]
        limit = self._limit(status, kernel)
        if kernel is not None and self.answer is None:
            fields = dict(exit_fields(self._exit))
            if limit is None and self.stop is None and kernel.may_exit and fields["signal"] is None:
                status = "ok"  # a script that came to its end in its own way
            else:
                error = _obituary(kernel.broken, fields, self.stop is not None)
        self._over = True
        self.channel.finish(
            {
                "count": self.number,
                "status": status,
                "error": error,
                "state_survived": kernel is None or (self.answer is not None and kernel.alive),
                "limit": limit,
                "dropped": self._dropped,
                "cpu_seconds": self._meter.seconds() if self._meter else 0.0,
                **fields,
            }
        )


def _framed(display: Mapping[str, object]) -> bytes:
    record = dump_json({name: display[name] for name in ("data", "metadata", "main")})
    return records.HEADER.pack(len(record)) + record


def _note(size: int, cap: int, main: bool) -> dict[str, object]:
    text = f"[a result of {size} bytes is left out: this run may deliver {cap} bytes]"
    return {"data": {"text/plain": text}, "metadata": {}, "main": main}


def _obituary(broken: str | None, fields: Mapping[str, object], stopped: bool) -> dict[str, object]:
    """An error that says how the kernel ended."""
    if stopped:
        value = "the kernel did not end the run when it was interrupted, and was killed"
    elif broken is not None:
        value = f"the kernel was killed because it broke the protocol: {broken}"
    elif fields["signal"] is not None:
        value = f"the kernel was killed by signal {fields['signal']}"
    else:
        value = f"the kernel ended with exit code {fields['exit_code']}"
    return {"name": "KernelDied", "value": value, "traceback": ""}
