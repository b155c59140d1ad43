"""``Sandbox`` and what belongs to it: the blocking classes, made from the async ones by ``shell``'s makers.

Each line below is a whole method: its parameters, types and documentation are those of the async method that it names. How
that keeps every type, and why there is no second implementation, stands at the top of ``dayfly.client.shell``. A call waits
on the caller's thread while the work is done on dayfly's own event loop thread (``dayfly.client.bridge``), so it works in a
notebook, inside a running event loop, and from many threads at once. Ctrl-C in a call interrupts what runs inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

from dayfly.client.backend import Opener
from dayfly.client.bridge import Bridge, shared_bridge
from dayfly.client.commands import AsyncCommands, AsyncProcess
from dayfly.client.contexts import AsyncContexts
from dayfly.client.files import AsyncFiles
from dayfly.client.ports import AsyncPort
from dayfly.client.sandbox import AsyncSandbox
from dayfly.client.shell import Closing, Shell, blocking, iterating, reading, wrapping, wrapping_each
from dayfly.client.watch import AsyncWatch, Change
from dayfly.policy import Policy
from dayfly.spec import EndReason, LimitReport, Usage

__all__ = ["Commands", "Contexts", "Files", "Port", "Process", "Sandbox", "Watch"]

S = TypeVar("S", bound="Sandbox")


class Process(Closing[AsyncProcess]):
    """A command under way: write to it, read from it, wait for it. Leaving its ``with`` block kills it."""

    pid: reading[AsyncProcess, int] = reading(lambda process: process.pid)
    write_stdin = blocking(AsyncProcess.write_stdin)
    close_stdin = blocking(AsyncProcess.close_stdin)
    resize = blocking(AsyncProcess.resize)
    send_signal = blocking(AsyncProcess.send_signal)
    kill = blocking(AsyncProcess.kill)
    detach = blocking(AsyncProcess.detach)
    output = iterating(AsyncProcess.output)
    wait = blocking(AsyncProcess.wait)
    close = blocking(AsyncProcess.close)


class Commands(Shell[AsyncCommands]):
    """``sandbox.commands``: programs inside."""

    run = blocking(AsyncCommands.run)
    start = wrapping(AsyncCommands.start, Process)
    connect = wrapping(AsyncCommands.connect, Process)
    list = blocking(AsyncCommands.list)
    send_signal = blocking(AsyncCommands.send_signal)


class Watch(Closing[AsyncWatch]):
    """Changes as they happen: an iterator of ``Change``, and a context manager that closes it."""

    next = blocking(AsyncWatch.next)
    close = blocking(AsyncWatch.close)

    def __iter__(self) -> Iterator[Change]:
        while (change := self.next()) is not None:
            yield change


class Files(Shell[AsyncFiles]):
    """``sandbox.files``. Paths are absolute or relative to the home; what a path names is never left by a link.

    Every method raises ``SandboxFileError`` (its ``problem`` says why), ``SandboxEnded`` or ``InputError``; those with a
    local path ``LocalFileError`` (also an ``OSError``) or ``OutOfSpace`` for what this machine's files refuse.
    """

    read = blocking(AsyncFiles.read)
    read_text = blocking(AsyncFiles.read_text)
    stream = iterating(AsyncFiles.stream)
    download = blocking(AsyncFiles.download)
    write = blocking(AsyncFiles.write)
    append = blocking(AsyncFiles.append)
    upload = blocking(AsyncFiles.upload)
    list = blocking(AsyncFiles.list)
    iterate = iterating(AsyncFiles.iterate)
    stat = blocking(AsyncFiles.stat)
    exists = blocking(AsyncFiles.exists)
    mkdir = blocking(AsyncFiles.mkdir)
    rename = blocking(AsyncFiles.rename)
    remove = blocking(AsyncFiles.remove)
    watch = wrapping(AsyncFiles.watch, Watch)
    download_directory = blocking(AsyncFiles.download_directory)
    upload_directory = blocking(AsyncFiles.upload_directory)


class Contexts(Shell[AsyncContexts]):
    """``sandbox.contexts``: the interpreters inside, by name. One is made by the first ``run_code`` that names it."""

    list = blocking(AsyncContexts.list)
    remove = blocking(AsyncContexts.remove)


class Port(Closing[AsyncPort]):
    """Bytes both ways between the caller and a port inside; a context manager."""

    read = blocking(AsyncPort.read)
    write = blocking(AsyncPort.write)
    write_eof = blocking(AsyncPort.write_eof)
    close = blocking(AsyncPort.close)


class Sandbox(Closing[AsyncSandbox]):
    """A disposable sandbox: own kernel, no network but what its policy names, no credentials, a short life.

    ``policy`` is a ``Policy``, the same as a dictionary, or ``None`` for the defaults; ``image`` replaces the policy's
    image; ``env`` is added to the environment of everything inside (it is readable there: no secrets). ``opener`` is what
    makes the sandbox: by default the manager embedded in this process.

    With ``url`` and ``api_key``, or ``DAYFLY_URL`` and ``DAYFLY_API_KEY`` in the environment, the dayfly server there
    makes it. ``template`` names one of the server's instead of a policy. ``conversation`` is the caller's key for the
    same sandbox again: it is made if there is none, and goes on when this object is closed.

    It is open when made and ends with ``close()``, its ``with`` block, the end of the interpreter, or a limit; every call
    then raises ``SandboxEnded``. A child of ``os.fork`` cannot use it and does not end it. Raises ``PolicyError``,
    ``InputError``, ``ImageNotFound`` or ``HostError``, and then leaves nothing.
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
        inner = AsyncSandbox(
            policy,
            image=image,
            env=env,
            url=url,
            api_key=api_key,
            template=template,
            conversation=conversation,
            opener=opener,
        )
        inner._face = type(self).__name__
        super().__init__(inner, shared_bridge())
        self._bridge.run(inner.open)

    @classmethod
    def connect(cls, id: str, *, url: str | None = None, api_key: str | None = None) -> Self:
        """A sandbox that is there already, by its ``id``; ``url`` and ``api_key`` as above. It is open when returned.

        It is not this object's own: closing the object, or its block, leaves it alive; ``close(end=True)`` ends it.
        Raises ``NoSuchSandbox``, ``SandboxEnded``, ``InputError`` or ``HostError``.
        """
        bridge = shared_bridge()
        inner = bridge.run(lambda: AsyncSandbox.connect(id, url=url, api_key=api_key))
        inner._face = cls.__name__
        return _shell_of(cls, inner, bridge)

    id: reading[AsyncSandbox, str] = reading(lambda sandbox: sandbox.id)
    policy: reading[AsyncSandbox, Policy] = reading(lambda sandbox: sandbox.policy)
    languages: reading[AsyncSandbox, tuple[str, ...]] = reading(lambda sandbox: sandbox.languages)
    limits: reading[AsyncSandbox, tuple[LimitReport, ...]] = reading(lambda sandbox: sandbox.limits)
    usage: reading[AsyncSandbox, Usage] = reading(lambda sandbox: sandbox.usage, AsyncSandbox.refresh)
    end_reason: reading[AsyncSandbox, EndReason | None] = reading(
        lambda sandbox: sandbox.end_reason, AsyncSandbox.refresh
    )
    refresh = blocking(AsyncSandbox.refresh)
    run_code = blocking(AsyncSandbox.run_code)
    explain = blocking(AsyncSandbox.explain)
    set_network = blocking(AsyncSandbox.set_network)
    save_outputs = blocking(AsyncSandbox.save_outputs)
    pause = blocking(AsyncSandbox.pause)
    resume = blocking(AsyncSandbox.resume)
    fork = wrapping_each(AsyncSandbox.fork, lambda inner, bridge: _shell_of(Sandbox, inner, bridge))
    connect_port = wrapping(AsyncSandbox.connect_port, Port)
    close = blocking(AsyncSandbox.close)

    @property
    def files(self) -> Files:
        """Files inside."""
        return Files(self._inner.files, self._bridge)

    @property
    def commands(self) -> Commands:
        """Programs inside."""
        return Commands(self._inner.commands, self._bridge)

    @property
    def contexts(self) -> Contexts:
        """The interpreters inside, by name."""
        return Contexts(self._inner.contexts, self._bridge)


def _shell_of(kind: type[S], inner: AsyncSandbox, bridge: Bridge) -> S:
    """For one that is open already."""
    self = kind.__new__(kind)
    Shell.__init__(self, inner, bridge)
    return self
