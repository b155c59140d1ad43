"""Sandboxes for tenants: who may have one, which is whose, what they may use in a day, and all of it in the journal."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from dayfly.boundaries.base import CellEnd
from dayfly.errors import AdmissionRefused, DayflyError, HostError, ImageNotFound, SandboxEnded, SnapshotMismatch
from dayfly.limits import LONGEST_PAUSE
from dayfly.manager.admission import Admission, Allowance, TenantUsage
from dayfly.manager.budget import Budget
from dayfly.manager.conversations import Conversations
from dayfly.manager.facts import keeping, opening, renewal
from dayfly.manager.ledger import ENDED, OPENED, PAUSED, RESUMED, SERVER_CHAIN, Appender, Ledger
from dayfly.manager.manager import Manager
from dayfly.manager.mistakes import telling
from dayfly.manager.paused import KeptFor, Paused
from dayfly.manager.pauses import AT_ONCE, KEPT_TOO_LONG, whole
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.registry import Registration, Registry
from dayfly.manager.requests import Requests
from dayfly.manager.templates import Template
from dayfly.network import Network
from dayfly.policy import Policy
from dayfly.saved import SavedOutputs
from dayfly.spec import EndReason

__all__ = ["Gate", "Tenants"]

LOOK_SECONDS = 5.0
"""Between looks at what live sandboxes have used of their tenants' CPU seconds: a core's 5 s are what a day can overshoot."""

CEASE_SECONDS = 5.0
"""For what runs in a conversation to stop, when the server does; code that ignores interrupts is killed within one."""

NO_TENANT = ""

Gate = Callable[[Policy, str | None], None]
"""Raises for a policy, perhaps that of a template, of which no sandbox is handed out now."""

MAX_WORDS = 1000
"""Characters of a reason or detail in one entry: people write sentences, programs may write anything."""


class Tenants:
    """Implements what the server needs, on one event loop. ``close`` ends every sandbox."""

    def __init__(
        self,
        manager: Manager,
        admission: Admission,
        allowance_of: Callable[[str], Allowance],
        *,
        journal: Appender | None = None,
        gate: Gate | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._manager = manager
        self._gate = gate
        self.tally = manager.tally
        self._admission = admission
        self._allowance_of = allowance_of
        self._ledger = Ledger(journal)
        self._budget = Budget(now, lambda tenant: allowance_of(tenant).cpu_seconds_per_day)
        self._now = now
        self._registry = Registry(now, asyncio.get_running_loop().time)
        self._requests: Requests[Registration] = Requests()
        self._conversations: Conversations[Registration] = Conversations()
        self._following: set[asyncio.Task[None]] = set()
        self._keeper = asyncio.ensure_future(self._keep_budgets())
        self._keeper.add_done_callback(telling("CPU budgets are not kept any more"))
        self._one_at_a_time = asyncio.Lock()
        self._ending = self._closed = False
        self._ledger.append(SERVER_CHAIN, "server.started", {}, NO_TENANT, {})

    def check_journal(self) -> None:
        """Before something begins that is to be written down. Raises ``JournalUnwritable``."""
        self._ledger.check()

    def note(
        self, kind: str, tenant: str, facts: Mapping[str, object], contents: Mapping[str, bytes] | None = None
    ) -> None:
        """Write down what concerns no single sandbox. Never raises: see ``check_journal``."""
        self._ledger.append(SERVER_CHAIN, kind, facts, tenant, contents or {})

    async def erase_contents(self, tenant: str) -> int:
        """Erase what the journal has of a tenant's code and output; digests stay, so that it still verifies. Returns how many
        pieces it had. Raises ``HostError``."""
        return await self._ledger.erase(tenant)

    async def recover(self, unended: Iterable[tuple[str, str]], spent: Mapping[str, float] | None = None) -> None:
        """Before anything else: clear away what a server that was killed left on this machine, and write down the ends of
        its sandboxes, given as (chain, tenant). ``spent``: CPU seconds of today by tenant, of those that have ended. Raises
        ``HostError`` if something cannot be cleared away."""
        self._budget.restore(spent or {})
        await self._manager.sweep()
        facts = {
            "reason": EndReason.BOUNDARY_LOST.value,
            "detail": "the server ended before it did",
            "cpu_seconds": None,
        }
        for paused in self._manager.paused.values():
            self._take_over(paused)
        for chain, tenant in unended:
            if chain in self._manager.paused:
                continue
            self._ledger.append(chain, ENDED, facts, tenant, {})

    def _take_over(self, paused: Paused) -> None:
        """One that another process has paused."""
        owner = paused.owner
        one = Registration(
            paused, owner.tenant, owner.conversation, owner.template, now=self._now, created=owner.created
        )
        self._registry.add(one)
        self._budget.know(one.id, paused.cpu_seconds)
        self._note(one, PAUSED, {**keeping(paused), "found": True})  # it may have been killed before it said so
        if owner.conversation is not None:
            self._conversations.keep(owner.tenant, owner.conversation, one)

    @property
    def templates(self) -> Sequence[Template]:
        return self._manager.templates

    @property
    def ready(self) -> Mapping[str, int]:
        """The spares that can be claimed now, by their template's name."""
        return self._manager.ready

    async def renew_spares(self, template: str) -> None:
        """See ``Manager.renew_spares``."""
        await self._manager.renew_spares(template)

    # --- making -------------------------------------------------------------------------------------------------------

    async def create(
        self,
        tenant: str,
        policy: Policy,
        *,
        env: Mapping[str, str] | None = None,
        template: str | None = None,
        idempotency_key: str | None = None,
    ) -> Registration:
        """A new sandbox, or the one that this tenant made before with the same key and request.

        Raises ``AdmissionRefused``, ``BudgetSpent``, and what ``Manager.open`` raises.
        """

        def make() -> Awaitable[Registration]:
            return self._create(tenant, policy, env or {}, template, None)

        if idempotency_key is None:
            return await make()
        request = (policy, _digest(env or {}), template)
        return await self._requests.once(tenant, idempotency_key, request, make)

    async def get_or_create(
        self,
        tenant: str,
        conversation: str,
        policy: Policy,
        *,
        env: Mapping[str, str] | None = None,
        template: str | None = None,
    ) -> tuple[Registration, bool]:
        """The conversation's sandbox, and whether it was made by this call; ``env`` counts only then. A paused one goes on."""

        def create() -> Awaitable[Registration]:
            return self._create(tenant, policy, env or {}, template, conversation)

        found, made = await self._conversations.get_or_create(tenant, conversation, policy, create)
        if not found.paused:
            return found, made
        try:
            await self.resume(found)
        except SandboxEnded:  # it could not go on: then there is a new one
            return await self._conversations.get_or_create(tenant, conversation, policy, create)
        return found, False

    async def _create(
        self, tenant: str, policy: Policy, env: Mapping[str, str], template: str | None, conversation: str | None
    ) -> Registration:
        with self._admitting(tenant, policy, template):
            life = await self._manager.open(policy, env=env, tenant=tenant, conversation=conversation)
        made = Registration(life, tenant, conversation, template, env=dict(env), now=self._now)
        await self._register(made, life)
        return made

    @contextmanager
    def _admitting(self, tenant: str, policy: Policy, template: str | None) -> Iterator[None]:
        """Around what makes a life for a tenant. Raises ``BudgetSpent``, and ``HostError`` while the journal fails, when
        the server is stopping, and where the gate is closed."""
        if self._ending:
            raise HostError("this server is stopping", remedy="try again when it has been started again")
        if self._gate is not None:
            self._gate(policy, template)
        self._ledger.check()
        try:
            self._budget.check(tenant)
            yield
        except AdmissionRefused as refusal:
            facts = {"error": type(refusal).__name__, "why": refusal.message[:MAX_WORDS]}
            self._ledger.append(SERVER_CHAIN, "admission.refused", facts, tenant, {})
            raise

    async def _register(self, made: Registration, life: RecordedLife, **more: object) -> None:
        try:
            # first: what is not written down is not handed out
            self._note(made, OPENED, {**opening(made), **more})
        except BaseException:
            await asyncio.shield(life.close())
            raise
        self._registry.add(made)
        self._follow(made, life)

    def _follow(self, registration: Registration, life: RecordedLife, runs: int = 0) -> None:
        life.keep_record(self._ledger.of(registration.id, registration.tenant), runs)
        task = asyncio.ensure_future(self._until_its_end(registration, life))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _until_its_end(self, registration: Registration, life: RecordedLife) -> None:
        end = await life.ended()
        if end.reason is not EndReason.PAUSED:
            self._ended(registration, end)

    def _ended(self, registration: Registration, end: CellEnd) -> None:
        registration.end(end)
        self._registry.ended(registration)
        self._charge(registration)
        self._budget.forget(registration.id)
        facts = {"reason": end.reason.value, "detail": end.detail[:MAX_WORDS], "cpu_seconds": registration.cpu_seconds}
        self._note(registration, ENDED, facts)

    # --- what there is ------------------------------------------------------------------------------------------------

    def find(self, tenant: str, sandbox: str) -> Registration:
        """Raises ``NoSuchSandbox``, also for another tenant's."""
        return self._registry.find(tenant, sandbox)

    def registrations(self, tenant: str | None = None) -> Sequence[Registration]:
        """Those of one tenant or of all; ended ones for an hour."""
        return self._registry.all(tenant)

    def usage(self, tenant: str) -> TenantUsage:
        for one in self._registry.live():
            if one.tenant == tenant:
                self._charge(one)
        held, spent = self._admission.held_by(tenant), self._budget.spent(tenant)
        allowed, paused = self._allowance_of(tenant), self.paused_bytes(tenant)
        return TenantUsage(held.sandboxes, held.memory, held.cpus, spent, paused, allowed)

    # --- changing -----------------------------------------------------------------------------------------------------

    def extend(self, registration: Registration, seconds: float) -> None:
        """Let it live for at least so long from now. Raises ``InputError`` beyond the policy's ``longest_seconds``."""
        registration.life.extend(seconds)
        self._note(registration, "sandbox.extended", {"seconds": seconds})

    async def set_network(self, registration: Registration, rules: Network) -> None:
        """What it may reach from now on. Raises ``SandboxEnded``, ``HostError``, ``JournalUnwritable``."""
        registration.require_live()  # nobody's end waits for this: the agent has to answer
        await self._manager.set_network(registration.life.id, rules)

    async def save_outputs(self, registration: Registration, *, last: bool = False) -> SavedOutputs:
        """See ``Manager.save_outputs``. Raises ``SandboxEnded`` and ``JournalUnwritable`` besides."""
        registration.require_live()
        self._ledger.check()
        return await self._manager.save_outputs(registration.life.id, last=last)

    async def end(self, registration: Registration, reason: EndReason = EndReason.STOPPED, detail: str = "") -> None:
        """When this returns nothing of it is left, on the disk either. Idempotent. Raises ``HostError``."""
        async with registration.changing:
            held = registration.held
            if registration.end_reason is not None:
                return
            if isinstance(held, Paused):
                await self._end_paused(registration, CellEnd(reason, detail))
            elif reason is EndReason.STOPPED:
                await held.close()
            else:
                await held.kill(reason, detail)

    async def quarantine(self, registration: Registration, reason: str, *, replace: bool = True) -> Registration | None:
        """Destroy one that is not trusted any more, keep the reason, and make another like it: nothing of it goes over.

        Raises what ``create`` raises; the old one is gone in any case.
        """
        reason, env = reason[:MAX_WORDS], registration.env
        self._note(registration, "sandbox.quarantined", {"reason": reason})
        await self.end(registration, EndReason.QUARANTINED, reason)
        if not replace:
            return None
        old, policy = registration, registration.policy
        if old.conversation is None:
            return await self.create(old.tenant, policy, env=env, template=old.template)
        made, _ = await self.get_or_create(old.tenant, old.conversation, policy, env=env, template=old.template)
        return made

    # --- pauses and forks ---------------------------------------------------------------------------------------------

    async def pause(self, registration: Registration, seconds: float = LONGEST_PAUSE) -> None:
        """Stop it with its memory, for so long at most; one that is paused stays so. Raises ``BusyError``, ``SandboxEnded``,
        ``OutOfSpace`` also beyond the tenant's own cap, and ``HostError``; it goes on then."""
        self._ledger.check()
        await whole(self._pause(registration, seconds))

    async def _pause(self, registration: Registration, seconds: float) -> None:
        async with registration.changing:
            if registration.paused:
                return
            owner = KeptFor(registration.tenant, registration.conversation, registration.template, registration.created)
            room = self._room(registration.tenant)
            paused = await self._manager.pause(registration.life.id, owner=owner, seconds=seconds, most=room)
            registration.held = paused
            self._charge(registration)
            self._note(registration, PAUSED, keeping(paused))

    def _room(self, tenant: str) -> int | None:
        most = self._allowance_of(tenant).paused_bytes
        return None if most is None else most - self.paused_bytes(tenant)

    def paused_bytes(self, tenant: str) -> int:
        """On the disk."""
        return sum(one.sealed.size for one in self._manager.paused.values() if one.owner.tenant == tenant)

    async def resume(self, registration: Registration) -> None:
        """Go on with a paused one; one that lives, lives. Raises ``AdmissionRefused`` and ``HostError``, and it stays paused;
        ``SandboxEnded`` if it had to end because what it needs is not there any more."""
        await whole(self._resume(registration))

    async def _resume(self, registration: Registration) -> None:
        async with registration.changing:
            paused = registration.held
            if not isinstance(paused, Paused) or not registration.paused:
                registration.require_live()
                return
            try:
                with self._admitting(registration.tenant, registration.policy, registration.template):
                    life = await self._manager.resume(registration.id)
            except (SnapshotMismatch, ImageNotFound) as error:
                await self._end_paused(registration, CellEnd(EndReason.SNAPSHOT_MISMATCH, error.message))
                raise SandboxEnded(EndReason.SNAPSHOT_MISMATCH.value, error.message) from error
            except SandboxEnded as ended:
                if registration.id not in self._manager.paused:  # it was paused for too long; else it still is
                    self._ended(registration, CellEnd(EndReason(ended.reason), ended.detail))
                raise
            registration.held = life
            self._follow(registration, life, paused.runs)
            self._note(registration, RESUMED, renewal(life))

    async def _end_paused(self, registration: Registration, end: CellEnd) -> None:
        await self._manager.discard(registration.id)
        self._ended(registration, end)

    async def fork(self, registration: Registration, count: int = 1) -> Sequence[Registration]:
        """So many that go on from where it is now, each a sandbox of its own without a conversation; it goes on too.

        Raises ``BusyError``, ``SandboxEnded``, ``AdmissionRefused``, ``InputError`` and ``HostError``; none is made then.
        """

        async def undo(made: Sequence[Registration]) -> None:
            await asyncio.gather(*(self.end(one) for one in made))

        return await whole(self._fork(registration, count), undo)

    async def _fork(self, registration: Registration, count: int) -> Sequence[Registration]:
        async with registration.changing:
            with self._admitting(registration.tenant, registration.policy, registration.template):
                lives = await self._manager.fork(registration.life.id, count, tenant=registration.tenant)
        of = registration
        made = [Registration(life, of.tenant, None, of.template, env=dict(of.env), now=self._now) for life in lives]
        self._note(of, "sandbox.forked", {"into": [one.id for one in made]})
        for one, life in zip(made, lives, strict=True):
            await self._register(one, life, fork_of=of.id, **renewal(life))
        return made

    async def pause_conversations(self, seconds: float) -> None:
        """Before ``close``, so that whoever comes back finds them: begin no more pauses after so long. What runs in one is
        stopped for that. What cannot be paused is left to end."""
        latest = asyncio.get_running_loop().time() + seconds
        turns = asyncio.Semaphore(AT_ONCE)

        async def pause(registration: Registration) -> None:
            with suppress(DayflyError):  # why it ended is in the journal
                await registration.life.cease(
                    min(CEASE_SECONDS, seconds)
                )  # all at once: who is slow keeps nobody waiting
                async with turns:
                    if asyncio.get_running_loop().time() < latest:
                        await self.pause(registration)

        await asyncio.gather(*(pause(one) for one in self._registry.live() if one.conversation is not None))

    async def end_all(self) -> None:
        """End every sandbox but those that are paused, and write down why; from now on none is made. Idempotent."""
        self._ending = True
        self._keeper.cancel()
        async with self._one_at_a_time:
            await self._manager.close()
            await asyncio.gather(*self._following)
        with suppress(asyncio.CancelledError):
            await self._keeper

    async def close(self) -> None:
        """``end_all``, also what was being made meanwhile. Idempotent."""
        await self.end_all()
        if not self._closed:
            self._closed = True
            self.note("server.stopped", NO_TENANT, {})

    # --- budgets ------------------------------------------------------------------------------------------------------

    async def _keep_budgets(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for one in self._registry.live():
                if one.state == "ready":  # it may have ended while others were looked at, and then all of it is charged
                    self._charge(one)
                await asyncio.sleep(0)  # of a thousand, nobody waits for all
            for one in self._overspent():
                with suppress(DayflyError):
                    await self.end(one, EndReason.CPU_LIMIT, "the CPU seconds of its tenant and day are used up")
            for one in self._registry.paused():
                if one.expires <= self._now():
                    with suppress(DayflyError):  # tried again at the next look
                        await self.end(one, EndReason.EVICTED, KEPT_TOO_LONG)

    def _overspent(self) -> Sequence[Registration]:
        """Live sandboxes of tenants whose budget is spent."""
        return [one for one in self._registry.live() if self._budget.is_spent(one.tenant)]

    def _charge(self, registration: Registration) -> None:
        self._budget.charge(registration.tenant, registration.id, registration.cpu_seconds)

    def _note(self, registration: Registration, kind: str, facts: Mapping[str, object]) -> None:
        self._ledger.append(registration.id, kind, facts, registration.tenant, {})


def _digest(env: Mapping[str, str]) -> str:
    """Requests are compared by it, so that no values are kept for that."""
    return hashlib.sha256(repr(sorted(env.items())).encode("utf-8", "surrogatepass")).hexdigest()
