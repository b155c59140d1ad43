"""One proof of a target, where the judge is: in the box, or on this machine."""

from __future__ import annotations

import datetime
import secrets
import socket
import time
from collections.abc import Callable, Sequence

from dayfly.prove.bait import bait
from dayfly.prove.conditions import machine
from dayfly.prove.probe import Probe
from dayfly.prove.proof import Condition, Proof, Row, Subject, row_of
from dayfly.prove.targets.scene import View
from dayfly.prove.targets.target import Place, Target
from dayfly.prove.targets.trial import Trial, version_of
from dayfly.prove.targets.wire import Wire

__all__ = ["VARIABLE", "judged"]

VARIABLE = "DEPLOY_TOKEN"
"""In the environment of whoever starts the target: what a host process has lying about."""

PLACES = {
    Place.BOX: "an ordinary user of a disposable machine of namespaces; packets out of it are heard",
    Place.HERE: "this machine; its loopback is watched",
    Place.ELSEWHERE: "another machine; nothing is seen, all is claimed",
}


async def judged(
    target: Target, probes: Sequence[Probe], hearing: socket.socket | None, tell: Callable[[Row], None]
) -> Proof:
    """Never raises for what the target does. ``hearing``: a packet socket at the other end of the box's link."""
    begun, at = time.monotonic(), datetime.datetime.now(datetime.UTC)
    value = secrets.token_hex(16)
    async with bait() as prey:
        prey.marks["secret_reversed"] = value[::-1]
        prey.secrets["the host's variable"] = value
        view = View(target.place, prey, Wire(hearing) if hearing else None)
        trial = Trial(target, view, lambda outcome: tell(row_of(outcome)), {VARIABLE: value})
        outcomes = await trial.carry_out(probes)
    return Proof(
        at=at,
        seconds=round(time.monotonic() - begun, 1),
        set="quick",
        image="",
        policy_digest="",
        conditions=(Condition(name="where", value=PLACES[target.place]), *machine()),
        limits=(),
        rows=tuple(row_of(outcome) for outcome in outcomes),
        target=Subject(
            name=target.name,
            version=await version_of(target),
            configured=target.configured,
            source=target.source,
            place=target.place.value,
        ),
    )
