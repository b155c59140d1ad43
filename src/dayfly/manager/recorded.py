"""A sandbox's life of which the journal hears: what was run, what it printed, which files went in and out, why it ended.

Digests are SHA-256, of text in UTF-8 as it was delivered. Code and the heads of outputs are contents: they can be erased.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from dayfly.egress.client import Closed, Requested
from dayfly.errors import DayflyError, SandboxEnded
from dayfly.manager.ledger import Record
from dayfly.manager.tally import Tally
from dayfly.manager.traffic import Traffic
from dayfly.network import RuleList
from dayfly.owner import NOBODY, Owner
from dayfly.sandbox import ExecutionSink, Life, WayOut
from dayfly.spec import Denial, Execution, ProcessResult, Result

__all__ = ["RecordedLife"]

MAX_HEAD = 4096
"""Bytes of an output that are kept beside its digest."""

MAX_NAMES = 16 * 1024
"""Bytes of names in one entry: of environment variables, of hosts."""

MAX_NAME = 256
"""Characters of a language, a context or an error's name in one entry."""

MAX_CODE = 64 * 1024
"""Bytes of code that are written down; its digest stands for the rest."""

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


class _Tap:
    """Measures what a run prints, on its way to ``sink``."""

    def __init__(self, sink: ExecutionSink | None) -> None:
        self._sink = sink
        self._measured = {"stdout": _Measured(), "stderr": _Measured()}
        self._heads = {"stdout": b"", "stderr": b""}

    def _take(self, name: str, text: str) -> None:
        data = self._measured[name].add(text.encode("utf-8", "replace"))
        if len(self._heads[name]) < MAX_HEAD:
            self._heads[name] = (self._heads[name] + data)[:MAX_HEAD]

    async def stdout(self, text: str) -> None:
        self._take("stdout", text)
        if self._sink is not None:
            await self._sink.stdout(text)

    async def stderr(self, text: str) -> None:
        self._take("stderr", text)
        if self._sink is not None:
            await self._sink.stderr(text)

    async def result(self, result: Result) -> None:
        if self._sink is not None:
            await self._sink.result(result)

    @property
    def facts(self) -> dict[str, Any]:
        return {name: measured.facts for name, measured in self._measured.items()}

    @property
    def heads(self) -> dict[str, bytes]:
        return {name: head for name, head in self._heads.items() if head}


class _Command:
    """What the journal hears of one command. Of one that was left, only if it is connected to again, or that its sandbox ended."""

    def __init__(self, record: Record, number: int) -> None:
        self._record = record
        self._number = number
        self._given = _Measured()

    def given(self, data: bytes) -> None:
        self._given.add(data)

    def left(self, pid: int) -> None:
        self._record.note("process.left", {"number": self._number, "pid": pid, "stdin": self._given.facts})

    def ended(self, pid: int, done: ProcessResult) -> None:
        facts = {
            "number": self._number,
            "pid": pid,
            "outcome": done.outcome.value,
            "exit_code": done.exit_code,
            "signal": done.signal,
            "duration": round(done.duration, 6),
            "stdin": self._given.facts,
            "stdout": _measured_of(done.stdout),
            "stderr": _measured_of(done.stderr),
        }
        self._record.note("process.ended", facts)


class RecordedLife(Life):
    """``record`` is set when it becomes somebody's; without one it is a plain ``Life``."""

    record: Record | None = None
    owner: Owner = NOBODY

    runs: int = 0
    """So many are in the record, commands too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._traffic = Traffic()
        self._copying = Traffic("copies")
        self._copied: Mapping[str, Any] | None = None
        self._inside.denials.tell = self._denied
        self.tally = Tally()

    def keep_record(self, record: Record, runs: int = 0) -> None:
        """From now on. A record that keeps nothing costs nothing."""
        self.record = record if record.kept else None
        self.runs = runs
        if self.record is not None:
            self._traffic.keep_in(self.record)
            self._copying.keep_in(self.record)
            if self._copied is not None:
                self.record.note("inputs.copied", self._copied)

    def copying(self, news: Closed | Requested) -> None:
        """Of traffic that was for its inputs or outputs: nothing inside has asked for it, and nothing inside is told."""
        if isinstance(news, Closed):
            self._copying.closed(news)
            self.tally.add_closed(news)
        else:
            self._copying.requested(news)

    def tell_copied(self, facts: Mapping[str, Any]) -> None:
        """Its inputs are there, before it is anybody's: written down as soon as there is a record."""
        self._copied = facts

    def tell_saved(self, facts: Mapping[str, Any]) -> None:
        """What became of its outputs."""
        if self.record is not None:
            self.record.note("outputs.saved", facts)

    def _denied(self, denial: Denial) -> None:
        self._traffic.denied(denial)
        self.tally.add_denied(denial)

    def used(self, closed: Closed) -> None:
        """See ``NetworkCalls.used``."""
        self._traffic.closed(closed)
        self.tally.add_closed(closed)

    def requested(self, requested: Requested) -> None:
        """See ``NetworkCalls.requested``."""
        self._traffic.requested(requested)

    def before_gone(self) -> None:
        """See ``Life.before_gone``."""
        self._traffic.flush(last=True)
        self._copying.flush(last=True)

    def _next_number(self) -> int:
        self.runs += 1
        return self.runs

    async def execute(self, code: str, **options: Any) -> Execution:
        """See ``Life.execute``."""
        record = self.record
        if record is None or not isinstance(code, str):
            return await super().execute(code, **options)
        self._ensure_live()
        number, content = self._next_number(), code.encode("utf-8", "surrogatepass")
        names = {name: str(options.get(name))[:MAX_NAME] for name in ("language", "context") if options.get(name)}
        what = {"number": number, **_printable(names), "code": _measured_of(content)}
        record.begin("execution.started", what, code=content[:MAX_CODE])
        tap = _Tap(options.pop("sink", None))
        try:
            done = await super().execute(code, sink=tap, **options)
        except BaseException as error:  # also of a caller who is gone: what it printed is known all the same
            facts = {"number": number, "error": type(error).__name__, **tap.facts}
            record.note("execution.failed", facts, **tap.heads)
            raise
        record.note("execution.ended", {"number": number, **_described(done), **tap.facts}, **tap.heads)
        return done

    async def start_process(self, argv: Sequence[str], **options: Any) -> Any:
        """See ``Life.start_process``."""
        if self.record is None:
            return await super().start_process(argv, **options)
        self._ensure_live()
        line = " ".join(map(str, argv))
        number = self._next_number()
        facts = {
            "number": number,
            "argv": _measured_of(line.encode("utf-8", "replace")),
            "cwd": options.get("cwd"),
            "pty": options.get("pty") is not None,
            "detached": bool(options.get("detached")),
        }
        self.record.begin("process.started", facts, argv=line[:MAX_ARGUMENTS].encode("utf-8", "replace"))
        try:
            process = await super().start_process(argv, **options)
        except BaseException as error:
            self.record.note("process.failed", {"number": number, "error": type(error).__name__})
            raise
        process.tell(_Command(self.record, number))
        return process

    async def connect_process(self, pid: int, **options: Any) -> Any:
        """See ``Life.connect_process``."""
        if self.record is None:
            return await super().connect_process(pid, **options)
        self._ensure_live()
        self.record.check()
        process = await super().connect_process(pid, **options)
        number = self._next_number()
        self.record.note("process.connected", {"number": number, "pid": pid})
        process.tell(_Command(self.record, number))
        return process

    async def read_file(self, path: str, **options: Any) -> AsyncIterator[bytes]:
        """See ``Life.read_file``."""
        async for chunk in self._measured("file.read", path, super().read_file(path, **options)):
            yield chunk

    def read_raw(self, path: str, length: int) -> AsyncIterator[bytes]:
        """The beginning of a file, of which no entry is made: whoever reads it makes one of all that it reads."""
        return super().read_file(path, length=length)

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

    async def set_network(self, rules: Literal["learn"] | RuleList, way: WayOut) -> None:
        """See ``NetworkCalls.set_network``."""
        self._note_first("network.changed", destinations(rules))
        await super().set_network(rules, way)

    async def configure(self, env: Mapping[str, str]) -> None:
        """See ``Life.configure``. Names only: values may be secrets."""
        self._note_first("environment.set", {"count": len(env), "names": names_of(env)})
        await super().configure(env)

    def _ensure_live(self) -> None:
        """Nothing is written behind a sandbox's end. Raises ``SandboxEnded``."""
        if self.end_reason is not None:
            raise SandboxEnded(self.end_reason.value, self.end_detail)

    def _note_first(self, kind: str, facts: Mapping[str, Any]) -> None:
        if self.record is not None:
            self._ensure_live()
            self.record.begin(kind, _printable(facts))

    async def _measured(self, kind: str, path: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        measured, whole = _Measured(), False
        if self.record is not None:
            self.record.check()
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


def names_of(env: Mapping[str, str]) -> list[str]:
    """The first names of environment variables, as far as an entry has room. Never their values: they may be secrets."""
    found: list[str] = []
    room = MAX_NAMES
    for name in sorted(map(str, env)):
        room -= 12 * len(name)  # as escapes in JSON
        if room < 0:
            return [*found, "..."]
        found.append(name)
    return found


def destinations(rules: Literal["learn"] | RuleList) -> dict[str, Any]:
    """What rules grant: all that an entry has room for, and how many they are."""
    if rules == "learn":
        return {"count": 0, "rules": [], "learn": True}
    found: list[dict[str, Any]] = []
    room = MAX_NAMES
    for rule in rules:
        row = rule.model_dump(mode="json", exclude_none=True)
        room -= len(json.dumps(row))
        if room < 0:
            break
        found.append(row)
    return {"count": len(rules), "rules": found}


def _described(done: Execution) -> dict[str, Any]:
    return {
        "outcome": done.outcome.value,
        "error": done.error.name[:MAX_NAME] if done.error else None,
        "exit_code": done.exit_code,
        "limit": done.limit,
        "dropped": done.dropped,
        "duration": round(done.duration, 6),
        "cpu_seconds": round(done.cpu_seconds, 6),
        "results": len(done.results),
    }


def _measured_of(data: bytes) -> dict[str, Any]:
    measured = _Measured()
    measured.add(data)
    return measured.facts


def _printable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Names of any bytes are written down in ASCII."""
    return {name: ascii(value)[1:-1] if isinstance(value, str) and not value.isprintable() else value for name, value in facts.items()}  # fmt: skip
