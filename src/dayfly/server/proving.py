"""The server's proofs of itself: which sandboxes have been shown to be closed, on what, and who may be given one.

A proof is due when the server starts, when something it stands on has changed (dayfly, runsc, kernel, image, policy), when
somebody asks for it, and once in a while. Who carries it out is not known here.

Law: where a proof is required, nothing is handed out that is not proven to be as it is now. A proof that cannot be had is
none.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from dayfly.errors import DayflyError, NotProven
from dayfly.manager.mistakes import telling
from dayfly.policy import Policy
from dayfly.server.logs import log
from dayfly.server.proven import PROOF_MADE, Made, Prover, Subject

__all__ = ["Note", "Proving", "Standing"]

LOOK_SECONDS = 10.0
"""Between looks at what proofs stand on: some files are asked when they were written."""

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds until a proof that is not green is made again: doubled each time. A busy machine shows nothing; a hole stays."""

MOST_KEPT = 50
"""Reports that are kept in memory, some hundred kilobytes each. The journal keeps all of them."""

MAX_WORDS = 500
"""Characters of why there is no proof."""

ANY = ""
"""The subject of the sandboxes that callers bring a policy for."""

FAILURE = "failure"
"""What a proof stands on where that cannot be found out: why."""


Standing = Literal["waiting", "proving", "green", "red"]
"""Waiting: not proven as it is now, and its turn comes."""


@dataclass
class _Case:
    """One subject, as of now. Times are on the loop's clock. ``known``: what it stands on, at the last look."""

    subject: Subject
    known: Mapping[str, str] | None = None
    last: Made | None = None
    last_green: float | None = None
    again_at: float = float("-inf")
    pause: float = FIRST_PAUSE
    proving: bool = False

    @property
    def current(self) -> bool:
        """Whether the last proof is of what there is now."""
        return self.last is not None and self.known is not None and self.last.stands_on == self.known

    @property
    def standing(self) -> Standing:
        if self.proving:
            return "proving"
        if not self.current:
            return "waiting"
        return "green" if self.last is not None and self.last.green else "red"

    @property
    def good(self) -> bool:
        """Proven as it is now; also while it is proven again."""
        return self.current and self.last is not None and self.last.green


class Note(Protocol):
    """Writes a proof down: ``dayfly.manager.Tenants.note``."""

    def __call__(
        self, kind: str, tenant: str, facts: Mapping[str, object], contents: Mapping[str, bytes] = ...
    ) -> None: ...


Changed = Callable[[Subject], Awaitable[None]]


async def _nothing(subject: Subject) -> None:
    """Nobody wants to know."""


class Proving:
    """Of one server, on one running loop. One of the ``subjects`` is ``ANY``. Where proofs are ``required``, ``check`` refuses what is not proven.

    ``hours``: until a green one is made again with nothing changed. ``wall``: seconds since 1970.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        prover: Prover,
        *,
        required: bool = False,
        hours: float = 24.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.required = required
        self._prover = prover
        self._seconds = hours * 3600
        self._changed: Changed = _nothing
        self._wall = wall
        self._cases = {one.template: _Case(one) for one in subjects}
        self._made: deque[Made] = deque(maxlen=MOST_KEPT)
        self._wanted = asyncio.Event()
        self._note: Note | None = None
        self._keeping: asyncio.Task[None] | None = None

    # --- who may be given a sandbox -----------------------------------------------------------------------------------

    def check(self, policy: Policy, template: str | None) -> None:
        """Before a sandbox is handed out. Raises ``NotProven`` where a proof is required."""
        if not self.required:
            return
        if self._keeping is not None and self._keeping.done():
            raise NotProven("nobody looks any more whether these sandboxes are proven", remedy="start the server anew")
        named = self._cases.get(template) if template else None
        case = named or self._cases[ANY]
        if not case.good:
            raise _not_proven(case)
        if named is None and policy.image not in self._images():
            raise NotProven(
                f"sandboxes of the image {policy.image!a:.80} have not been proven here",
                remedy="have the operator make a template of it: each template is proven",
            )

    def _images(self) -> set[str]:
        """Of what is proven now."""
        return {case.subject.policy.image for case in self._cases.values() if case.good}

    def problem(self) -> str | None:
        """Why nobody can be given any sandbox, or ``None``."""
        if not self.required or any(case.good for case in self._cases.values()):
            return None
        return "no sandbox is proven to be closed"

    # --- what there is ------------------------------------------------------------------------------------------------

    def all(self) -> Sequence[tuple[Subject, Standing, Made | None]]:
        """Each subject, how it stands, and its last proof."""
        return [(case.subject, case.standing, case.last) for case in self._cases.values()]

    def find(self, proof: str) -> Made | None:
        """One of the last ``MOST_KEPT``."""
        return next((one for one in self._made if one.id == proof), None)

    def green_ages(self) -> Mapping[str, float]:
        """Seconds since each subject's last green proof, by template; those that had one."""
        now = self._now()
        return {name: now - case.last_green for name, case in self._cases.items() if case.last_green is not None}

    def good(self) -> Mapping[str, bool]:
        return {name: case.good for name, case in self._cases.items()}

    # --- making them --------------------------------------------------------------------------------------------------

    def start(self, note: Note, changed: Changed = _nothing) -> None:
        """From now on proofs are made when they are due, one at a time, and written down with ``note``. ``changed`` hears of what stands on
        something else than before, as its spares do not."""
        self._note, self._changed = note, changed
        self._keeping = asyncio.ensure_future(self._keep())
        self._keeping.add_done_callback(telling("no proofs are made any more"))

    async def close(self) -> None:
        """Idempotent."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})

    def ask(self) -> None:
        """Have all of them made again, now."""
        for case in self._cases.values():
            case.again_at = float("-inf")
        self._wanted.set()

    async def _keep(self) -> None:
        while True:
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()

    async def look(self) -> None:
        """Look at what all proofs stand on, at all before the first is made: who is not proven any more waits from now on. Then
        make those that are due."""
        for case in self._cases.values():
            await self._look(case)
        for case in self._cases.values():
            if not case.current or self._now() >= case.again_at:
                await self._look(case)
                await self._prove(case)

    async def _look(self, case: _Case) -> None:
        before = case.known
        case.known = await asyncio.to_thread(self._standing_on, case.subject)
        if before not in (None, case.known):
            await self._changed(case.subject)

    def _standing_on(self, subject: Subject) -> Mapping[str, str]:
        try:
            return self._prover.stands_on(subject)
        except DayflyError as error:
            return {FAILURE: error.message[:MAX_WORDS]}

    async def _prove(self, case: _Case) -> None:
        case.proving = True
        try:
            made = await self._made_of(case)
        finally:
            case.proving = False
        case.last = made
        self._made.append(made)
        await self._look(case)  # what has changed meanwhile is not proven
        if made.green:
            case.last_green, case.pause = self._now(), FIRST_PAUSE
            case.again_at = self._now() + self._seconds
        else:
            case.again_at, case.pause = self._now() + case.pause, min(2 * case.pause, LONGEST_PAUSE)
        self._tell(made)

    async def _made_of(self, case: _Case) -> Made:
        on = dict(case.known or {})
        made = Made(secrets.token_hex(8), case.subject, on, self._wall(), None, on.get(FAILURE, ""))
        if made.failure:
            return made
        try:
            return replace(made, proven=await self._prover.prove(case.subject))
        except DayflyError as error:
            return replace(made, failure=str(error)[:MAX_WORDS])

    def _tell(self, made: Made) -> None:
        facts = made.facts()
        if self._note is not None:
            self._note(PROOF_MADE, "", facts, made.contents())
        say = log.info if made.green else log.warning
        say("proof", extra={"facts": facts})

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _not_proven(case: _Case) -> NotProven:
    if case.standing in ("waiting", "proving"):
        return NotProven("these sandboxes are just being proven", remedy="try again in half a minute", waiting=True)
    return NotProven(
        "these sandboxes are not proven to be closed, and this server hands out no others",
        remedy="its operator finds the reason with: dayfly journal show server, or dayfly prove",
    )
