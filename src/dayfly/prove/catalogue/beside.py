"""Another sandbox on the same machine: nothing of it is seen, reached or shared."""

from __future__ import annotations

from functools import partial

from dayfly.prove.neighbour import PORT
from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.CROSS_SANDBOX, severity=Severity.CRITICAL, place=Place.BESIDE, source="MIT")

_seen = partial(_one, seen_by=("a secret of the other's",))

PROBES = (
    _seen("cross-sandbox.tcp", "Reach a server in another sandbox", attempt="network.many_tcp",
         arguments={"places": [[name, PORT] for name in ("127.0.0.1", "127.0.0.2", "localhost", "::1", "0.0.0.0", "{neighbour}")],
                    "token": "{token}", "refused_counts": False}, source="BRIG15, DAY4122"),
    _seen("cross-sandbox.unix", "Reach an abstract socket in another sandbox", attempt="network.unix", arguments={"names": ["@{left}"]}, source="CDK"),
    _seen("cross-sandbox.files", "Find files that another sandbox has left", attempt="neighbour.left", arguments={"nonce": "{left}"}, source="MIT"),
    _seen("cross-sandbox.shared-memory", "Read shared memory of another sandbox", attempt="neighbour.shared", source="DCE"),
    _seen("cross-sandbox.processes", "See processes of another sandbox", attempt="processes.named", arguments={"nonce": "{left}"}, source="AIG"),
    _one("cross-sandbox.locks", "See what another sandbox has locked", attempt="neighbour.locked", source="GVR"),
    _one("cross-sandbox.random", "Draw what another sandbox has drawn", attempt="useful.drawn", seen_by=("what the other one has drawn",),
         source="MIT882, VM08212, FC"),
)  # fmt: skip
