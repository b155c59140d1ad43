"""The interpreters inside, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dayfly.client.backend import Backend, ContextInfo

__all__ = ["AsyncContexts"]


class AsyncContexts:
    """``sandbox.contexts``. A context is made by the first ``run_code`` that names it."""

    def __init__(self, sandbox: object, current: Callable[[], Backend]) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._current = current

    @property
    def _backend(self) -> Backend:
        return self._current()  # after a pause it is another one

    async def list(self) -> Sequence[ContextInfo]:
        """Name, language and whether it is busy, of each."""
        return await self._backend.contexts()

    async def remove(self, name: str) -> None:
        """End the interpreter with everything that it started; its name can be used again."""
        await self._backend.remove_context(name)
