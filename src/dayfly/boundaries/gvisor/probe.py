"""Whether gVisor can be used here: by starting a guest, not by looking at versions. ``/dev/kvm`` is never touched."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from dayfly.boundaries.base import ProbeReport
from dayfly.boundaries.gvisor import enforcement
from dayfly.boundaries.gvisor.abilities import Abilities
from dayfly.boundaries.gvisor.layout import lay_out
from dayfly.boundaries.gvisor.start import Plan, begin, failure
from dayfly.boundaries.processes import in_spawner
from dayfly.boundaries.stderr import last_words
from dayfly.errors import DayflyError
from dayfly.limits import Limits
from dayfly.paths import Paths
from dayfly.spec import Enforcement, Image, SandboxSpec

__all__ = ["probe"]

PROBE_SECONDS = 5.0
"""For everything; it takes some 0.3 s."""


def probe(paths: Paths, abilities: Callable[[], Abilities]) -> ProbeReport:
    """Never raises, never takes longer than ``PROBE_SECONDS``. What still runs then clears up after itself."""
    found: list[ProbeReport] = []
    deadline = time.monotonic() + PROBE_SECONDS
    worker = threading.Thread(target=lambda: found.append(_probe(paths, abilities, deadline)), daemon=True)
    worker.start()
    worker.join(PROBE_SECONDS)
    if found:
        return found[0]
    return ProbeReport(
        False, (f"gVisor did not answer within {PROBE_SECONDS:g} s",), ("see what loads this machine, and try again",)
    )


def _probe(paths: Paths, detect: Callable[[], Abilities], deadline: float) -> ProbeReport:
    facts: dict[str, str] = {}
    try:
        abilities = detect()
        facts |= _facts(abilities)
        _start_guest(paths, abilities, deadline)
    except DayflyError as error:
        return ProbeReport(False, (error.message,), (error.remedy,) if error.remedy else (), facts)
    except OSError as error:
        return ProbeReport(False, (f"this machine does not let dayfly look: {error}",), (), facts)
    return ProbeReport(True, *_shortcomings(abilities), facts)


def _facts(abilities: Abilities) -> dict[str, str]:
    home = abilities.cgroups
    return {
        "runsc": abilities.runsc.version,
        "runsc path": str(abilities.runsc.path),
        "platform": "systrap",
        "user": "a host uid of its own for each sandbox" if abilities.foreign else "a user namespace for each sandbox",
        "cgroup": f"v{home.version}: {', '.join(sorted(home.parents))}" if home else "none",
        "cpus": str(len(abilities.cpus)),
    }


def _shortcomings(abilities: Abilities) -> tuple[tuple[str, ...], tuple[str, ...]]:
    reports = enforcement.report(Limits(), abilities)
    weak = [limit for limit in reports if limit.enforcement is not Enforcement.ENFORCED and limit.name != "cpu_seconds"]
    reasons = tuple(f"the limit {limit.name} is {limit.enforcement.value}: {limit.how}" for limit in weak)
    return reasons, tuple(dict.fromkeys(enforcement.remedy(limit) for limit in weak))


class _GuestPlan(Plan):
    """Runs ``runsc --version`` as the guest: a static program that is surely there, so that no image is needed."""

    def config(self, uid: int | None) -> dict[str, Any]:
        config = super().config(uid)
        return {**config, "process": {**config["process"], "args": [self.spec.image.python, "--version"]}}


def _start_guest(paths: Paths, abilities: Abilities, deadline: float) -> None:
    runsc = abilities.runsc.path
    image = Image("probe", "", "", rootfs=runsc.parent, python=f"/{runsc.name}")
    spec = SandboxSpec(id=secrets.token_hex(16), image=image, limits=Limits(), agent=runsc)
    layout = lay_out(paths.cells, spec, foreign=abilities.foreign)
    started = in_spawner(lambda: begin(_GuestPlan(spec, abilities, layout, ()))).result()
    try:
        child = started.footprint.child
        assert child is not None
        if not child.wait(max(0.0, deadline - time.monotonic())):
            raise failure(-1, "it did not end in time")
        code, _, said = started.footprint.reap()
        if code != 0:
            raise failure(code, last_words(said))
    finally:
        started.abandon()
