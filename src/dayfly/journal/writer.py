"""Writing the journal: one thread, many entries to a commit.

Law: what was queued is written, in its order. While the disk is full, or another process holds the file, it waits, is tried
again and again, and ``failure`` says why; only a journal that is closed meanwhile gives up, and says how much.
"""

from __future__ import annotations

import fcntl
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dayfly.errors import HostError
from dayfly.journal.entry import (
    BEGINNING,
    BEGUN,
    ERASED,
    GENESIS,
    HEAD,
    RETIRED,
    SERVER,
    Entry,
    Head,
    content_digest,
    dump_facts,
)
from dayfly.journal.signing import Signer
from dayfly.journal.store import VERIFY, Content, open_for_writing, translate
from dayfly.names import checked_name

__all__ = ["Journal"]

T = TypeVar("T")

MAX_BATCH = 256
"""Entries in one commit: what gathers while the disk is busy with the one before."""

GATHER_SECONDS = 0.01
"""From an entry to the commit with it: what comes meanwhile shares it, the end of a short run with its beginning. And whoever
runs something has an answer before this thread wants the interpreter."""

MAX_WAITING = 10_000
"""Entries that may wait for the disk; who brings more is refused."""

MAX_HEADS = 10_000
"""Chains whose ends are kept in memory; a server sees any number of them in its life."""

RETRY_SECONDS = 1.0
"""Until what could not be written is tried again."""

SALT_BYTES = 16

MAX_CONTENT = 1024 * 1024
"""Bytes of one content; the rest is left out, and facts say how much there was."""


@dataclass
class _Order:
    """Something to be written; ``facts`` are its JSON, made by whoever brings it. ``done`` gets the entry when it is on the disk."""

    chain: str
    tenant: str
    kind: str
    facts: str
    contents: list[Content]
    done: Future[Entry] = field(default_factory=Future)


class Journal:
    """The only writer of the file ``path``. Safe from any thread; every call raises ``HostError`` after ``close``.

    ``now`` is the wall clock, in nanoseconds. ``failure`` is why entries wait, or ``None`` when all is well.
    """

    failure: HostError | None = None

    def __init__(self, path: Path, signer: Signer, *, now: Callable[[], int] = time.time_ns) -> None:
        self._path = path
        self._signer = signer
        self._now = now
        self._lock = _only_writer(path)
        try:
            self._connection = open_for_writing(path)
        except BaseException:
            os.close(self._lock)
            raise
        self._heads: dict[str, Head] = {}
        self._orders: queue.Queue[_Order | Callable[[], None] | None] = queue.Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._closing = threading.Lock()
        self._given_up: HostError | None = None
        self._unwritten = 0
        self._thread = threading.Thread(target=self._serve, name="dayfly-journal", daemon=True)
        self._thread.start()

    def append(
        self,
        chain: str,
        kind: str,
        facts: Mapping[str, Any],
        *,
        tenant: str = "",
        contents: Mapping[str, bytes] | None = None,
    ) -> Future[Entry]:
        """Queue an entry; the future has it when it is on the disk, or a ``HostError`` if it never will be.

        ``contents`` (name to bytes) can be erased later: facts get their salted digest and size under "contents". Raises
        ``InputError`` for facts that are no JSON, ``HostError`` when too much waits.
        """
        kept = [
            Content(name, secrets.token_bytes(SALT_BYTES), data[:MAX_CONTENT])
            for name, data in (contents or {}).items()
        ]
        whole = dict(facts)
        if kept:
            whole["contents"] = {
                one.name: {"sha256": content_digest(one.salt, one.data), "size": len((contents or {})[one.name])}
                for one in kept
            }
        written = dump_facts(whole)
        for what, text in (("chain", chain), ("kind", kind), ("tenant", tenant)):
            if text or what != "tenant":  # what is the server's own has none
                checked_name(f"the {what} of a journal entry", text)
        order = _Order(chain, tenant, kind, written, kept)
        self._put(order)
        return order.done

    def erase(self, tenant: str) -> Future[int]:
        """Erase all contents of a tenant's entries; the future has their number. The chains still verify."""
        return self._do(lambda: self._erase(tenant))

    def retire(self, before: int) -> Future[int]:
        """Remove what is older than ``before`` (nanoseconds), behind signed beginnings; the future has the number."""
        return self._do(lambda: self._retire(before))

    def close(self) -> None:
        """Write what waits, and stop. Idempotent. Raises ``HostError`` if something could not be written."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
        self._orders.put(None)
        self._thread.join()
        self._connection.close()
        os.close(self._lock)
        if self._given_up is not None and self._unwritten:
            raise HostError(
                f"{self._unwritten} journal entries could not be written: {self._given_up.message}",
                remedy="the next start marks the ends of sandboxes that are among them",
            )

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _put(self, order: _Order | Callable[[], None]) -> None:
        try:
            with self._closing:  # nothing comes after the end
                if self._closed.is_set():
                    raise HostError("the journal is closed", remedy="open another one")
                self._orders.put_nowait(order)
        except queue.Full:
            raise HostError(
                f"{MAX_WAITING} journal entries wait for the disk", remedy="see what it is busy with"
            ) from None

    def _do(self, work: Callable[[], int]) -> Future[int]:
        done: Future[int] = Future()

        def call() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                count = self._transaction(work)
            except Exception as error:  # noqa: BLE001 - handed on
                done.set_exception(error)
            else:
                done.set_result(count)

        self._put(call)
        return done

    def _serve(self) -> None:
        ended = False
        while not ended:
            batch: list[_Order] = []
            order = self._orders.get()
            if isinstance(order, _Order) and self._orders.qsize() < MAX_BATCH:
                self._closed.wait(GATHER_SECONDS)
            while isinstance(order, _Order):
                batch.append(order)
                if len(batch) == MAX_BATCH:
                    break
                try:
                    order = self._orders.get_nowait()
                except queue.Empty:
                    break
            self._write([one for one in batch if one.done.set_running_or_notify_cancel()])
            if order is None:
                ended = True
            elif callable(order):
                order()

    def _write(self, batch: list[_Order]) -> None:
        """All of it, however long that takes, unless this journal is closed meanwhile."""
        while batch and self._given_up is None:
            last = self._closed.is_set()
            try:
                entries = self._transaction(lambda: self._insert_all(batch))
            except Exception as error:  # noqa: BLE001 - the thread serves those after them
                if not isinstance(error, HostError) or not _passes(error):
                    return self._write_singly(batch, error)
                self.failure = error
                if last:
                    self._given_up = error
                self._closed.wait(RETRY_SECONDS)
            else:
                self.failure = None
                for order, entry in zip(batch, entries, strict=True):
                    order.done.set_result(entry)
                return None
        self._unwritten += len(batch)
        for order in batch:
            order.done.set_exception(self._given_up)
        return None

    def _write_singly(self, batch: list[_Order], error: Exception) -> None:
        """One of them cannot be written, ever: that is not to harm the others."""
        if len(batch) == 1:
            return batch[0].done.set_exception(error)
        for order in batch:
            self._write([order])
        return None

    def _transaction(self, work: Callable[[], T]) -> T:
        """All of ``work`` or nothing. Raises ``HostError``."""
        if len(self._heads) > MAX_HEADS:
            self._heads.clear()  # they are in the file, too
        before = dict(self._heads)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            done = work()
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._heads = before
            if isinstance(error, (sqlite3.Error, OSError)):
                raise translate(error, self._path) from error
            raise
        return done

    # --- entries ------------------------------------------------------------------------------------------------------

    def _insert_all(self, batch: Iterable[_Order]) -> list[Entry]:
        touched: set[str] = set()
        entries = []
        for order in batch:
            if self._head(order.chain).number == 0 and order.chain != SERVER:
                self._insert(_Order(SERVER, order.tenant, BEGUN, dump_facts({"chain": order.chain}), []))
                touched.add(SERVER)
            entries.append(self._insert(order))
            touched.add(order.chain)
        for chain in touched:
            self._sign(HEAD, self._heads[chain])
        return entries

    def _insert(self, order: _Order) -> Entry:
        last = self._head(order.chain)
        entry = Entry(order.chain, last.number + 1, self._now(), order.tenant, order.kind, order.facts, last.hash)
        cursor = self._connection.execute(
            "INSERT INTO entries (chain, number, at, tenant, kind, facts, previous, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.chain, entry.number, entry.at, entry.tenant, entry.kind, entry.facts, entry.previous, entry.hash),
        )
        rows = [(cursor.lastrowid, one.name, one.salt, one.data) for one in order.contents]
        self._connection.executemany("INSERT INTO contents VALUES (?, ?, ?, ?)", rows)
        self._heads[order.chain] = entry.head
        return entry

    def _head(self, chain: str) -> Head:
        if chain not in self._heads:
            self._heads[chain] = self._load_head(chain)
        return self._heads[chain]

    def _load_head(self, chain: str) -> Head:
        row = self._connection.execute("SELECT number, hash, signature FROM heads WHERE chain = ?", (chain,)).fetchone()
        if row is None:
            return Head(chain, 0, GENESIS)
        head = Head(chain, row[0], row[1])
        if not self._signer.verifier.accepts(head, row[2]):
            raise HostError(f"the journal's chain {chain} does not end as this server wrote it", remedy=VERIFY)
        return head

    def _sign(self, purpose: str, head: Head) -> None:
        row = (head.chain, head.number, head.hash, self._signer.sign(head, purpose))
        self._connection.execute(f"INSERT OR REPLACE INTO {purpose}s VALUES (?, ?, ?, ?)", row)  # noqa: S608 - one of two

    # --- what may be removed --------------------------------------------------------------------------------------------

    def _erase(self, tenant: str) -> int:
        query = "DELETE FROM contents WHERE entry IN (SELECT id FROM entries WHERE tenant = ?)"
        count = self._connection.execute(query, (tenant,)).rowcount
        self._insert_all([_Order(SERVER, tenant, ERASED, dump_facts({"count": count}), [])])
        return count

    def _retire(self, before: int) -> int:
        """In each chain, from its beginning to the last entry before which all are old."""
        count, erased_until = 0, self._erased_until()
        query = (
            "WITH young AS (SELECT chain, min(number) AS first FROM entries WHERE at >= ? GROUP BY chain)"
            " SELECT entries.chain, max(number) FROM entries LEFT JOIN young USING (chain)"
            " WHERE first IS NULL OR number < first GROUP BY entries.chain"
        )
        for chain, number in self._connection.execute(query, (before,)).fetchall():
            (digest,) = self._connection.execute(
                "SELECT hash FROM entries WHERE chain = ? AND number = ?", (chain, number)
            ).fetchone()
            self._sign(BEGINNING, Head(chain, number, digest))
            which = "FROM entries WHERE chain = ? AND number <= ?"
            self._connection.execute(f"DELETE FROM contents WHERE entry IN (SELECT id {which})", (chain, number))  # noqa: S608
            count += self._connection.execute(f"DELETE {which}", (chain, number)).rowcount
        facts = {"count": count, "before": before, "erased_until": erased_until}
        self._insert_all([_Order(SERVER, "", RETIRED, dump_facts(facts), [])])
        return count

    def _erased_until(self) -> int:
        """The id of the last entry that says that contents were erased, whether it is still there or was retired itself."""
        query = (
            "SELECT max(CASE kind WHEN ? THEN id ELSE coalesce(json_extract(facts, '$.erased_until'), id) END) FROM entries"
            " WHERE chain = ? AND kind IN (?, ?)"
        )
        (found,) = self._connection.execute(query, (ERASED, SERVER, ERASED, RETIRED)).fetchone()
        return int(found or 0)


def _passes(error: BaseException) -> bool:
    """Whether what kept entries from the disk may end by itself: a full disk, another process's lock."""
    return isinstance(error.__cause__, (sqlite3.OperationalError, OSError))


def _only_writer(path: Path) -> int:
    """A lock that ends with this process. Raises ``HostError`` if another one holds it."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise HostError(f"another dayfly writes the journal {path}", remedy="use another data directory") from None
    return lock
