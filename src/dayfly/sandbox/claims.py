"""Names that the agent says it has refused by itself: nobody outside has seen that."""

from __future__ import annotations

from dayfly.hosts import LONGEST_NAME
from dayfly.sandbox.accepted import Accepted
from dayfly.sandbox.denials import Denials
from dayfly.spec import Denial
from dayfly.wire.errors import RemoteProtocolError

__all__ = ["MAX_CLAIMS", "note_claims"]

MAX_CLAIMS = 100
"""Names in one report of the agent's."""

MAX_COUNT = 1 << 31
"""Of one name. The sum of all that a run is told stays below 2**53, as far as readers of JSON count exactly."""

ADD_A_RULE = "ask whoever runs this sandbox to add a rule for it, or go without"


def note_claims(denials: Denials, asked: Accepted) -> None:
    """Names that the agent refused by itself. Raises ``RemoteProtocolError``."""
    if len(asked.params["names"]) > MAX_CLAIMS:
        raise RemoteProtocolError("names.refused with too many names")
    for row in asked.params["names"]:
        denials.add(_claimed(row))
    asked.finish({})


def _claimed(row: object) -> Denial:
    """A name that the agent says it refused. Raises ``RemoteProtocolError``."""
    if not isinstance(row, dict) or not isinstance(row.get("host"), str) or type(row.get("count")) is not int:
        raise RemoteProtocolError("names.refused with something that is no name")
    host = ascii(row["host"][:LONGEST_NAME])[1:-1]
    reason = f"{host} is not on this sandbox's list of names"
    return Denial(
        host, None, "not_listed", reason, ADD_A_RULE, claimed=True, count=max(1, min(row["count"], MAX_COUNT))
    )
