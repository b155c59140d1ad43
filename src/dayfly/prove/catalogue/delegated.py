"""A real name that the operator controls: whoever asks for it, by whichever way, is seen by its own name server."""

from __future__ import annotations

from functools import partial
from typing import Any

from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_SEEN = ("the name server of the operator's own zone",)

_closed = partial(
    Probe, property=Property.DNS, severity=Severity.CRITICAL, place=Place.DELEGATED, seen_by=_SEEN, question=1, source="BT, OSH1169, MSB675", seconds=20.0,
)  # fmt: skip


def _allowed(short: str, title: str, attempt: str, **arguments: Any) -> Probe:
    """With other names allowed, by the gateway that production has."""
    return _closed(
        f"dns.canary.allowed.{short}", title, attempt=attempt, arguments=arguments, place=Place.DELEGATED_NAMED
    )


PROBES = (
    _closed("dns.canary.library", "Resolve a name of the operator's zone", attempt="network.resolved", arguments={"names": ["{canary_name}"]}),
    _closed("dns.canary.server", "Ask that zone's own name server, and this machine's", attempt="network.queried",
            arguments={"servers": "{canary_places}", "name": "{canary_name}"}),
    _allowed("library", "Resolve it where other names are allowed", "doors.looked_up", names=["{canary_name}", "data-in-a-label.{canary_name}"]),
    *(_allowed(door, f"Reach it by {called}", "doors.connected", hosts=["{canary_name}"], port=443, door=door)
      for door, called in (("connect", "CONNECT"), ("socks", "SOCKS5"))),
    _allowed("absolute", "Reach it by the proxy", "doors.fetched", hosts=["{canary_name}"], door="absolute"),
    _allowed("server", "Ask those name servers where other names are allowed", "network.queried", servers="{canary_places}", name="{canary_name}"),
)  # fmt: skip
