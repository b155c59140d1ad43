"""What a sandbox may reach, changed while it lives: in the journal, in its pauses and copies, in its conversation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dayfly.egress.client import Closed
from dayfly.errors import InputError, JournalUnwritable, NoSuchSandbox, SandboxEnded
from dayfly.manager.recorded import MAX_NAMES
from dayfly.network import MOST_RULES, Rule, parse_network
from dayfly.owner import Owner
from dayfly.policy import Policy
from tests.manager.house import House

RULES = (Rule(host="files.example.com"), Rule(host="*.example.org", ports=(443, 8443)))
MANY = tuple(
    Rule(host=f"{number:060}.{'x' * 60}.example.com", ports=tuple(range(1, 65))) for number in range(MOST_RULES)
)


class MemoryWay:
    """In the place of the gateway."""

    def __init__(self) -> None:
        self.rules: dict[str, tuple[Rule, ...]] = {}

    def way(self, owner: Owner) -> MemoryWay:
        return self

    async def admit(self, sandbox: str, rules: tuple[Rule, ...], told: Callable[[Closed], None]) -> None:
        self.rules[sandbox] = rules

    async def withdraw(self, sandbox: str) -> None:
        self.rules.pop(sandbox, None)

    async def close(self) -> None: ...


@pytest.fixture
def way(home: House) -> MemoryWay:
    home.manager._outlet = made = MemoryWay()  # type: ignore[assignment]
    return made


async def test_a_change_is_written_down_before_it_happens(home: House, way: MemoryWay) -> None:
    one = await home.tenants.create("anna", Policy())
    for rules in (RULES, "none"):
        await home.tenants.set_network(one, rules)  # type: ignore[arg-type]
        assert one.policy.network == rules
        assert way.rules == {one.id: () if rules == "none" else rules}
    told = [facts for kind, facts in home.told(one.id) if kind == "network.changed"]
    assert told == [
        {
            "count": 2,
            "rules": [
                {"host": "files.example.com", "ports": [443], "protocol": "tls"},
                {"host": "*.example.org", "ports": [443, 8443], "protocol": "tls"},
            ],
        },
        {"count": 0, "rules": []},
    ]


async def test_as_many_rules_as_there_may_be_have_room_in_an_entry(home: House, way: MemoryWay) -> None:
    one = await home.tenants.create("anna", Policy())
    await home.tenants.set_network(one, parse_network(MANY))
    (facts,) = [facts for kind, facts in home.told(one.id) if kind == "network.changed"]
    assert facts["count"] == MOST_RULES
    assert 0 < len(facts["rules"]) < MOST_RULES
    assert len(str(facts)) < 2 * MAX_NAMES


async def test_what_cannot_be_written_down_does_not_happen(
    home: House, way: MemoryWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await home.tenants.create("anna", Policy())
    monkeypatch.setattr(home.journal, "failure", JournalUnwritable("no room"))
    with pytest.raises(JournalUnwritable):
        await home.tenants.set_network(one, RULES)
    monkeypatch.undo()
    assert (one.policy.network, way.rules) == ("none", {})


async def test_it_goes_on_after_a_pause_with_what_it_could_reach_last(home: House, way: MemoryWay) -> None:
    one = await home.tenants.create("anna", Policy(network=RULES))
    await home.tenants.set_network(one, RULES[:1])
    await home.tenants.pause(one)
    assert (one.policy.network, way.rules) == (RULES[:1], {})
    with pytest.raises(SandboxEnded, match="paused"):
        await home.tenants.set_network(one, RULES)
    await home.tenants.resume(one)
    assert (one.policy.network, way.rules) == (RULES[:1], {one.id: RULES[:1]})


async def test_a_copy_may_reach_what_the_original_may(home: House, way: MemoryWay) -> None:
    one = await home.tenants.create("anna", Policy())
    await home.tenants.set_network(one, RULES)
    (copy,) = await home.tenants.fork(one)
    await home.tenants.set_network(one, "none")
    assert (one.policy.network, copy.policy.network) == ("none", RULES)
    assert way.rules == {one.id: (), copy.id: RULES}


async def test_a_conversation_goes_on_by_the_policy_that_it_was_made_with(home: House, way: MemoryWay) -> None:
    one, _ = await home.tenants.get_or_create("anna", "monday", Policy())
    await home.tenants.set_network(one, RULES)
    for policy in (Policy(), Policy(network=RULES)):
        assert await home.tenants.get_or_create("anna", "monday", policy) == (one, False)
    with pytest.raises(InputError, match="another policy"):
        await home.tenants.get_or_create("anna", "monday", Policy(network=RULES[:1]))


async def test_what_has_ended_reaches_nothing_and_is_not_changed(home: House, way: MemoryWay, tmp_path: Path) -> None:
    one = await home.tenants.create("anna", Policy(network=RULES))
    await home.tenants.end(one)
    with pytest.raises(SandboxEnded):
        await home.tenants.set_network(one, RULES)
    with pytest.raises(NoSuchSandbox):
        await home.manager.set_network(one.id, RULES)
    assert way.rules == {}
