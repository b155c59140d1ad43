"""A server put together: what ``dayfly serve`` answers with, and what a proof calls as strangers would."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.journal import Journal
    from dayfly.manager import Admission, Allowance, Manager, Tenants
    from dayfly.manager.tenants import Gate
    from dayfly.server import Configuration, Keys, Places
    from dayfly.server.proving import Proving
    from dayfly.server.services import Services
    from dayfly.server.serving import Listener

__all__ = ["Composed", "composed", "gvisor_of", "tenants_of"]


@dataclass(frozen=True)
class Composed:
    """``services`` have the tenants, to be closed by whoever composed it; the rest ends with the stack it was opened on."""

    services: Services
    listener: Listener
    journal: Journal


def gvisor_of(configuration: Configuration, places: Places) -> GvisorBoundary:
    from dayfly.boundaries.gvisor import GvisorBoundary

    return GvisorBoundary(places.paths, courteous=configuration.machine.courteous)


def composed(
    open_now: ExitStack, configuration: Configuration, places: Places, keys: Keys, proving: Proving | None = None
) -> Composed:
    """On the running loop, listening already; nothing is answered yet. Raises ``HostError``."""
    from dayfly.journal import Journal, Signer
    from dayfly.server import Readiness
    from dayfly.server.services import Services
    from dayfly.server.serving import Listener

    listener = Listener.bind(configuration)
    open_now.callback(listener.socket.close)
    signer = Signer.load(places.journal_key)
    journal = Journal(places.journal, signer)
    open_now.callback(journal.close)
    boundary = gvisor_of(configuration, places)
    tenants = tenants_of(configuration, places, boundary, journal, proving.check if proving is not None else None)
    services = Services(
        tenants,
        keys,
        Readiness(lambda: _problem(boundary, journal)),
        configuration,
        proving=proving,
        journal=places.journal,
        public_key=signer.verifier.public,
    )
    return Composed(services, listener, journal)


def tenants_of(
    configuration: Configuration,
    places: Places,
    boundary: GvisorBoundary,
    journal: Journal | None = None,
    gate: Gate | None = None,
) -> Tenants:
    """With spares of every template, and everybody's caps."""
    from dayfly.manager import Admission, Allowance, Capacity, Tenants
    from dayfly.manager.admission import available_memory

    machine = configuration.machine
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    capacity = Capacity.of_machine(memory, cores, overcommit=machine.factor, sandboxes=machine.sandboxes)

    def allowance_of(tenant: str) -> Allowance:
        return _allowance(configuration, tenant) if tenant else Allowance()  # spares are nobody's yet

    admission = Admission(capacity, allowance_of, free_memory=available_memory)
    manager = _manager(configuration, places, boundary, admission)
    return Tenants(manager, admission, allowance_of, journal=journal, gate=gate)


def _manager(configuration: Configuration, places: Places, boundary: GvisorBoundary, admission: Admission) -> Manager:
    from dayfly.agent_bundle import agent_for
    from dayfly.images import Store
    from dayfly.manager import Manager, Shelf, Template
    from dayfly.manager.means import MachineMeans
    from dayfly.manager.outlet import Outlet
    from dayfly.server.paused import PausedRecords

    agents = places.paths.data / "agents"
    manager = Manager(
        {"gvisor": boundary},
        Store(places.paths),
        lambda image: agent_for(image, agents),
        admission=admission,
        snapshots=places.paths.data / "snapshots",
        shelf=Shelf(places.paused, lasting=True, most=configuration.pausing.most),
        records=PausedRecords(places.state, places.paused),
        outlet=Outlet(means=MachineMeans.at(places.secrets)),
    )
    for name, entry in configuration.templates.items():
        manager.keep(Template(name, entry.policy, entry.spares, entry.spare_seconds, entry.preload))
    return manager


def _allowance(configuration: Configuration, tenant: str) -> Allowance:
    from dayfly.manager import Allowance

    return Allowance(**dict(configuration.caps_of(tenant)))


def _problem(boundary: GvisorBoundary, journal: Journal) -> str | None:
    if journal.failure is not None:
        return journal.failure.message
    report = boundary.probe()
    return None if report.usable else "; ".join(report.reasons)
