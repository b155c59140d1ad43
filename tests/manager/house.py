"""Tenants over a scripted boundary, with a real journal: what the server stands on, without its doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dayfly.boundaries.snapshot import Snapshot
from dayfly.errors import NotProven
from dayfly.journal import Journal, Reader, Signer, audit
from dayfly.limits import GIB
from dayfly.manager import Admission, Allowance, Capacity, Manager, Records, Shelf, Tenants
from dayfly.policy import Policy
from dayfly.spec import Image, SandboxSpec
from dayfly.testing.scripted import Asked, ScriptedBoundary, ScriptedCell
from dayfly.wire import operations as ops
from tests.sandbox.living import DONE

SIGNER = Signer(bytes(range(32)))


class Images:
    """One image, always there."""

    def resolve(self, name: str) -> Image:
        return Image(name, "sha256:0", "amd64", Path("/nonexistent"))

    def lease(self, image: Image) -> Images:
        return self

    def close(self) -> None:
        pass


class Boundary(ScriptedBoundary):
    """Remembers its cells by id. Code that it runs prints itself; a file holds its own path."""

    def __init__(self) -> None:
        super().__init__(answer)
        self.cells: dict[str, ScriptedCell] = {}

    async def open(self, spec: SandboxSpec) -> ScriptedCell:
        self.cells[spec.id] = cell = await super().open(spec)
        return cell

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> ScriptedCell:
        self.cells[spec.id] = cell = await super().restore(snapshot, spec)
        return cell


async def answer(asked: Asked) -> None:
    if asked.op == "renew":
        await asked.finish(renewed=["python: random"], kept=[], unanswered=[])
    elif asked.op == "execute":
        if asked.params["code"] == "sleep":
            await asyncio.sleep(2)
        if asked.params["code"] == "for ever":
            await asyncio.Event().wait()
        if not asked.params.get("silent"):
            await asked.data(ops.STDOUT, str(asked.params["code"]).encode("utf-8", "replace"))
        await asked.finish(**DONE)
    elif asked.op == "file.read":
        await asked.data(ops.STDOUT, str(asked.params["path"]).encode())
        await asked.finish(size=1)
    else:
        await asked.finish()


class House:
    """``tenants`` and what they stand on. ``wall`` is the wall clock."""

    def __init__(self, path: Path, capacity: Capacity | None = None, records: Records | None = None) -> None:
        self.wall = 20_000 * 86400.0
        self.allowances: dict[str, Allowance] = {}
        self.boundary = Boundary()
        self.journal_path = path / "journal.db"
        self.journal = Journal(self.journal_path, SIGNER)
        admission = Admission(capacity or Capacity(100, 100 * GIB, 100, 0), self.allowance_of, free_memory=lambda: GIB)
        self.memory = GIB
        self.agent = path / "agent"
        self.agent.touch()
        self.scratch = path / "memory"
        self.scratch.mkdir(exist_ok=True)
        self.shelf = path / "shelf"
        self.manager = Manager(
            {"gvisor": self.boundary},
            Images(),
            lambda image: self.agent,
            admission=admission,
            shelf=Shelf(self.shelf, lasting=records is not None, scratch=self.scratch, free_memory=lambda: self.memory),
            records=records,
            now=lambda: self.wall,
        )
        self.closed_for: set[str | None] = set()
        self.tenants = Tenants(
            self.manager, admission, self.allowance_of, journal=self.journal, gate=self.gate, now=lambda: self.wall
        )

    def gate(self, policy: Policy, template: str | None) -> None:
        if template in self.closed_for:
            raise NotProven("not proven")

    def allowance_of(self, tenant: str) -> Allowance:
        return self.allowances.get(tenant, Allowance())

    async def close(self) -> None:
        await self.tenants.close()
        self.journal.close()
        assert not list(audit(self.journal_path, SIGNER.verifier))

    def told(self, chain: str) -> list[tuple[str, dict[str, Any]]]:
        """(kind, facts) of a chain, once all is on the disk."""
        self.journal.append("test", "flush", {}).result(5)
        return [(row.entry.kind, json.loads(row.entry.facts)) for row in Reader(self.journal_path).entries(chain)]

    def contents(self) -> dict[tuple[str, str], bytes]:
        """What may be erased, by kind of entry and name."""
        self.journal.append("test", "flush", {}).result(5)
        reader = Reader(self.journal_path)
        return {(row.entry.kind, one.name): one.data for row in reader.entries() for one in reader.contents(row.id)}


@asynccontextmanager
async def house(path: Path, **more: Any) -> AsyncIterator[House]:
    made = House(path, **more)
    try:
        yield made
    finally:
        await made.close()
