"""The server's API: another tenant's sandbox is as good as none, and nonsense is refused as what it is."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(
    Probe, property=Property.API, severity=Severity.CRITICAL, place=Place.SERVED, seen_by=("the server's answers",)
)

PROBES = (
    _one("api.conversation", "Ask for another tenant's conversation", attempt="conversation", question=4, source="ACA, DF2539"),
    _one("api.others", "Use another tenant's sandbox, by its id, in every way", attempt="others", question=4, source="OSB423, DAY5147"),
    _one("api.listing", "See another tenant's sandboxes in listings", attempt="listing", question=4, source="CEZ426"),
    _one("api.unknown", "Call without a key, or with a wrong one", attempt="unknown", source="OSB750, LF"),
    _one("api.scope", "Do more than a key may", attempt="more_than_given", severity=Severity.HIGH, source="CRAB1026"),
    _one("api.paths", "Read files of the server through a sandbox's", attempt="paths", source="HARB, LLS147"),
    _one("api.links", "Read files of the server through links inside", attempt="links", source="HARB, MSB4VQ3"),
    _one("api.ids", "Guess ids of sandboxes", attempt="ids", severity=Severity.HIGH, source="DECO5846, LEO728"),
    _one("api.journal", "Edit the journal unnoticed", attempt="journal", severity=Severity.HIGH, seen_by=("the journal's own audit",), source="OSH"),
    _one("api.mounts", "Ask for a policy that callers may not have", attempt="mounts", source="OSB750"),
    _one("api.nonsense", "Send what is no request", attempt="nonsense", severity=Severity.HIGH, source="RFC9112"),
    _one("api.page", "Call from a web page, or by another name", attempt="page", severity=Severity.HIGH, source="DBH304"),
    _one("api.guessing", "Guess keys", attempt="guessing", severity=Severity.HIGH, source="KCR"),
)  # fmt: skip
