"""From what a backend delivers to what a user's callback gets.

Every call of a plain callback runs on the worker's thread and is awaited before more is taken from the sandbox: order
and back-pressure follow from that. What a callback raises goes to the backend, which stops the run and lets it go on to the
caller.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dayfly.client.bridge import bridge_here
from dayfly.client.worker import Worker
from dayfly.errors import InputError
from dayfly.spec import Result

__all__ = ["ExecutionCallbacks", "ProcessCallbacks"]


class _Callbacks:
    def __init__(self, worker: Worker, callbacks: dict[str, Callable[[Any], object] | None]) -> None:
        self._worker = worker
        for name, callback in callbacks.items():
            if callback is None:
                continue
            if not callable(callback):
                raise InputError(f"{name} must be callable, not {type(callback).__name__}")
            if inspect.iscoroutinefunction(callback) and bridge_here() is not None:
                raise InputError(f"{name} is a coroutine function", remedy="a Sandbox calls plain functions only")
        self._any = any(callbacks.values())

    def __bool__(self) -> bool:
        return self._any

    async def _call(self, callback: Callable[[Any], object] | None, value: object) -> None:
        if callback is None:
            return
        if inspect.iscoroutinefunction(callback):
            await callback(value)
        else:
            await self._worker.do(callback, value)


class ExecutionCallbacks(_Callbacks):
    """An ``ExecutionSink``. False if there is no callback."""

    def __init__(
        self,
        worker: Worker,
        on_stdout: Callable[[str], object] | None,
        on_stderr: Callable[[str], object] | None,
        on_result: Callable[[Result], object] | None,
    ) -> None:
        super().__init__(worker, {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_result": on_result})
        self._stdout, self._stderr, self._result = on_stdout, on_stderr, on_result

    async def stdout(self, text: str) -> None:
        await self._call(self._stdout, text)

    async def stderr(self, text: str) -> None:
        await self._call(self._stderr, text)

    async def result(self, result: Result) -> None:
        await self._call(self._result, result)


class ProcessCallbacks(_Callbacks):
    """A ``ProcessSink``. False if there is no callback."""

    def __init__(
        self,
        worker: Worker,
        on_stdout: Callable[[bytes], object] | None,
        on_stderr: Callable[[bytes], object] | None,
    ) -> None:
        super().__init__(worker, {"on_stdout": on_stdout, "on_stderr": on_stderr})
        self._stdout, self._stderr = on_stdout, on_stderr

    async def stdout(self, data: bytes) -> None:
        await self._call(self._stdout, data)

    async def stderr(self, data: bytes) -> None:
        await self._call(self._stderr, data)
