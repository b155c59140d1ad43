"""``AsyncSandbox``: one disposable room, for code with an event loop. ``dayfly.client.blocking`` has the blocking one."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self

from dayfly.client.arguments import environment, positive, whole_number
from dayfly.client.backend import Backend, Elsewhere, Opener
from dayfly.client.callbacks import ExecutionCallbacks
from dayfly.client.commands import AsyncCommands
from dayfly.client.contexts import AsyncContexts
from dayfly.client.embedded import Lease, lease, lease_of
from dayfly.client.files import AsyncFiles
from dayfly.client.ports import AsyncPort
from dayfly.client.remote.asked import Asked, find_asked
from dayfly.client.worker import Worker
from dayfly.errors import DayflyError, InputError, SandboxEnded, StoreFailed, UnknownLanguage
from dayfly.limits import LONGEST_PAUSE, MOST_FORKS
from dayfly.network import AnyRule, parse_network
from dayfly.policy import Policy, parse_policy
from dayfly.saved import SavedOutputs
from dayfly.spec import EndReason, Execution, LimitReport, Result, Usage

__all__ = ["AsyncSandbox"]


class AsyncSandbox:
    """A disposable sandbox: own kernel, no network but what its policy names, no credentials, a short life.

    ``policy`` is a ``Policy``, the same as a dictionary, or ``None`` for the defaults; ``image`` replaces the policy's
    image; ``env`` is added to the environment of everything inside (it is readable there: no secrets). ``opener`` is what
    makes the sandbox: by default the manager embedded in this process.

    With ``url`` and ``api_key``, or ``DAYFLY_URL`` and ``DAYFLY_API_KEY`` in the environment, the dayfly server there
    makes it. ``template`` names one of the server's instead of a policy. ``conversation`` is the caller's key for the
    same sandbox again: it is made if there is none, and goes on when this object is closed.

    Opens with ``async with`` or ``open()``; ends with ``close()``, the block, or by a limit. Every call then raises
    ``SandboxEnded``. All calls may be made concurrently. Raises ``PolicyError`` or ``InputError`` when made.
    """

    def __init__(
        self,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        url: str | None = None,
        api_key: str | None = None,
        template: str | None = None,
        conversation: str | None = None,
        opener: Opener | None = None,
    ) -> None:
        self._backend: Backend | None = None
        self._face = type(self).__name__  # what warnings call it: the blocking one has another name
        self._pid = os.getpid()
        if opener is not None and (url, api_key, template, conversation) != (None,) * 4:
            raise InputError(
                "an opener makes sandboxes itself", remedy="leave out url= and what belongs to it, or opener="
            )
        if template is not None and not (policy is None and image is None):
            raise InputError("a template is a policy, and there is one already", remedy="give one of the two")
        self._policy = _policy(policy, image)
        self._env = environment(env)
        self._opener = opener
        self._asked: Asked | None = None
        if opener is None:
            self._asked = find_asked(url, api_key, template=template, conversation=conversation)
        self._lease: Lease[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, id: str, *, url: str | None = None, api_key: str | None = None) -> Self:
        """A sandbox that is there already, by its ``id``; ``url`` and ``api_key`` as above. It is open when returned.

        It is not this object's own: closing the object, or its block, leaves it alive; ``close(end=True)`` ends it.
        Raises ``NoSuchSandbox``, ``SandboxEnded``, ``InputError`` or ``HostError``.
        """
        self = cls(url=url, api_key=api_key)
        self._asked = find_asked(url, api_key, sandbox=id)
        return await self.open()

    async def open(self) -> Self:
        """Start the sandbox; returns itself. Raises ``HostError``, ``ImageNotFound`` or ``PolicyError``; then nothing is left."""
        if self._loop is not None:
            raise InputError("a sandbox is opened once", remedy="make a new one")
        self._loop = asyncio.get_running_loop()
        try:
            self._backend = await self._opened()
        except BaseException:
            await self.close()
            raise
        return self

    async def _opened(self) -> Backend:
        if self._asked is not None:
            server = self._lease = await lease_of(self._asked.address)
            return await server.opener.claim(self._asked, self._policy, env=self._env)
        if self._opener is not None:
            return await self._opener.open(self._policy, env=self._env)
        manager = self._lease = await lease()
        return await manager.opener.open(self._policy, env=self._env)

    async def close(self, *, end: bool | None = None) -> None:
        """End the sandbox and everything in it. Idempotent; once begun it goes on even if the wait is cancelled.

        One that was found with ``connect``, or that belongs to a conversation, is left alive for whoever comes next,
        unless ``end`` is true; its limits end it. The first call decides. Raises ``StoreFailed`` if it has ended and the outputs
        of its policy could not be saved.
        """
        if self._closing is None:
            ends = not self._is_left_alone if end is None else bool(end)
            self._closing = asyncio.ensure_future(_close(self._backend, self._lease, self._maker, ends))
        await asyncio.shield(self._closing)

    @property
    def _is_left_alone(self) -> bool:
        """Whether the sandbox goes on when this object is closed."""
        return self._asked is not None and self._asked.outlives

    async def __aenter__(self) -> Self:
        return await self.open() if self._backend is None else self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if self._backend is None or self._closing is not None or self._pid != os.getpid():
            return
        if self._backend.end_reason is None and not self._is_left_alone:  # others hold only their lease
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        _close_later(self._loop, self._backend, self._lease, self._maker, not self._is_left_alone)

    def __repr__(self) -> str:
        if self._backend is None:
            return f"<{self._face} not open>"
        ended = self._backend.end_reason
        state = f"ended: {ended.value}" if ended else "closed" if self._closing else "open"
        return f"<{self._face} {self._backend.id[:12]} {state}>"

    def _open(self) -> Backend:
        if self._backend is None:
            raise InputError(
                "the sandbox is not open", remedy="use `async with AsyncSandbox()` or `await sandbox.open()`"
            )
        return self._backend

    @property
    def id(self) -> str:
        """128 random bits in hex."""
        return self._open().id

    @property
    def policy(self) -> Policy:
        """What the sandbox may do."""
        return self._policy if self._backend is None else self._backend.policy

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that ``run_code`` knows in this image."""
        return tuple(self._open().languages)

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        """Every limit, its value, and how this machine keeps it."""
        return tuple(self._open().limits)

    @property
    def end_reason(self) -> EndReason | None:
        """Why the sandbox is gone, or ``None`` while it lives. Over a URL: as the last answer said, or ``refresh``."""
        return self._open().end_reason

    @property
    def usage(self) -> Usage:
        """What it used so far: seconds and bytes, as the host measures them. Over a URL: as of the last ``refresh``."""
        return self._open().usage()

    async def refresh(self) -> None:
        """Make ``usage`` and ``end_reason`` true as of now. Embedded they always are, and this does nothing; so are those of
        a ``Sandbox``, which asks whenever they are read."""
        backend = self._open()
        if isinstance(backend, Elsewhere) and backend.end_reason is None and self._closing is None:
            await backend.refresh()

    @property
    def files(self) -> AsyncFiles:
        """Files inside."""
        self._open()
        return AsyncFiles(self, self._open)

    @property
    def commands(self) -> AsyncCommands:
        """Programs inside."""
        self._open()
        return AsyncCommands(self, self._open)

    @property
    def contexts(self) -> AsyncContexts:
        """The interpreters inside, by name."""
        self._open()
        return AsyncContexts(self, self._open)

    async def explain(self) -> dict[str, Any]:
        """What was generated for the boundary (for gVisor: command line and OCI spec). JSON values, no secrets.

        Over a URL only what the server tells: the boundary, its version, and how each limit is kept.
        """
        told = self._open().explain()
        return dict(await told if inspect.isawaitable(told) else told)

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context: str | None = None,
        timeout: float | None = None,
        output: int | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        on_result: Callable[[Result], object] | None = None,
    ) -> Execution:
        """Run code; variables stay for the next run in the same ``context`` (default: one per language).

        ``timeout`` is wall seconds (default: the policy's ``run_seconds``); ``output`` bytes that are kept (default and
        most: the policy's ``output``). The callbacks get output while it is produced: in order, on a thread of their own,
        and the code inside is slowed down to their pace. One that raises stops the run, and then its exception is raised
        here. With ``AsyncSandbox``, a coroutine function is awaited on the caller's loop instead.

        What the code does wrong, exceptions, exits, limits, is in the ``Execution``; it is not raised. Raises
        ``UnknownLanguage``, ``InputError``, or ``SandboxEnded`` if the sandbox was gone before. Cancelling interrupts
        the code, and the sandbox stays usable.
        """
        backend = self._open()
        async with Worker("callbacks") as worker:
            sink = ExecutionCallbacks(worker, on_stdout, on_stderr, on_result)
            try:
                return await backend.execute(
                    code,
                    language=language,
                    context=context,
                    timeout=timeout,
                    output=output,
                    sink=sink if sink else None,
                )
            except UnknownLanguage as error:
                error.remedy = error.remedy or f"this image has {', '.join(backend.languages)}"
                raise

    async def set_network(self, rules: Literal["none", "learn"] | Sequence[AnyRule | Mapping[str, Any]]) -> None:
        """What code may reach from now on, instead of what it could before: what ``Policy`` takes as ``network``, and nothing
        else, so ``"none"`` or an empty list takes all away. Connections that no rule allows any more have ended when this
        returns; those that are still allowed go on, and bytes that were counted stay counted.

        Raises ``PolicyError``, ``SandboxEnded`` or ``HostError``.
        """
        backend, found = self._open(), parse_network(rules)
        if backend.end_reason is not None:
            raise SandboxEnded(backend.end_reason.value)
        await self._made_by().set_network(backend.id, found)
        if isinstance(backend, Elsewhere):
            await backend.refresh()

    async def save_outputs(self, *, last: bool = False) -> SavedOutputs:
        """Save what the policy's ``outputs`` name, now: the files below their directories become objects. It goes on, and saves
        them again when it ends, unless this was the ``last`` time.

        Raises ``StoreFailed`` where the store fails, ``PolicyError`` where there are no outputs, ``SandboxEnded`` or ``HostError``.
        """
        backend = self._open()
        if backend.end_reason is not None:
            raise SandboxEnded(backend.end_reason.value)
        return await self._made_by().save_outputs(backend.id, last=last)

    async def pause(self, seconds: float = LONGEST_PAUSE) -> None:
        """Stop it with its memory, which is kept encrypted on disk: until ``resume`` every call raises ``SandboxEnded`` with
        the reason ``paused``. For ``seconds`` at most, a fortnight at the longest; embedded, no longer than this process.

        Raises ``BusyError`` while something is under way, ``InputError``, ``OutOfSpace``, ``HostError``; it goes on then.
        """
        backend, seconds = self._open(), positive("seconds", seconds)
        if backend.end_reason is EndReason.PAUSED:
            return
        await self._made_by().pause(backend.id, seconds=seconds)
        if isinstance(backend, Elsewhere):
            await backend.refresh()

    async def resume(self) -> None:
        """Go on where it was paused; one that lives, lives. Time that it was paused is no part of its life.

        Raises ``SandboxEnded`` or ``SnapshotMismatch`` if it cannot go on any more, ``AdmissionRefused``, ``HostError``.
        """
        backend = self._open()
        if backend.end_reason not in (None, EndReason.PAUSED):
            raise SandboxEnded(backend.end_reason.value)
        if backend.end_reason is not None or isinstance(backend, Elsewhere):  # there, somebody else may have paused it
            self._backend = await self._made_by().resume(backend.id)

    async def fork(self, count: int = 1) -> list[AsyncSandbox]:
        """Copies that go on from where this one is now, each with a life of its own, all or none; this one goes on too.

        Random generators that the code may have seeded go on alike in all of them; ``uuid``, ``secrets`` and the names of
        temporary files differ. Raises ``BusyError`` while something is under way, ``InputError``, ``AdmissionRefused``,
        ``SandboxEnded``, ``HostError``.
        """
        made = await self._made_by().fork(self._open().id, whole_number("count", count, least=1, most=MOST_FORKS))
        return [await self._twin(backend) for backend in made]

    @property
    def _maker(self) -> Opener | None:
        """What made it; ``None`` before."""
        return self._opener if self._lease is None else self._lease.opener

    def _made_by(self) -> Opener:
        """Raises ``InputError`` if it is not open."""
        self._open()
        assert self._maker is not None
        return self._maker

    async def _twin(self, backend: Backend) -> AsyncSandbox:
        """An object for a copy of this one."""
        twin = AsyncSandbox(backend.policy, env=self._env, opener=self._made_by())
        twin._face, twin._loop, twin._backend = self._face, self._loop, backend
        if self._asked is not None:
            twin._asked = Asked(self._asked.address)
        if self._lease is not None:
            twin._lease = await (lease() if self._asked is None else lease_of(self._asked.address))
        return twin

    async def connect_port(self, port: int) -> AsyncPort:
        """Connect to a TCP port on which something inside listens on its loopback. Raises ``PortRefused`` if nothing does."""
        return await AsyncPort.connect(self, self._open(), port)


async def _close(backend: Backend | None, held: Lease[Any] | None, maker: Opener | None, ends: bool) -> None:
    try:
        if backend is not None and ends and maker is not None and backend.end_reason is EndReason.PAUSED:
            await maker.discard(backend.id)
        elif backend is not None:
            await (backend.leave() if isinstance(backend, Elsewhere) and not ends else backend.close())
    finally:
        if held is not None:
            await held.release()
    if backend is not None and backend.unsaved is not None:
        raise StoreFailed(f"the sandbox has ended and its outputs were not saved: {backend.unsaved}", remedy=_TOO_LATE)


_TOO_LATE = "its files are gone; save_outputs() before it ends tells while they are still there"


def _close_later(
    loop: asyncio.AbstractEventLoop | None,
    backend: Backend,
    held: Lease[Any] | None,
    maker: Opener | None,
    ends: bool,
) -> None:
    """For a sandbox that nobody refers to any more. If its loop is gone, its process's end ends the cell."""
    if loop is not None and not loop.is_closed():
        with suppress(RuntimeError):  # closed meanwhile
            loop.call_soon_threadsafe(lambda: _background.add(loop.create_task(_closed(backend, held, maker, ends))))


_background: set[asyncio.Task[None]] = set()


async def _closed(backend: Backend, held: Lease[Any] | None, maker: Opener | None, ends: bool) -> None:
    try:
        with suppress(DayflyError):  # such as a server that is gone: there is nobody to tell
            await _close(backend, held, maker, ends)
    finally:
        if (task := asyncio.current_task()) is not None:
            _background.discard(task)


def _policy(policy: Policy | Mapping[str, Any] | None, image: str | None) -> Policy:
    if policy is not None and not isinstance(policy, (Policy, Mapping)):
        raise InputError(f"policy must be a Policy, a mapping or None, not {type(policy).__name__}")
    parsed = parse_policy(dict(policy) if isinstance(policy, Mapping) else policy)
    if image is None:
        return parsed
    if not isinstance(image, str) or not image:
        raise InputError(f"image must be a name, not {image!r:.100}")
    return parsed.model_copy(update={"image": image})
