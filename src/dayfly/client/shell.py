"""How the blocking classes are made from the async ones: mechanically, one line a method, without losing a type.

``blocking(AsyncFiles.read)`` is a function whose first parameter is a ``Shell[AsyncFiles]`` instead of an
``AsyncFiles``, whose other parameters are exactly those of ``AsyncFiles.read`` (a ``ParamSpec``) and which returns what
awaiting it gives. Assigned in a class body it is an ordinary method: mypy knows ``Files.read(path, *, limit=...) -> bytes``,
``help()`` shows the async method's signature and docstring, and there is no second implementation that could drift. The
five makers differ in what comes back: a value, an object that needs a shell of its own, an iterator, or an attribute.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Generic, Never, ParamSpec, Self, TypeVar, overload

from dayfly.client.bridge import Bridge
from dayfly.errors import SandboxEnded

__all__ = ["Closing", "Shell", "blocking", "iterating", "reading", "wrapping", "wrapping_each"]

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Shell[Any]")

_END: Any = object()

_ASYNC = re.compile(r"\bAsync(?=[A-Z])")


class Shell(Generic[A]):
    """The blocking face of the async object ``inner``, which lives on the bridge's loop."""

    __slots__ = ("__weakref__", "_bridge", "_inner")

    def __init__(self, inner: A, bridge: Bridge) -> None:
        self._inner = inner
        self._bridge = bridge

    def __repr__(self) -> str:
        return repr(self._inner).replace("Async", "", 1)


class Closing(Shell[A]):
    """A shell whose ``with`` block closes it; not in a fork of the process that made it, which has nothing to close."""

    __slots__ = ()

    close: Callable[..., None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bridge.is_ours:
            self.close()


def blocking(function: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Shell[A], P], T]:
    """A method that waits for the coroutine and returns its value."""

    def call(shell: Shell[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return shell._bridge.run(lambda: function(shell._inner, *args, **kwargs))
        except TypeError:
            _require_fit(call, shell, *args, **kwargs)
            raise

    return _dressed(call, function)


def wrapping(
    function: Callable[Concatenate[A, P], Coroutine[Any, Any, B]], shell_type: Callable[[B, Bridge], S]
) -> Callable[Concatenate[Shell[A], P], S]:
    """A method that waits for the coroutine and returns its value in a shell of its own."""

    wait = blocking(function)

    def call(shell: Shell[A], /, *args: P.args, **kwargs: P.kwargs) -> S:
        return shell_type(wait(shell, *args, **kwargs), shell._bridge)

    return _dressed(call, function)


def wrapping_each(
    function: Callable[Concatenate[A, P], Coroutine[Any, Any, Sequence[B]]], shell_type: Callable[[B, Bridge], S]
) -> Callable[Concatenate[Shell[A], P], list[S]]:
    """A method that waits for the coroutine and returns its values, each in a shell of its own."""

    wait = blocking(function)

    def call(shell: Shell[A], /, *args: P.args, **kwargs: P.kwargs) -> list[S]:
        return [shell_type(one, shell._bridge) for one in wait(shell, *args, **kwargs)]

    return _dressed(call, function)


def iterating(
    function: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Shell[A], P], Iterator[T]]:
    """A method that returns an iterator. Leaving it early (``break``) closes the async one."""

    def call(shell: Shell[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        _require_fit(call, shell, *args, **kwargs)
        return _iterate(function(shell._inner, *args, **kwargs), shell._bridge)

    return _dressed(call, function)


def _dressed(call: Callable[P, T], function: Callable[..., object]) -> Callable[P, T]:
    """``call`` with the name, parameters and documentation of the async method, and with what it gives itself."""
    functools.update_wrapper(call, function)
    signature = inspect.signature(function)
    returns = _ASYNC.sub("", str(signature.return_annotation))  # a text: annotations are not evaluated in these files
    call.__qualname__ = _ASYNC.sub("", function.__qualname__)
    call.__annotations__ = {**function.__annotations__, "return": returns}
    call.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
    return call


def _require_fit(call: Callable[..., object], shell: object, *args: object, **kwargs: object) -> None:
    """Raises ``TypeError`` in the name of the blocking method if the arguments do not fit its parameters."""
    try:
        inspect.signature(call).bind(shell, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{call.__qualname__}(): {error}") from None


def _iterate(source: AsyncIterator[T], bridge: Bridge) -> Iterator[T]:
    async def following() -> T:
        return await anext(source, _END)

    finished = False
    try:
        while (item := bridge.run(following)) is not _END:
            yield item
        finished = True
    finally:
        if not finished and hasattr(source, "aclose"):
            _close(source.aclose, bridge)


def _close(aclose: Callable[[], Coroutine[Any, Any, None]], bridge: Bridge) -> None:
    """Wait, unless this is the garbage collector at work on the loop's own thread, or in a fork, or at the exit."""
    if bridge.on_loop or not bridge.is_ours:
        bridge.post(aclose)
    else:
        with suppress(SandboxEnded):
            bridge.run(aclose)


class reading(Generic[A, T]):  # noqa: N801  # a descriptor, like property
    """An attribute of the async object, read on the loop at every look; after ``first``, where it has to be asked for."""

    def __init__(
        self, function: Callable[[A], T], first: Callable[[A], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        self._function = function
        self._first = first

    @overload
    def __get__(self, shell: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, shell: Shell[A], owner: object = None) -> T: ...
    def __get__(self, shell: Shell[A] | None, owner: object = None) -> Self | T:
        if shell is None:
            return self
        inner = shell._inner

        async def read() -> T:
            if self._first is not None:
                await self._first(inner)
            return self._function(inner)

        return shell._bridge.run(read)

    def __set__(self, shell: Shell[A], value: Never) -> None:
        raise AttributeError("this attribute is read-only")
