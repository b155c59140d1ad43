"""One gateway for all sandboxes: started when it is needed, anew when it is gone, with all rules that count then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dayfly.egress.client import Closed, EgressDenied
from dayfly.errors import HostError, PolicyError
from dayfly.manager import outlet
from dayfly.manager.outlet import MOST_REMEMBERED, RESTART_SECONDS, WITHDRAW_SECONDS
from dayfly.network import ObjectsRule, Rule
from tests.manager.street import ENDED, FakeGateway, Street

RULES = (Rule(host="files.example.com"),)
OTHERS = (Rule(host="api.example.com"),)


def nobody(closed: Closed) -> None:
    raise AssertionError("nobody is to be told")


@pytest.fixture
async def street() -> Street:
    return Street()


async def test_there_is_none_until_one_is_needed_and_one_for_all(street: Street) -> None:
    await street.outlet.withdraw("nobody")
    assert street.starts == []
    assert "off" in repr(street.outlet)
    await asyncio.gather(*(street.outlet.admit(f"{number}", RULES, nobody) for number in range(5)))
    assert len(street.starts) == 1
    assert set(street.all[0].rules) == set("01234")
    assert "up: 5" in repr(street.outlet)
    assert await street.outlet.connect("1", "a", 443) == (street.all[0], "1", "a", 443)


async def test_a_lost_one_is_followed_by_one_that_knows_all_that_live(street: Street) -> None:
    for name in ("one", "two", "three"):
        await street.outlet.admit(name, RULES, lambda closed: None)
    await street.outlet.admit("two", OTHERS, nobody)
    await street.outlet.withdraw("three")
    street.all[0].die()
    assert "lost" in repr(street.outlet)
    found: Any = await street.outlet.connect("one", "files.example.com", 443)
    assert found[0] is street.all[1]
    assert street.all[1].rules == {"one": RULES, "two": OTHERS}
    assert street.all[0].closed
    assert street.starts[1] - street.starts[0] == pytest.approx(RESTART_SECONDS), "no faster than that, and not refused"


async def test_rules_for_objects_need_a_signer(street: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"bucket": "lake", "prefix": "", "endpoint": "https://store.example.com", "credentials": "key"}
    monkeypatch.setattr(outlet, "find_spec", lambda name: None)
    with pytest.raises(PolicyError, match="need botocore"):
        await street.outlet.admit("one", (ObjectsRule(objects=given),), nobody)
    assert street.starts == []
    await street.outlet.admit("one", RULES, nobody)


async def test_one_that_has_lived_is_followed_at_once(street: Street) -> None:
    await street.outlet.admit("one", RULES, nobody)
    await asyncio.sleep(60)
    street.all[0].die()
    now = asyncio.get_running_loop().time()
    await street.outlet.connect("one", "files.example.com", 443)
    assert street.starts[1] == now


async def test_whoever_waits_for_a_start_may_go_and_the_others_get_it(street: Street) -> None:
    street.ready.clear()
    impatient = asyncio.ensure_future(street.outlet.connect("one", "a", 443))
    patient = asyncio.ensure_future(street.outlet.connect("two", "a", 443))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait({impatient})
    street.ready.set()
    found: Any = await patient
    assert found[0] is street.all[0]
    assert impatient.cancelled()
    assert len(street.starts) == 1


async def test_where_none_can_be_started_everybody_is_told_and_it_is_tried_again(street: Street) -> None:
    street.failure = HostError("no descriptors")
    with pytest.raises(HostError, match="no descriptors"):
        await street.outlet.admit("one", RULES, nobody)
    with pytest.raises(EgressDenied) as caught:
        await street.outlet.connect("one", "evil\n" * 100, 443)
    denied = caught.value.denied
    assert (denied.code, denied.port) == ("gateway_gone", 443)
    assert denied.host.isprintable()
    assert (denied.reason[0] + denied.reason[-1], denied.remedy) == ("T.", "Try again in a few seconds.")
    street.failure = None
    await street.outlet.connect("one", "files.example.com", 443)
    assert len(street.starts) == 3
    assert street.starts[2] - street.starts[0] == pytest.approx(2 * RESTART_SECONDS)


async def test_a_change_that_a_dying_gateway_did_not_take_counts_in_the_next(street: Street) -> None:
    """A rule that was taken away must not come back with a new process."""
    await street.outlet.admit("one", RULES, nobody)
    street.all[0].hold.clear()
    changing = asyncio.ensure_future(street.outlet.admit("one", OTHERS, nobody))
    await asyncio.sleep(0)
    street.all[0].die()
    await changing
    assert street.all[1].rules == {"one": OTHERS}


async def test_one_that_the_next_gateway_does_not_take_is_left_out_and_stops_nobody_else(street: Street) -> None:
    for name in ("one", "two", "three"):
        await street.outlet.admit(name, RULES, lambda closed: None)
    street.all[0].die()
    street.refused.add("two")
    for name in ("one", "three"):
        found: Any = await street.outlet.connect(name, "files.example.com", 443)
        assert found[0] is street.all[1]
    with pytest.raises(EgressDenied) as caught:
        await street.outlet.connect("two", "files.example.com", 443)
    assert (caught.value.denied.code, caught.value.denied.host) == ("gateway_gone", "files.example.com")
    assert (caught.value.denied.reason[0] + caught.value.denied.reason[-1], caught.value.denied.remedy) == (
        "T.",
        "Use a new sandbox.",
    )
    assert street.all[1].rules == {"one": RULES, "three": RULES}
    street.refused.clear()
    await street.outlet.admit("two", OTHERS, lambda closed: None)
    found = await street.outlet.connect("two", "api.example.com", 443)
    assert found[0] is street.all[1]
    assert len(street.starts) == 2


@pytest.mark.parametrize("how", ["refused", "cancelled"])
async def test_of_a_change_that_failed_only_what_was_taken_away_counts_later(street: Street, how: str) -> None:
    await street.outlet.admit("one", RULES + OTHERS, lambda closed: None)
    new = (*OTHERS, Rule(host="new.example.com"))
    street.all[0].refuses = how == "refused"
    if how == "cancelled":
        street.all[0].hold.clear()
    changes = [asyncio.ensure_future(street.outlet.admit(name, new, lambda closed: None)) for name in ("one", "two")]
    await asyncio.sleep(1)
    for change in changes:
        change.cancel()
    await asyncio.wait(changes)
    street.all[0].die()
    await street.outlet.connect("one", "api.example.com", 443)
    assert street.all[1].rules == {"one": OTHERS, "two": ()}
    for name in ("one", "two"):
        await street.outlet.withdraw(name)
    assert street.all[1].rules == {}


async def test_who_leaves_while_one_is_started_is_not_known_to_it(street: Street) -> None:
    for name in ("one", "two"):
        await street.outlet.admit(name, RULES, nobody)
    street.all[0].die()
    street.held = True
    connecting = asyncio.ensure_future(street.outlet.connect("one", "a", 443))
    while len(street.all) < 2:
        await asyncio.sleep(0.1)
    await asyncio.gather(street.outlet.withdraw("one"), street.outlet.withdraw("two"))
    joining = asyncio.ensure_future(street.outlet.admit("three", OTHERS, nobody))
    await asyncio.sleep(0)
    street.all[1].hold.set()
    await asyncio.gather(connecting, joining)
    assert street.all[1].rules == {"three": OTHERS}
    assert "1 sandboxes" in repr(street.outlet)


async def test_who_leaves_while_it_is_admitted_is_not_known_afterwards(street: Street) -> None:
    await street.outlet.admit("other", RULES, nobody)
    street.all[0].hold.clear()
    joining = asyncio.ensure_future(street.outlet.admit("one", RULES, lambda closed: None))
    await asyncio.sleep(0)
    leaving = asyncio.ensure_future(street.outlet.withdraw("one"))
    await asyncio.sleep(WITHDRAW_SECONDS + 1)
    assert leaving.done(), "a gateway that does not answer keeps nobody"
    street.all[0].hold.set()
    await joining
    assert street.all[0].rules == {"other": RULES}


async def test_ends_are_told_to_whose_they_are_before_a_withdrawal_is_over(street: Street) -> None:
    told: list[tuple[str, Closed]] = []
    for name in ("one", "two"):
        await street.outlet.admit(name, RULES, lambda closed, name=name: told.append((name, closed)))  # type: ignore[misc]
    await street.outlet.withdraw("one")
    assert told == [("one", ENDED)]
    street.all[0].on_closed("one", ENDED)  # it is nobody's any more
    street.all[0].on_closed("two", ENDED)
    assert told == [("one", ENDED), ("two", ENDED)]


async def test_a_gateway_that_fails_at_once_is_not_left_behind(street: Street) -> None:
    await street.outlet.admit("one", RULES, nobody)
    street.all[0].die()
    street.held = True
    connecting = asyncio.ensure_future(street.outlet.connect("one", "a", 443))
    while len(street.all) < 2:
        await asyncio.sleep(0.1)
    street.all[1].die()
    with pytest.raises(EgressDenied):
        await connecting
    assert street.all[1].closed
    street.held = False
    found: Any = await street.outlet.connect("one", "a", 443)
    assert found[0] is street.all[2]


@pytest.mark.parametrize("when", ["before", "starting", "up"])
async def test_after_its_end_there_is_no_gateway_and_never_one_again(street: Street, when: str) -> None:
    waiting: list[asyncio.Future[None]] = []
    if when != "before":
        if when == "starting":
            street.ready.clear()
        waiting.append(asyncio.ensure_future(street.outlet.admit("one", RULES, nobody)))
        await asyncio.sleep(0.1)
    await street.outlet.close()
    await street.outlet.close()
    for one in await asyncio.gather(*waiting, return_exceptions=True):
        assert one is None if when == "up" else isinstance(one, HostError)
    assert all(one.closed for one in street.all)
    with pytest.raises(HostError):
        await street.outlet.admit("late", RULES, nobody)
    with pytest.raises(EgressDenied):
        await street.outlet.connect("late", "a", 443)
    assert len(street.starts) == (when != "before")


CAPPED = (Rule(host="files.example.com", max_bytes="10KiB"), Rule(host="*.example.com", max_bytes="1MiB"))


def moved(size: int, host: str = "files.example.com") -> Closed:
    return replace(ENDED, host=host, sent=size // 2, received=size - size // 2)


def caps(gateway: FakeGateway) -> list[int | None]:
    return [rule.max_bytes for rule in gateway.rules["one"]]


async def test_what_was_used_up_does_not_come_back_with_a_new_gateway(street: Street) -> None:
    await street.outlet.admit("one", CAPPED, lambda closed: None)
    for size, host in ((3 << 10, "files.example.com"), (1 << 10, "files.example.com"), (100, "other.example.com")):
        street.all[0].on_closed("one", moved(size, host))
    await street.outlet.admit("one", CAPPED, lambda closed: None)
    assert caps(street.all[0]) == [10 << 10, 1 << 20], "this one counts itself"
    for left in (6 << 10, 3 << 10, 1 << 10, 1 << 10):
        street.all[-1].die()
        await street.outlet.connect("one", "files.example.com", 443)
        assert caps(street.all[-1]) == [left, (1 << 20) - 100]
        street.all[-1].on_closed("one", moved(3 << 10))


async def test_nor_with_a_pause(street: Street) -> None:
    await street.outlet.admit("one", CAPPED, lambda closed: None)
    street.all[0].on_closed("one", moved(4 << 10))
    await street.outlet.withdraw("one")  # ends one that moved 30 bytes
    await street.outlet.admit("one", CAPPED, lambda closed: None)
    assert caps(street.all[0]) == [(6 << 10) - 30, 1 << 20]
    street.all[0].on_closed("one", moved(1 << 10))
    street.all[0].die()
    await street.outlet.connect("one", "files.example.com", 443)
    assert caps(street.all[1]) == [(5 << 10) - 30, 1 << 20]


async def test_of_those_that_are_gone_a_bounded_number_is_remembered(street: Street) -> None:
    for number in range(3):
        await street.outlet.admit(f"{number}", RULES, lambda closed: None)
        await street.outlet.withdraw(f"{number}")
    assert not street.outlet._past, "nothing is capped"
    for number in range(MOST_REMEMBERED + 5):
        await street.outlet.admit(f"{number}", CAPPED, lambda closed: None)
        await street.outlet.withdraw(f"{number}")
    assert len(street.outlet._past) == MOST_REMEMBERED
