"""The journal of a real sandbox: what ran, what it printed, what went in and out, and why it ended."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dayfly.journal import Journal, Reader, Signer, audit
from dayfly.limits import GIB
from dayfly.manager import Admission, Allowance, Capacity, Tenants, embedded
from dayfly.policy import Policy


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def measured(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


async def test_a_real_life_is_told_and_nothing_inside_can_reach_what_is_written(tmp_path: Path) -> None:
    signer = Signer(bytes(32))
    admission = Admission(
        Capacity.of_machine(8 * GIB, 2, overcommit=10, sandboxes=10),
        lambda tenant: Allowance(),
        free_memory=lambda: 8 * GIB,
    )
    with closing(Journal(tmp_path / "journal.db", signer)) as journal:
        tenants = Tenants(embedded(), admission, lambda tenant: Allowance(), journal=journal)
        mine = await tenants.create("anna", Policy(image="data"))
        life = mine.life
        await life.execute("print('out'); import sys; print('err', file=sys.stderr); 1/0")
        await life.write_file("/home/user/in", pieces(b"abc", b"def"))
        assert b"".join([piece async for piece in life.read_file("/home/user/in")]) == b"abcdef"
        command = await life.start_process(["sh", "-c", "echo said; exit 3"])
        assert (await command.wait()).exit_code == 3
        await asyncio.sleep(0)
        fed = await life.start_process(["cat"], stdin=True)
        await fed.write_stdin(b"fed ")
        await fed.write_stdin(b"twice")
        await fed.close_stdin()
        await fed.wait()
        alone = await life.start_process(["sleep", "1000"], detached=True)
        await alone.detach()
        await (await life.connect_process(alone.pid)).stop()
        await asyncio.sleep(0)
        found = await life.execute(f"import os; print(os.path.exists({str(tmp_path)!r}))")
        assert found.stdout == "False\n"
        await tenants.close()
    told = [(row.entry.kind, json.loads(row.entry.facts)) for row in Reader(tmp_path / "journal.db").entries(mine.id)]
    assert [kind for kind, _ in told] == [
        "sandbox.opened", "execution.started", "execution.ended", "file.written.begun", "file.written", "file.read",
        "process.started", "process.ended", "process.started", "process.ended",
        "process.started", "process.left", "process.connected", "process.ended",
        "execution.started", "execution.ended", "sandbox.ended",
    ]  # fmt: skip
    ended = told[2][1]
    assert (ended["outcome"], ended["error"], ended["stdout"]) == ("error", "ZeroDivisionError", measured(b"out\n"))
    assert told[4][1] == {"path": "/home/user/in", "error": None, **measured(b"abcdef")}
    assert (told[7][1]["exit_code"], told[7][1]["stdout"]) == (3, measured(b"said\n"))
    assert (told[9][1]["stdin"], told[9][1]["stdout"]) == (measured(b"fed twice"), measured(b"fed twice"))
    started, left, connected, stopped = (facts for _, facts in told[10:14])
    assert left["number"] == started["number"] != connected["number"] == stopped["number"]
    assert left["pid"] == connected["pid"] == stopped["pid"]
    assert told[-1][1]["cpu_seconds"] > 0
    assert not list(audit(tmp_path / "journal.db", signer.verifier))
