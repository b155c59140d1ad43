"""The judge. Pure: what code inside says is a claim, and counts only against itself; what the host saw decides.

Law: what proves nothing is INCONCLUSIVE, and inconclusive is not green.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dayfly.prove.probe import Expected, Probe

__all__ = ["Basis", "Claim", "Judgement", "Seen", "Verdict", "judge", "read_claim"]

MOST_REACHED = 20
"""Things that a claim may list, of which each has at most ``MOST_TEXT`` characters: more is not worth a page."""

MOST_TEXT = 200

MOST_TRIED = 1_000_000
"""Ways that a claim may count: files of an image are some ten thousand."""


class Verdict(StrEnum):
    DENIED = "denied"
    REACHED = "reached"
    INCONCLUSIVE = "inconclusive"


class Basis(StrEnum):
    """Whose word a verdict rests on."""

    SEEN = "seen"  # the host saw it, or would have
    CLAIMED = "claimed"  # what the probe's program says


@dataclass(frozen=True)
class Claim:
    """What the probe's program says. ``tried``: how many ways; ``failed``: why it could not try; ``told``: more for a person, of what the host
    has measured itself."""

    tried: int = 0
    reached: tuple[str, ...] = ()
    failed: str = ""
    told: str = ""


@dataclass(frozen=True)
class Seen:
    """What the host saw of one attempt. ``contacts``: what came to it that was not to come. ``leaked``: marks of the host in what came
    out. ``control``: why the controls around it prove nothing; empty where all of them were as they must be. ``watched``: whether the host
    would have seen it; ``None``: as the probe's ``seen_by`` says."""

    contacts: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    control: str = ""
    watched: bool | None = None


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    why: str
    green: bool
    basis: Basis = Basis.CLAIMED


def read_claim(row: object) -> Claim | None:
    """From a line of JSON, which is hostile. ``None``: it is none."""
    if not isinstance(row, Mapping):
        return None
    tried, reached, failed = row.get("tried"), row.get("reached"), row.get("failed", "")
    if isinstance(failed, str) and failed:
        return Claim(failed=_short(failed))
    if isinstance(tried, bool) or not isinstance(tried, int) or not isinstance(reached, list):
        return None
    return Claim(max(0, min(tried, MOST_TRIED)), tuple(_short(item) for item in reached[:MOST_REACHED]))


def judge(probe: Probe, claim: Claim | None, seen: Seen) -> Judgement:
    """The first that applies: the host saw it, its program says that it got through, the controls are dead, it has tried nothing.

    Of what must work, the host must have seen it, where it can."""
    if probe.expected is Expected.ALLOWED:
        verdict, why = _worked(probe, claim, seen)
        return Judgement(verdict, why, verdict is Verdict.REACHED, _basis(probe, verdict, seen))
    verdict, why = _verdict(claim, seen)
    return Judgement(verdict, why, verdict is Verdict.DENIED, _basis(probe, verdict, seen))


def _basis(probe: Probe, verdict: Verdict, seen: Seen) -> Basis:
    """What was denied was seen where the host would have seen the contrary; what proves nothing was seen by nobody."""
    watched = bool(probe.seen_by) if seen.watched is None else seen.watched
    if verdict is Verdict.REACHED:
        return Basis.SEEN if seen.contacts or seen.leaked else Basis.CLAIMED
    return Basis.SEEN if verdict is Verdict.DENIED and watched else Basis.CLAIMED


def _worked(probe: Probe, claim: Claim | None, seen: Seen) -> tuple[Verdict, str]:
    verdict, why = _verdict(claim, Seen(control=seen.control))
    if verdict is not Verdict.REACHED or not probe.seen_by:
        return verdict, why
    if not seen.contacts:
        return Verdict.INCONCLUSIVE, "it says that it got through, and the host saw nobody"
    return verdict, f"the host saw: {'; '.join(seen.contacts)}"


def _verdict(claim: Claim | None, seen: Seen) -> tuple[Verdict, str]:
    if seen.contacts:
        return Verdict.REACHED, f"the host saw: {'; '.join(seen.contacts)}"
    if seen.leaked:
        return Verdict.REACHED, f"in its output: {'; '.join(seen.leaked)}"
    if claim is not None and claim.reached:
        return Verdict.REACHED, "; ".join(claim.reached)
    if seen.control:
        return Verdict.INCONCLUSIVE, f"a control failed: {seen.control}"
    if claim is None:
        return Verdict.INCONCLUSIVE, "its program said nothing that can be read"
    if claim.failed:
        return Verdict.INCONCLUSIVE, claim.failed
    if not claim.tried:
        return Verdict.INCONCLUSIVE, f"nothing was tried {claim.told}".strip()
    return Verdict.DENIED, claim.told or f"{claim.tried} ways tried"


def _short(item: Any) -> str:
    """Text that can be written anywhere: half of a surrogate pair is none."""
    try:
        text = str(item)
    except RecursionError:  # what could just be read may be too deep to be written
        text = "nested too deep"
    return text[:MOST_TEXT].encode("utf-8", "replace").decode("utf-8")
