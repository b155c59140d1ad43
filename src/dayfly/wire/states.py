"""The states of a connection and the steps between them, as data: the machine obeys it, tests walk it, docs draw it."""

from __future__ import annotations

from dayfly.wire.messages import AGENT, BY_CLASS, HOST, Hello, Message, Quiesce, Quiesced, Resume, Welcome

START = "start"  # nothing said yet
GREETING = "greeting"  # Hello said or heard, Welcome is to come (the host may open channels meanwhile)
LIVE = "live"
QUIESCING = "quiescing"  # Quiesce said or heard; Quiesced is still to come
QUIESCED = "quiesced"  # no byte is under way in either direction
DETACHED = "detached"  # the stream is gone; Resume on another one continues
RESUMING = "resuming"  # one Resume said, the other is to come
CLOSED = "closed"

STATES = (START, GREETING, LIVE, QUIESCING, QUIESCED, DETACHED, RESUMING, CLOSED)

SENT = "sent"
RECEIVED = "received"

# (role, state, message, sent or received) -> next state.
TRANSITIONS: dict[tuple[str, str, type[Message], str], str] = {
    (HOST, START, Hello, SENT): GREETING,
    (HOST, GREETING, Welcome, RECEIVED): LIVE,
    (HOST, LIVE, Quiesce, SENT): QUIESCING,
    (HOST, QUIESCING, Quiesced, RECEIVED): QUIESCED,
    (HOST, QUIESCED, Resume, SENT): RESUMING,
    (HOST, DETACHED, Resume, SENT): RESUMING,
    (HOST, RESUMING, Resume, RECEIVED): LIVE,
    (AGENT, START, Hello, RECEIVED): GREETING,
    (AGENT, GREETING, Welcome, SENT): LIVE,
    (AGENT, LIVE, Quiesce, RECEIVED): QUIESCING,
    (AGENT, QUIESCING, Quiesced, SENT): QUIESCED,
    (AGENT, QUIESCED, Resume, RECEIVED): RESUMING,
    (AGENT, DETACHED, Resume, RECEIVED): RESUMING,
    (AGENT, RESUMING, Resume, SENT): LIVE,
}

STEPS = frozenset(key[2] for key in TRANSITIONS)
"""Messages that only make sense as a step from one state to another."""

# States in which all the other messages may be sent or received.
ORDINARY: dict[tuple[str, str], frozenset[str]] = {
    (HOST, SENT): frozenset({GREETING, LIVE}),
    (HOST, RECEIVED): frozenset({LIVE, QUIESCING}),
    (AGENT, SENT): frozenset({LIVE, QUIESCING}),
    (AGENT, RECEIVED): frozenset({GREETING, LIVE}),
}

RESUMABLE = frozenset({LIVE, QUIESCING, QUIESCED, DETACHED, RESUMING})
"""States that a cut stream leaves for DETACHED. Before LIVE there is nothing worth a resume. A cut during QUIESCING
cancels the quiesce: after the resume both sides are LIVE."""


def _rules(role: str, way: str) -> dict[tuple[str, type[Message]], str]:
    found = {(state, cls): state for state in ORDINARY[role, way] for cls in BY_CLASS if cls not in STEPS}
    for (whose, state, cls, which), following in TRANSITIONS.items():
        if (whose, which) == (role, way):
            found[state, cls] = following
    return found


RULES = {(role, way): _rules(role, way) for role in (HOST, AGENT) for way in (SENT, RECEIVED)}
"""For each role and way: (state, message) -> next state. What is not in here is refused."""
