"""What a server forgets of itself, and what it remembers over its own end."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from dayfly.errors import HostError
from dayfly.journal import Journal, Reader, Signer
from dayfly.manager.budget import DAY
from dayfly.server.retention import retire_daily
from dayfly.testing.clock import HeldClockLoop
from tests.server.house import TINY, House


class Retired:
    """A journal that remembers what it was to remove; the second time it fails."""

    def __init__(self) -> None:
        self.before: list[int] = []

    def retire(self, before: int) -> Future[int]:
        self.before.append(before)
        done: Future[int] = Future()
        done.set_exception(HostError("full")) if len(self.before) == 2 else done.set_result(0)
        return done


def test_old_entries_go_once_a_day_whatever_happens() -> None:
    journal = Retired()

    async def live() -> None:
        loop = asyncio.get_running_loop()
        keeping = asyncio.ensure_future(
            retire_daily(cast(Any, journal), 30, now=lambda: 100 * DAY + round(loop.time() - begun))
        )
        await asyncio.sleep(2.5 * DAY)
        keeping.cancel()

    with asyncio.Runner(loop_factory=HeldClockLoop) as runner:
        begun = runner.get_loop().time()
        runner.run(live())
    assert [before / 1e9 / DAY for before in journal.before] == [70, 71, 72]


def test_what_a_tenant_has_used_today_is_counted_over_a_restart(tmp_path: Path) -> None:
    clock = [5]
    with closing(Journal(tmp_path / "journal.db", Signer(bytes(32)), now=lambda: clock[0])) as journal:
        for moment, chain, tenant, what, used in (
            (5, "yesterday", "anna", "ended", 1.0),
            (5, "paused before", "anna", "paused", 10.0),
            (6, "still paused", "cleo", "paused", 7.0),
            (10, "ended", "anna", "ended", 2.0),
            (11, "paused before", "anna", "ended", 13.5),
            (12, "unknown", "bert", "ended", None),
            (13, "paused today", "dora", "paused", 0.5),
            (14, "paused today", "dora", "paused", 4.0),
        ):
            clock[0] = moment
            journal.append(chain, f"sandbox.{what}", {"cpu_seconds": used}, tenant=tenant).result(5)
        journal.append("x", "execution.ended", {"cpu_seconds": 9.0}, tenant="anna").result(5)
    assert Reader(tmp_path / "journal.db").cpu_seconds_since(10) == {"anna": 5.5, "dora": 4.0}


def test_an_administrator_can_have_their_contents_erased_and_nobody_elses(server: House) -> None:
    for tenant in ("erin", "fred"):
        one = server.client(tenant, "run")
        path = f"/v1/sandboxes/{one.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
        one.post(f"{path}/executions", json={"code": f"print('{tenant} was here')"})
        one.delete(path)
    assert server.client("erin", "run").delete("/v1/journal/contents").status_code == 403
    erin = server.client("erin", "admin")
    assert erin.delete("/v1/journal/contents").json() == {"erased": 2}
    left = contents(server)
    assert not any(b"erin" in data for data in left)
    assert any(b"fred was here" in data for data in left)
    assert erin.get("/v1/journal").status_code == 200


def contents(server: House) -> list[bytes]:
    reader = server.reader()
    return [one.data for row in reader.entries() for one in reader.contents(row.id)]
