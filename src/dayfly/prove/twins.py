"""Two sandboxes that are restores of one snapshot, as warm spares with a preload are: nothing that is drawn in them may be drawn alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dayfly.client.sandbox import AsyncSandbox
from dayfly.prove.probe import Probe
from dayfly.prove.trials import Outcome, Told
from dayfly.prove.verdict import Claim, Seen, judge

__all__ = ["PRELOADED", "draw_in_both"]

PRELOADED = ("random", "secrets", "ssl", "tempfile", "uuid", "multiprocessing")
"""What their snapshot has loaded: each of them draws, or keeps what was drawn."""

DRAW = """
import json, multiprocessing, os, random, secrets, socket, ssl, sys, tempfile, uuid
numpy = sys.modules.get("numpy")
print(json.dumps({
    "random": random.random(),
    **({"numpy": float(numpy.random.random())} if numpy else {}),
    "temporary name": next(tempfile._get_candidate_names()),
    "openssl": ssl.RAND_bytes(8).hex(),
    "uuid1": str(uuid.uuid1()),
    "uuid4": str(uuid.uuid4()),
    "node of uuid1": uuid.getnode(),
    "authkey": multiprocessing.current_process().authkey.hex(),
    "secrets": secrets.token_hex(8),
    "system": os.urandom(8).hex(),
    "machine id": open("/etc/machine-id").read(),
    "hash": hash("dayfly"),
}))
"""
"""In the kernel that was restored, with what a template has loaded into it. ``hash``: its seed cannot be renewed, so it tells whose snapshot they are."""

LASTING = frozenset({"node of uuid1", "authkey", "machine id", "hash"})
"""The same at every look in one sandbox."""

MOST_SAID = 64 * 1024


async def draw_in_both(one: AsyncSandbox, other: AsyncSandbox, probes: Sequence[Probe], tell: Told) -> list[Outcome]:
    """``probe.arguments["drawn"]`` are keys of what is drawn. What two say alike, the host has seen."""
    first, second, again = [await _drawn(sandbox) for sandbox in (one, other, one)]
    control = _control(first, second, again)
    outcomes = []
    for probe in probes:
        keys = [str(key) for key in probe.arguments["drawn"]]
        alike = tuple(f"both drew the same: {key}" for key in keys if key in first and first[key] == second.get(key))
        claim = Claim(sum(key in first and key in second for key in keys))
        outcomes.append(Outcome(probe, judge(probe, claim, Seen(contacts=alike, control=control))))
        tell(outcomes[-1])
    return outcomes


def _control(first: Mapping[str, Any], second: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """Why what they draw proves nothing."""
    if not first or not second:
        return "one of the two says nothing that can be read"
    if first.get("hash") != second.get("hash"):
        return "the two are no restores of one snapshot"
    stale = [key for key in first if key not in LASTING and first[key] == again.get(key)]
    return f"drawn twice alike in one sandbox: {', '.join(stale)}" if stale else ""


async def _drawn(sandbox: AsyncSandbox) -> dict[str, Any]:
    """What it says: hostile."""
    said = (await sandbox.run_code(DRAW)).stdout
    try:
        found = json.loads(said[:MOST_SAID])
    except (ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}
