"""Sandboxes for tenants: who may have one, which is whose, what they may use in a day, and all of it in the journal."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dayfly.errors import AdmissionRefused, DayflyError
from dayfly.manager.admission import Admission, Allowance
from dayfly.manager.budget import Budget
from dayfly.manager.conversations import Conversations
from dayfly.manager.ledger import ENDED, OPENED, SERVER_CHAIN, Appender, Ledger
from dayfly.manager.manager import Manager
from dayfly.manager.mistakes import telling
from dayfly.manager.recorded import names_of
from dayfly.manager.registry import Registration, Registry
from dayfly.manager.requests import Requests
from dayfly.manager.templates import Template
from dayfly.policy import Policy
from dayfly.spec import EndReason

__all__ = ["TenantUsage", "Tenants"]

LOOK_SECONDS = 5.0
"""Between looks at what live sandboxes have used of their tenants' CPU seconds: a core's 5 s are what a day can overshoot."""

NO_TENANT = ""

MAX_WORDS = 1000
"""Characters of a reason or detail in one entry: people write sentences, programs may write anything."""


@dataclass(frozen=True)
class TenantUsage:
    """What a tenant has now, and may have; ``None`` is no cap."""

    sandboxes: int
    memory: int
    cpus: float
    cpu_seconds_today: float
    allowed: Allowance


class Tenants:
    """Implements what the server needs, on one event loop. ``close`` ends every sandbox."""

    def __init__(
        self,
        manager: Manager,
        admission: Admission,
        allowance_of: Callable[[str], Allowance],
        *,
        journal: Appender | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._manager = manager
        self._admission = admission
        self._allowance_of = allowance_of
        self._ledger = Ledger(journal)
        self._budget = Budget(now, lambda tenant: allowance_of(tenant).cpu_seconds_per_day)
        self._now = now
        self._registry = Registry(now)
        self._requests: Requests[Registration] = Requests()
        self._conversations: Conversations[Registration] = Conversations()
        self._following: dict[Registration, asyncio.Task[None]] = {}
        self._keeper = asyncio.ensure_future(self._keep_budgets())
        self._keeper.add_done_callback(telling("CPU budgets are not kept any more"))
        self._closed = False
        self._ledger.append(SERVER_CHAIN, "server.started", {}, NO_TENANT, {})

    def check_journal(self) -> None:
        """Before something begins that is to be written down. Raises ``HostError`` while that fails."""
        self._ledger.check()

    def note(self, kind: str, tenant: str, facts: Mapping[str, object]) -> None:
        """Write down what concerns no single sandbox. Never raises: see ``check_journal``."""
        self._ledger.append(SERVER_CHAIN, kind, facts, tenant, {})

    async def recover(self, unended: Iterable[tuple[str, str]]) -> None:
        """Before anything else: clear away what a server that was killed left on this machine, and write down the ends of
        its sandboxes, given as (chain, tenant). Raises ``HostError`` if something cannot be cleared away."""
        await self._manager.sweep()
        facts = {
            "reason": EndReason.BOUNDARY_LOST.value,
            "detail": "the server ended before it did",
            "cpu_seconds": None,
        }
        for chain, tenant in unended:
            self._ledger.append(chain, ENDED, facts, tenant, {})

    @property
    def templates(self) -> Sequence[Template]:
        return self._manager.templates

    @property
    def ready(self) -> Mapping[str, int]:
        """The spares that can be claimed now, by their template's name."""
        return self._manager.ready

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
        """The conversation's sandbox, and whether it was made by this call; ``env`` counts only then."""
        return await self._conversations.get_or_create(
            tenant, conversation, policy, lambda: self._create(tenant, policy, env or {}, template, conversation)
        )

    async def _create(
        self, tenant: str, policy: Policy, env: Mapping[str, str], template: str | None, conversation: str | None
    ) -> Registration:
        self._ledger.check()
        try:
            self._budget.check(tenant)
            life = await self._manager.open(policy, env=env, tenant=tenant)
        except AdmissionRefused as refusal:
            facts = {"error": type(refusal).__name__, "why": refusal.message[:MAX_WORDS]}
            self._ledger.append(SERVER_CHAIN, "admission.refused", facts, tenant, {})
            raise
        life.keep_record(self._ledger.of(life.id, tenant))
        made = Registration(life, tenant, conversation, template, env=dict(env), now=self._now)
        try:
            self._note(made, OPENED, _described(made))  # first: what is not written down is not handed out
        except BaseException:
            await asyncio.shield(life.close())
            raise
        self._registry.add(made)
        self._following[made] = asyncio.ensure_future(self._follow(made))
        return made

    async def _follow(self, registration: Registration) -> None:
        end = await registration.life.ended()
        self._registry.ended(registration)
        self._charge(registration)
        self._budget.forget(registration.id)
        facts = {"reason": end.reason.value, "detail": end.detail[:MAX_WORDS], "cpu_seconds": registration.cpu_seconds}
        self._note(registration, ENDED, facts)
        self._following.pop(registration, None)

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
        held = self._admission.held_by(tenant)
        return TenantUsage(
            held.sandboxes, held.memory, held.cpus, self._budget.spent(tenant), self._allowance_of(tenant)
        )

    # --- changing -----------------------------------------------------------------------------------------------------

    def extend(self, registration: Registration, seconds: float) -> None:
        """Let it live for at least so long from now. Raises ``InputError`` beyond the policy's ``longest_seconds``."""
        registration.life.extend(seconds)
        self._note(registration, "sandbox.extended", {"seconds": seconds})

    async def quarantine(self, registration: Registration, reason: str, *, replace: bool = True) -> Registration | None:
        """Destroy one that is not trusted any more, keep the reason, and make another like it: nothing of it goes over.

        Raises what ``create`` raises; the old one is gone in any case.
        """
        reason = reason[:MAX_WORDS]
        self._note(registration, "sandbox.quarantined", {"reason": reason})
        await registration.life.kill(EndReason.QUARANTINED, reason)
        if not replace:
            return None
        old, policy = registration, registration.life.policy
        if old.conversation is None:
            return await self.create(old.tenant, policy, env=old.env, template=old.template)
        made, _ = await self.get_or_create(old.tenant, old.conversation, policy, env=old.env, template=old.template)
        return made

    async def close(self) -> None:
        """End every sandbox and write down why. Idempotent."""
        self._keeper.cancel()
        await self._manager.close()
        await asyncio.gather(*self._following.values())
        if not self._closed:
            self._closed = True
            self.note("server.stopped", NO_TENANT, {})
        with suppress(asyncio.CancelledError):
            await self._keeper

    # --- budgets ------------------------------------------------------------------------------------------------------

    async def _keep_budgets(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for one in self._registry.live():
                self._charge(one)
            for one in self._overspent():
                with suppress(DayflyError):
                    await one.life.kill(EndReason.CPU_LIMIT, "the CPU seconds of its tenant and day are used up")

    def _overspent(self) -> Sequence[Registration]:
        """Live sandboxes of tenants whose budget is spent."""
        return [one for one in self._registry.live() if self._budget.is_spent(one.tenant)]

    def _charge(self, registration: Registration) -> None:
        self._budget.charge(registration.tenant, registration.id, registration.cpu_seconds)

    def _note(self, registration: Registration, kind: str, facts: Mapping[str, object]) -> None:
        self._ledger.append(registration.id, kind, facts, registration.tenant, {})


def _described(made: Registration) -> dict[str, object]:
    """What the journal keeps of a new sandbox. The environment by its names only: values may be secrets."""
    policy = made.life.policy
    return {
        "conversation": made.conversation,
        "template": made.template,
        "policy": policy.model_dump(mode="json", exclude={"mounts"}),
        "mounts": [
            mount.target for mount in policy.mounts
        ],  # the tenant reads this: where they come from is the operator's
        "environment": names_of(made.env),
        "limits": {report.name: report.enforcement.value for report in made.life.limits},
    }


def _digest(env: Mapping[str, str]) -> str:
    """Requests are compared by it, so that no values are kept for that."""
    return hashlib.sha256(repr(sorted(env.items())).encode("utf-8", "surrogatepass")).hexdigest()
