"""A sandbox's life of which the journal hears: what was run, what it printed, which files went in and out, why it ended.

Digests are SHA-256, of text in UTF-8 as it was delivered. Code and the heads of outputs are contents: they can be erased.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from dayfly.errors import DayflyError
from dayfly.manager.ledger import MAX_HEAD, Record
from dayfly.sandbox import Life
from dayfly.spec import Execution, ProcessResult

__all__ = ["RecordedLife"]

MAX_ARGUMENTS = 4096
"""Characters of a command line that are written down; its digest stands for the rest."""


class _Measured:
    """Size and digest of what passes."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, data: bytes) -> bytes:
        self._digest.update(data)
        self._size += len(data)
        return data

    @property
    def facts(self) -> dict[str, Any]:
        return {"size": self._size, "sha256": self._digest.hexdigest()}


class RecordedLife(Life):
    """``record`` is set when it becomes somebody's; without one it is a plain ``Life``."""

    record: Record | None = None
    _numbers: itertools.count[int]

    def keep_record(self, record: Record) -> None:
        """From now on. A record that keeps nothing costs nothing."""
        self.record = record if record.kept else None
        self._numbers = itertools.count(1)

    async def execute(self, code: str, **options: Any) -> Execution:
        """See ``Life.execute``."""
        record = self.record
        if record is None or not isinstance(code, str):
            return await super().execute(code, **options)
        number = next(self._numbers)
        what = {"number": number, "language": options.get("language", "python"), "context": options.get("context")}
        record.begin("execution.started", what, code=code.encode("utf-8", "surrogatepass"))
        try:
            done = await super().execute(code, **options)
        except BaseException as error:
            record.note("execution.failed", {"number": number, "error": type(error).__name__})
            raise
        self._note_execution(record, number, done)
        return done

    def _note_execution(self, record: Record, number: int, done: Execution) -> None:
        outputs = {"stdout": done.stdout.encode("utf-8", "replace"), "stderr": done.stderr.encode("utf-8", "replace")}
        facts = {
            "number": number,
            "outcome": done.outcome.value,
            "error": done.error.name[:256] if done.error else None,
            "exit_code": done.exit_code,
            "limit": done.limit,
            "dropped": done.dropped,
            "duration": round(done.duration, 6),
            "cpu_seconds": round(done.cpu_seconds, 6),
            "results": len(done.results),
            **{name: _measured_of(data) for name, data in outputs.items()},
        }
        record.note("execution.ended", facts, **{name: data[:MAX_HEAD] for name, data in outputs.items() if data})

    async def start_process(self, argv: Sequence[str], **options: Any) -> Any:
        """See ``Life.start_process``."""
        if self.record is None:
            return await super().start_process(argv, **options)
        line = " ".join(map(str, argv))
        facts = {
            "argv": _measured_of(line.encode("utf-8", "replace")),
            "cwd": options.get("cwd"),
            "pty": options.get("pty") is not None,
            "detached": bool(options.get("detached")),
        }
        self.record.begin("process.started", facts, argv=line[:MAX_ARGUMENTS].encode("utf-8", "replace"))
        process = await super().start_process(argv, **options)
        process.on_end(self._note_process)
        return process

    def _note_process(self, pid: int, done: ProcessResult) -> None:
        assert self.record is not None
        facts = {
            "pid": pid,
            "outcome": done.outcome.value,
            "exit_code": done.exit_code,
            "signal": done.signal,
            "duration": round(done.duration, 6),
            "stdout": _measured_of(done.stdout),
            "stderr": _measured_of(done.stderr),
        }
        self.record.note("process.ended", facts)

    async def read_file(self, path: str, **options: Any) -> AsyncIterator[bytes]:
        """See ``Life.read_file``."""
        async for chunk in self._measured("file.read", path, super().read_file(path, **options)):
            yield chunk

    async def pack_tree(self, path: str) -> AsyncIterator[bytes]:
        """See ``Life.pack_tree``."""
        async for chunk in self._measured("tree.read", path, super().pack_tree(path)):
            yield chunk

    async def write_file(self, path: str, chunks: AsyncIterator[bytes], **options: Any) -> int:
        """See ``Life.write_file``."""
        return await self._taken("file.written", path, chunks, lambda told: super(RecordedLife, self).write_file(path, told, **options))  # fmt: skip

    async def unpack_tree(self, path: str, chunks: AsyncIterator[bytes]) -> int:
        """See ``Life.unpack_tree``."""
        return await self._taken("tree.written", path, chunks, lambda told: super(RecordedLife, self).unpack_tree(path, told))  # fmt: skip

    async def rename(self, path: str, to: str, **options: Any) -> None:
        """See ``Life.rename``."""
        self._note_first("file.renamed", {"path": str(path), "to": str(to)})
        await super().rename(path, to, **options)

    async def remove(self, path: str, **options: Any) -> int:
        """See ``Life.remove``."""
        self._note_first("file.removed", {"path": str(path), "recursive": bool(options.get("recursive"))})
        return await super().remove(path, **options)

    async def configure(self, env: Mapping[str, str]) -> None:
        """See ``Life.configure``. Names only: values may be secrets."""
        self._note_first("environment.set", {"names": sorted(map(str, env))[:1000]})
        await super().configure(env)

    def _note_first(self, kind: str, facts: Mapping[str, Any]) -> None:
        if self.record is not None:
            self.record.begin(kind, _printable(facts))

    async def _measured(self, kind: str, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        measured, whole = _Measured(), False
        try:
            async with aclosing(chunks) as pieces:  # type: ignore[type-var]  # both are generators
                async for chunk in pieces:
                    yield measured.add(chunk)
            whole = True
        finally:
            if self.record is not None:
                self.record.note(kind, _printable({"path": str(path), "whole": whole, **measured.facts}))

    async def _taken(self, kind: str, path: str, chunks: AsyncIterator[bytes], write: Any) -> int:
        measured = _Measured()

        async def told() -> AsyncIterator[bytes]:
            async for chunk in chunks:
                yield measured.add(chunk)

        if self.record is None:
            return int(await write(chunks))
        self._note_first(f"{kind}.begun", {"path": str(path)})
        problem = None
        try:
            return int(await write(told()))
        except DayflyError as error:
            problem = type(error).__name__
            raise
        finally:
            self.record.note(kind, _printable({"path": str(path), "error": problem, **measured.facts}))


def _measured_of(data: bytes) -> dict[str, Any]:
    measured = _Measured()
    measured.add(data)
    return measured.facts


def _printable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Names of any bytes are written down in ASCII."""
    return {name: ascii(value)[1:-1] if isinstance(value, str) and not value.isprintable() else value for name, value in facts.items()}  # fmt: skip
