"""What the manager writes into the journal: one chain for each sandbox, and the server's own.

Law: what cannot be written down does not happen. While the journal fails, nothing new is begun; what is under way goes on,
and is written down when that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from dayfly.errors import HostError, JournalUnwritable

__all__ = ["ENDED", "OPENED", "PAUSED", "RESUMED", "SERVER_CHAIN", "Appender", "Ledger", "Record"]

SERVER_CHAIN, OPENED, ENDED = "server", "sandbox.opened", "sandbox.ended"
PAUSED, RESUMED = "sandbox.paused", "sandbox.resumed"
"""As in ``dayfly.journal``, which needs more libraries than a manager without one: what concerns no single sandbox, and the
first and last entry of each, and those of its pauses."""


MAX_FAILURE = 200
"""Characters of why the journal failed, in the entry that says that it works again."""


class Appender(Protocol):
    """The part of ``dayfly.journal.Journal`` that is used here."""

    @property
    def failure(self) -> HostError | None: ...

    def append(
        self,
        chain: str,
        kind: str,
        facts: Mapping[str, Any],
        *,
        tenant: str = "",
        contents: Mapping[str, bytes] | None = None,
    ) -> Future[Any]: ...

    def erase(self, tenant: str) -> Future[int]: ...


class Ledger:
    """Appends without waiting for the disk (a commit is some milliseconds behind).

    The journal keeps what it cannot write yet. What it refused, ever, is remembered here: that is lost, and counted.
    """

    def __init__(self, journal: Appender | None) -> None:
        self._journal = journal
        self._refused: BaseException | None = None
        self._lost = 0

    @property
    def kept(self) -> bool:
        """Whether anything is written down at all."""
        return self._journal is not None

    def of(self, chain: str, tenant: str) -> Record:
        return Record(self, chain, tenant)

    def check(self) -> None:
        """Before something begins. Raises ``JournalUnwritable`` while the journal cannot write, and once for what it refused."""
        failure = (self._journal.failure if self._journal else None) or self._refused
        if failure is None:
            return
        if failure is self._refused:  # does it take others?
            facts = {"after": str(failure)[:MAX_FAILURE], "lost": self._lost}
            self.append(SERVER_CHAIN, "journal.tried", facts, "", {})
        raise JournalUnwritable(
            f"the journal cannot be written, and nothing happens without it: {failure}",
            remedy="see to the disk of the data directory; it goes on by itself then",
        )

    def append(
        self, chain: str, kind: str, facts: Mapping[str, Any], tenant: str, contents: Mapping[str, bytes]
    ) -> None:
        if self._journal is None:
            return
        try:
            done = self._journal.append(chain, kind, facts, tenant=tenant, contents=contents)
        except HostError as error:
            self._refuse(error)
        else:
            done.add_done_callback(self._look)

    async def erase(self, tenant: str) -> int:
        """Erase the contents of a tenant's entries; returns their number. Raises ``HostError``."""
        return 0 if self._journal is None else await asyncio.wrap_future(self._journal.erase(tenant))

    def _look(self, done: Future[Any]) -> None:
        """In the journal's thread."""
        error = None if done.cancelled() else done.exception()
        if error is None:
            self._refused = None
        else:
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        self._refused = error
        self._lost += 1


class Record:
    """One sandbox's chain."""

    def __init__(self, ledger: Ledger, chain: str, tenant: str) -> None:
        self._ledger = ledger
        self._chain = chain
        self._tenant = tenant

    @property
    def kept(self) -> bool:
        return self._ledger.kept

    def begin(self, kind: str, facts: Mapping[str, Any], **contents: bytes) -> None:
        """Before something begins. Raises ``JournalUnwritable``."""
        self.check()
        self.note(kind, facts, **contents)

    def check(self) -> None:
        """Before something begins that is noted when it has ended. Raises ``JournalUnwritable``."""
        self._ledger.check()

    def note(self, kind: str, facts: Mapping[str, Any], **contents: bytes) -> None:
        """Something has happened."""
        self._ledger.append(self._chain, kind, facts, self._tenant, contents)
