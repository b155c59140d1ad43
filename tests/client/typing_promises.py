"""What mypy must know about the blocking classes. Checked by ``make check``; nothing here runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_type

from dayfly import (
    AsyncFiles,
    AsyncSandbox,
    Change,
    Commands,
    Denial,
    EndReason,
    Execution,
    FileInfo,
    Files,
    LimitReport,
    Limits,
    Output,
    Policy,
    Port,
    Process,
    ProcessInfo,
    ProcessResult,
    Result,
    Rule,
    Sandbox,
    Usage,
    Watch,
)


def blocking(sandbox: Sandbox) -> None:
    assert_type(sandbox.run_code("1", language="bash", timeout=1, on_stdout=print), Execution)
    assert_type(sandbox.id, str)
    assert_type(sandbox.policy, Policy)
    assert_type(sandbox.limits, tuple[LimitReport, ...])
    assert_type(sandbox.usage, Usage)
    assert_type(sandbox.end_reason, EndReason | None)
    assert_type(sandbox.explain(), dict[str, Any])
    sandbox.set_network([Rule(host="a.example.com"), {"host": "b.example.com"}])
    sandbox.set_network("none")
    assert_type(sandbox.run_code("1").denied, tuple[Denial, ...])
    assert_type(sandbox.files, Files)
    assert_type(sandbox.files.read("a", limit=1), bytes)
    assert_type(sandbox.files.read_text("a"), str)
    assert_type(sandbox.files.stream("a"), Iterator[bytes])
    assert_type(sandbox.files.write("a", b""), int)
    assert_type(sandbox.files.list("a"), list[FileInfo])
    assert_type(sandbox.files.iterate("a"), Iterator[FileInfo])
    assert_type(sandbox.files.stat("a"), FileInfo)
    assert_type(sandbox.files.exists("a"), bool)
    assert_type(sandbox.files.watch("a"), Watch)
    assert_type(sandbox.files.watch("a").next(), Change | None)
    assert_type(sandbox.commands, Commands)
    assert_type(sandbox.commands.run(["a"]), ProcessResult)
    assert_type(sandbox.commands.start("a"), Process)
    assert_type(sandbox.commands.connect(1), Process)
    assert_type(sandbox.commands.list(), Sequence[ProcessInfo])
    assert_type(sandbox.commands.start("a").output(), Iterator[Output])
    assert_type(sandbox.commands.start("a").pid, int)
    assert_type(sandbox.commands.start("a").wait(), ProcessResult)
    assert_type(sandbox.connect_port(80), Port)
    assert_type(sandbox.connect_port(80).read(), bytes)
    assert_type(sandbox.close(), None)


async def asynchronous(sandbox: AsyncSandbox) -> None:
    assert_type(await sandbox.run_code("1"), Execution)
    assert_type(sandbox.files, AsyncFiles)
    assert_type(await sandbox.files.list(), list[FileInfo])
    assert_type([info async for info in sandbox.files.iterate()], list[FileInfo])


def refused(sandbox: Sandbox, result: Result) -> None:
    sandbox.run_code(1)  # type: ignore[arg-type]
    sandbox.run_code("1", timout=1)  # type: ignore[call-arg]
    sandbox.files.read("a", limit="1")  # type: ignore[arg-type]
    sandbox.files.write("a", 7)  # type: ignore[arg-type]
    sandbox.run_code("1", on_result=lambda text: text.upper())  # type: ignore[attr-defined]
    sandbox.id = "x"  # type: ignore[assignment]
    assert_type(result.png, bytes | None)
    Limits(memmory=1)  # type: ignore[call-arg]
