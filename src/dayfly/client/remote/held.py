"""One sandbox that a server holds, for the classes that make calls: where it is, and what is known of its end."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from dayfly.client.remote.failures import BadAnswer, ServerUnreachable, failure
from dayfly.client.remote.http import Answer, Http
from dayfly.client.remote.lines import Lines
from dayfly.client.remote.values import Fields, Told, load, read_end, told_sandbox
from dayfly.client.streams import closing
from dayfly.errors import DayflyError, InputError, NoSuchSandbox, SandboxEnded
from dayfly.spec import EndReason, LimitReport

__all__ = ["Held"]


class Held:
    """Calls of one sandbox."""

    def __init__(self, http: Http, told: Told) -> None:
        self.http = http
        self.told = told
        self.end_reason: EndReason | None = None
        self.end_detail = ""
        self._note(told.end_reason, told.end_detail)
        self._path = f"/v1/sandboxes/{told.id}"
        self._left = False
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()  # that somebody may still read

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        return self.told.limits

    @property
    def output(self) -> int:
        """Bytes of output that one run may deliver at most."""
        return self.told.policy.limits.output

    @property
    def line_cap(self) -> int:
        """Bytes of one line of a stream: all output in one result, each byte of it as six characters, and what is around."""
        return 6 * self.output + 8 * 1024 * 1024

    def seconds(self, asked: float | None) -> float:
        """Of a run's time: the policy's unless the call asks for another, at most the sandbox's lifetime."""
        limits = self.told.policy.limits
        if asked is None:
            return limits.run_seconds
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < float("inf"):
            raise InputError(f"timeout must be a positive number of seconds, not {asked!r:.60}")
        return min(float(asked), limits.lifetime_seconds)

    async def leave(self) -> None:
        """No call from now on, and what is under way breaks off: the server takes it as of a client that is gone."""
        self._left = True
        for answer in list(self._answers):
            await answer.aclose()

    def path(self, rest: str) -> str:
        return self._path + rest

    async def ask(self, method: str, rest: str, **how: Any) -> Fields:
        """``Http.ask`` below the sandbox. Raises ``SandboxEnded`` when it is gone."""
        self.require_live()
        try:
            return await self.http.ask(method, self.path(rest), **how)
        except SandboxEnded as ended:
            raise self.noted(ended) from None

    async def send(self, method: str, rest: str, **how: Any) -> Answer:
        """``Http.send`` below the sandbox."""
        self.require_live()
        try:
            answer = await self.http.send(method, self.path(rest), **how)
        except SandboxEnded as ended:
            raise self.noted(ended) from None
        self._answers.add(answer)
        return answer

    def require_live(self) -> None:
        """Raises ``SandboxEnded`` if it is known to be gone, ``InputError`` if it was left."""
        if (gone := self._gone()) is not None:
            raise gone

    def _gone(self) -> DayflyError | None:
        if self.end_reason is not None:
            return SandboxEnded(self.end_reason.value, self.end_detail)
        if self._left:
            remedy = f"Sandbox.connect({self.told.id!r}) finds it again"
            return InputError("this object was closed; its sandbox goes on", remedy=remedy)
        return None

    async def pieces(self, answer: Answer) -> AsyncIterator[bytes]:
        """A body, closed when left. If it breaks off because the sandbox has ended, that is what is raised."""
        async with aclosing(answer):
            try:
                while piece := await answer.piece():
                    yield piece
            except ServerUnreachable as lost:
                raise await self.why(lost) from None

    async def why(self, lost: ServerUnreachable) -> DayflyError:
        """What to raise for a stream that broke off."""
        if self._gone() is None:
            with suppress(DayflyError):  # nobody can be asked
                await self.refresh()
        return self._gone() or lost

    async def objects(self, answer: Answer) -> AsyncIterator[Fields]:
        """NDJSON, closed when left. Raises the error that a line names."""
        lines = Lines(self.line_cap)
        async with closing(self.pieces(answer)) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    yield self.object(line)

    def object(self, line: bytes) -> Fields:
        """One line of NDJSON. Raises the error that it names."""
        one = Fields(load(line), "an event")
        if one.has("error"):
            raise self.noted(failure(one.raw) or BadAnswer("the server sent an error that says nothing"))
        return one

    def noted(self, error: DayflyError) -> DayflyError:
        """The same error, after what it says of the sandbox's end was kept."""
        if isinstance(error, SandboxEnded):
            self._note(EndReason(error.reason), error.detail)
        return error

    def note_end(self, one: Fields) -> None:
        """What the end of a run says of the sandbox."""
        self._note(read_end(one))

    def _note(self, reason: EndReason | None, detail: str = "") -> None:
        if self.end_reason is None and reason is not None:
            self.end_reason, self.end_detail = reason, detail

    async def refresh(self) -> None:
        """Ask how the sandbox is."""
        try:
            self.told = told_sandbox(await self.http.ask("GET", self._path))
        except SandboxEnded as ended:
            self.noted(ended)
        self._note(self.told.end_reason, self.told.end_detail)

    async def end(self) -> None:
        """End it; returns when nothing of it is left, also if it had ended before."""
        try:
            self.told = told_sandbox(await self.http.ask("DELETE", self._path))
            self._note(self.told.end_reason, self.told.end_detail)
        except SandboxEnded as ended:
            self.noted(ended)
        except NoSuchSandbox:  # it ended long ago
            pass
        self._note(EndReason.STOPPED)
