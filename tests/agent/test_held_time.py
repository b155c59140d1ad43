"""Between Quiesced and Resume the agent's time stands still, however long a snapshot lay on a disk."""

from __future__ import annotations

import signal
import time

from dayfly.agent.loop import Loop


def test_no_timer_is_served_while_time_is_held_and_all_are_later_by_that(loop: Loop) -> None:
    served: list[str] = []
    begun = time.monotonic()
    loop.hold_timers()
    due = loop.call_at(begun - 1, lambda: served.append("due"))
    later = loop.call_at(begun + 1000, lambda: served.append("later"))
    loop.call_soon(lambda: served.append("soon"))
    loop.step()
    loop.call_soon(lambda: None)
    loop.step()
    assert served == ["soon"]
    loop._held_since = begun - 500  # as after a restore: the clock includes the time on disk
    loop.release_timers()
    passed = time.monotonic() - begun + 500
    assert begun + 499 <= due.due <= begun - 1 + passed
    assert begun + 1500 <= later.due <= begun + 1000 + passed


def test_a_timer_that_was_due_is_served_once_time_goes_on(loop: Loop) -> None:
    served: list[str] = []
    loop.hold_timers()
    loop.call_later(0, lambda: served.append("due"))
    loop.release_timers()
    loop.release_timers()  # the second does nothing
    while not served:  # it is due now, to within a tick of the poll
        loop.step()
    assert served == ["due"]


def test_a_clock_that_went_back_brings_no_timer_forward(loop: Loop) -> None:
    loop.hold_timers()
    loop._held_since = time.monotonic() + 100
    timer = loop.call_later(10, lambda: None)
    due = timer.due
    loop.release_timers()
    assert timer.due == due


def test_after_a_restore_the_alarm_is_set_anew(loop: Loop) -> None:
    """The process that goes on may be another one, in which none is set."""
    rung: list[str] = []
    loop.call_later(0.001, lambda: rung.append("due"))
    loop.call_soon(lambda: None)
    loop.step()
    signal.setitimer(signal.ITIMER_REAL, 0)
    loop.hold_timers()
    loop.release_timers()
    while not rung:
        loop.step()
