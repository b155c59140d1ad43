"""When a sandbox must end is a pure function of the clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dayfly.limits import Limits
from dayfly.sandbox.deadlines import PING_SECONDS, SILENCE_SECONDS, STARVED_SILENCE_SECONDS, Deadlines
from dayfly.spec import EndReason

LIMITS = Limits(lifetime_seconds=100, idle_seconds=10)


def at(now: float, *, last_call: float = 0, calls: int = 0, heard: float = 0, starved: bool = False):
    return Deadlines(LIMITS, opened=0, last_call=last_call, calls=calls).due(now, last_heard=heard, starved=starved)


def test_a_sandbox_without_calls_ends_when_it_has_been_idle_for_its_time() -> None:
    assert at(9.9).end is None
    assert at(10).end is EndReason.IDLE_TIMEOUT


def test_a_call_under_way_keeps_it_from_being_idle() -> None:
    assert at(50, calls=1, heard=50).end is None


def test_its_lifetime_ends_it_whatever_it_does() -> None:
    assert at(100, calls=1, heard=100).end is EndReason.MAX_LIFETIME
    assert at(100, last_call=99.9).end is EndReason.MAX_LIFETIME


def test_a_silent_agent_is_asked_and_then_given_up() -> None:
    assert at(PING_SECONDS, calls=1).ping
    assert at(SILENCE_SECONDS, calls=1).end is EndReason.UNRESPONSIVE


def test_a_starved_agent_gets_more_patience_but_not_for_ever() -> None:
    assert at(SILENCE_SECONDS + 1, calls=1, starved=True).end is None
    assert at(STARVED_SILENCE_SECONDS, calls=1, starved=True).end is EndReason.UNRESPONSIVE


def test_silence_counts_only_while_something_is_asked() -> None:
    assert at(9, calls=0, heard=0).end is None


@given(
    now=st.floats(0, 200),
    last_call=st.floats(0, 200),
    calls=st.integers(0, 3),
    heard=st.floats(0, 200),
    starved=st.booleans(),
)
def test_either_it_ends_or_it_looks_again_later(
    now: float, last_call: float, calls: int, heard: float, starved: bool
) -> None:
    last_call, heard = min(last_call, now), min(heard, now)
    due = at(now, last_call=last_call, calls=calls, heard=heard, starved=starved)
    assert due.end is not None or due.look_again > now
