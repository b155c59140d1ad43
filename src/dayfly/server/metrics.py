"""Numbers for Prometheus. No id, tenant, code or text of a caller is ever a label: templates are the operator's names."""

from __future__ import annotations

import asyncio
from collections import Counter as Count
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dayfly.errors import DayflyError
from dayfly.manager import Registration, Tally, Tenants
from dayfly.server.proving import Proving
from dayfly.spec import Execution

__all__ = ["Metrics"]

FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: from a warm claim to a long run."""


class _Egress(Collector):
    """What the manager has counted, as it is when it is asked for."""

    def __init__(self) -> None:
        self.tally = Tally()

    def collect(self) -> Iterator[Metric]:
        denied = CounterMetricFamily(
            "dayfly_egress_denied",
            "Destinations that were asked for and denied; claimed: only an agent says so.",
            labels=["code", "claimed"],
        )
        for (code, claimed), count in sorted(self.tally.denied.items()):
            denied.add_metric([code, str(claimed).lower()], count)
        yield denied
        yield CounterMetricFamily(
            "dayfly_egress_connections", "Connections to the outside that have ended.", value=self.tally.connections
        )
        moved = CounterMetricFamily(
            "dayfly_egress_bytes", "Bytes of connections that have ended.", labels=["direction"]
        )
        for direction, count in (("sent", self.tally.sent), ("received", self.tally.received)):
            moved.add_metric([direction], count)
        yield moved


class _Proofs(Collector):
    """How it stands when it is asked for."""

    def __init__(self) -> None:
        self.proving: Proving | None = None

    def collect(self) -> Iterator[Metric]:
        if self.proving is None:
            return
        green = GaugeMetricFamily(
            "dayfly_proof_green", "Whether sandboxes are proven to be closed as they are now.", labels=["template"]
        )
        for template, good in self.proving.good().items():
            green.add_metric([template], good)
        yield green
        age = GaugeMetricFamily(
            "dayfly_proof_green_age_seconds", "Since the last proof that was green.", labels=["template"]
        )
        for template, seconds in self.proving.green_ages().items():
            age.add_metric([template], seconds)
        yield age


class Metrics:
    """One server's, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._sandboxes = Gauge("dayfly_sandboxes", "Sandboxes now.", ["state", "template"], registry=own)
        self._opens = Counter("dayfly_opens", "Sandboxes asked for.", ["template", "outcome"], registry=own)
        self._opening = Histogram(
            "dayfly_open_seconds", "Until a sandbox was there.", ["template"], buckets=FAST, registry=own
        )
        self._ends = Counter("dayfly_ends", "Sandboxes that ended.", ["reason"], registry=own)
        self._executions = Counter("dayfly_executions", "Runs of code.", ["outcome"], registry=own)
        self._running = Histogram("dayfly_execution_seconds", "Of runs of code.", buckets=FAST, registry=own)
        self._egress = _Egress()
        own.register(self._egress)
        self._proofs = _Proofs()
        own.register(self._proofs)
        self._known: WeakSet[Registration] = WeakSet()
        self._following: set[asyncio.Task[None]] = set()

    @contextmanager
    def opening(self, template: str | None) -> Iterator[None]:
        """Around the making of a sandbox; ``template`` is one that exists."""
        begun, name = perf_counter(), template or ""
        try:
            yield
        except DayflyError:
            self._opens.labels(name, "refused").inc()
            raise
        self._opens.labels(name, "ok").inc()
        self._opening.labels(name).observe(perf_counter() - begun)

    def follow(self, made: Registration) -> None:
        """Count its end when it comes, and once."""
        if made in self._known:
            return
        self._known.add(made)
        task = asyncio.ensure_future(self._count_end(made))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _count_end(self, made: Registration) -> None:
        end = await made.ended()
        self._ends.labels(end.reason.value).inc()

    def ran(self, execution: Execution) -> None:
        self._executions.labels(execution.outcome.value).inc()
        self._running.observe(execution.duration)

    def failed(self) -> None:
        """A run that gave no execution: refused, or given up by its caller."""
        self._executions.labels("none").inc()

    def render(self, tenants: Tenants, proving: Proving | None = None) -> bytes:
        """All of it as text, as of now."""
        self._proofs.proving = proving
        self._egress.tally = tenants.tally
        self._sandboxes.clear()
        now = Count((one.state, one.template or "") for one in tenants.registrations())
        for labels, number in now.items():
            self._sandboxes.labels(*labels).set(number)
        return generate_latest(self._registry)
