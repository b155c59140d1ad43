"""When proofs are made, and who is given nothing for want of one; on a held clock, with a prover that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from dayfly.errors import NotProven
from dayfly.policy import Policy
from dayfly.server.proven import MOST_NAMED, PROOF_MADE, Subject
from dayfly.server.proving import FIRST_PAUSE, LONGEST_PAUSE, LOOK_SECONDS, MOST_KEPT, Proving
from tests.server.proofs.provers import OWN, SMALL, ScriptedProver

HOURS = 1.0
"""Until a green one is made again."""


class Notes:
    """What was written down, and of which subjects it was said that they have changed."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Mapping[str, object], Mapping[str, bytes]]] = []
        self.changed: list[str] = []

    def __call__(
        self, kind: str, tenant: str, facts: Mapping[str, object], contents: Mapping[str, bytes] | None = None
    ) -> None:
        assert tenant == ""
        self.entries.append((kind, facts, contents or {}))

    async def change(self, subject: Subject) -> None:
        self.changed.append(subject.template)


@asynccontextmanager
async def proving(
    prover: ScriptedProver, notes: Notes | None = None, *, required: bool = True
) -> AsyncIterator[Proving]:
    written = notes or Notes()
    made = Proving([OWN, SMALL], prover, required=required, hours=HOURS, wall=lambda: 1.5e9)
    made.start(written, written.change)
    try:
        yield made
    finally:
        await made.close()


async def until(true: Callable[[], bool]) -> None:
    """Looked at every second of the held clock, which stands still while a look is in its thread."""
    async with asyncio.timeout(4 * LONGEST_PAUSE):
        while not true():
            await asyncio.sleep(1)


def now() -> float:
    return asyncio.get_running_loop().time()


async def settled(made: Proving) -> None:
    await until(lambda: all(standing in ("green", "red") for _, standing, _ in made.all()))


def given(made: Proving, policy: Policy = OWN.policy, template: str | None = None) -> bool:
    try:
        made.check(policy, template)
    except NotProven:
        return False
    return True


async def test_nothing_is_given_out_before_it_is_proven_and_everything_after() -> None:
    prover = ScriptedProver()
    prover.may_end.clear()
    async with proving(prover) as made:
        with pytest.raises(NotProven, match="just being proven") as refused:
            made.check(OWN.policy, None)
        assert (refused.value.retryable, refused.value.retry_after) == (True, 15.0)
        assert made.problem() is not None
        await until(lambda: prover.proved == [""])
        assert [standing for _, standing, _ in made.all()] == ["proving", "waiting"], "one at a time"
        prover.may_end.set()
        await settled(made)
        assert prover.proved == ["", "small"]
        assert given(made)
        assert given(made, SMALL.policy, "small")
        assert made.problem() is None


async def test_each_template_waits_for_its_own_proof() -> None:
    prover = ScriptedProver()
    prover.green = {"small": False}
    async with proving(prover) as made:
        await settled(made)
        assert given(made)
        with pytest.raises(NotProven, match="hands out no others") as refused:
            made.check(SMALL.policy, "small")
        assert refused.value.retryable is False
        assert "dayfly prove" in str(refused.value.remedy)
        assert made.problem() is None, "others can be had"
        assert not given(made, SMALL.policy), "an image that is only in what is not proven"


async def test_a_policy_of_a_caller_may_name_images_that_are_proven_and_no_others() -> None:
    prover = ScriptedProver()
    async with proving(prover) as made:
        await settled(made)
        assert given(made, SMALL.policy)
        with pytest.raises(NotProven, match="'mine'"):
            made.check(Policy(image="mine"), None)
        with pytest.raises(NotProven, match="'mine'"):  # of a paused one, whose template is gone
            made.check(Policy(image="mine"), "of before")


async def test_without_a_need_for_them_proofs_are_made_and_keep_nobody_waiting() -> None:
    prover = ScriptedProver()
    prover.green = {"": False}
    async with proving(prover, required=False) as made:
        assert given(made)
        await settled(made)
        assert given(made)
        assert made.problem() is None
        assert prover.proved == ["", "small"]


async def test_what_changes_is_proven_again_and_not_given_out_meanwhile() -> None:
    prover, notes = ScriptedProver(), Notes()
    async with proving(prover, notes) as made:
        await settled(made)
        began = now()
        assert notes.changed == []
        prover.may_end.clear()
        prover.on = {"runsc": "2"}
        await until(lambda: not given(made))
        assert now() - began <= LOOK_SECONDS + 1
        await until(lambda: len(prover.proved) == 3)
        assert not given(made, SMALL.policy, "small"), "also before its own turn has come"
        assert notes.changed == ["", "small"], "spares of before are not what is proven now"
        prover.may_end.set()
        await settled(made)
        assert prover.proved == ["", "small"] * 2
        assert given(made)


async def test_what_changes_while_it_is_proven_is_not_proven() -> None:
    prover = ScriptedProver()
    prover.may_end.clear()
    async with proving(prover) as made:
        await until(lambda: prover.proved == [""])
        prover.on = {"runsc": "2"}
        prover.may_end.set()
        await until(lambda: len(prover.proved) == 2)
        assert not given(made), "the proof was of what there was before"
        await until(lambda: given(made))
        assert prover.proved == ["", "small", ""], "the other one was looked at again before its turn"


async def test_where_nobody_looks_any_more_nothing_is_given_out() -> None:
    """A mistake of this program's own ends the looking."""
    prover = ScriptedProver()
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
    async with proving(prover) as made:
        await settled(made)
        assert given(made)
        prover.on = None  # type: ignore[assignment]
        await until(lambda: not given(made))
        with pytest.raises(NotProven, match="nobody looks any more"):
            made.check(OWN.policy, None)
    assert told == ["no proofs are made any more"]


async def test_one_that_is_not_green_is_made_again_later_and_later() -> None:
    prover = ScriptedProver()
    prover.green = {"": False}
    async with proving(prover) as made:
        times = []
        for number in range(1, 9):
            await until(lambda number=number: prover.proved.count("") == number)  # type: ignore[misc]
            times.append(now())
        pauses = [after - before for before, after in pairwise(times)]
        wanted = [min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) for number in range(len(pauses))]
        assert wanted[-1] == LONGEST_PAUSE
        for least, pause in zip(wanted, pauses, strict=True):
            assert least <= pause <= least + LOOK_SECONDS + 1
        prover.green = {}
        made.ask()
        await until(lambda: given(made))
        assert made.good() == {"": True, "small": True}


async def test_a_green_one_is_made_again_after_its_hours_and_holds_meanwhile() -> None:
    prover = ScriptedProver()
    async with proving(prover) as made:
        await settled(made)
        began = now()
        prover.may_end.clear()
        await until(lambda: len(prover.proved) == 3)
        assert HOURS * 3600 <= now() - began <= HOURS * 3600 + LOOK_SECONDS + 1
        assert [standing for _, standing, _ in made.all()] == ["proving", "green"]
        assert given(made)
        assert made.green_ages()[""] >= HOURS * 3600


async def test_what_cannot_be_found_out_or_carried_out_is_no_proof() -> None:
    prover, notes = ScriptedProver(), Notes()
    prover.on = "no runsc"
    async with proving(prover, notes) as made:
        await settled(made)
        assert prover.proved == []
        assert [facts["failure"] for _, facts, _ in notes.entries] == ["no runsc", "no runsc"]
        assert not given(made)
        prover.on, prover.green = {"runsc": "1"}, {"": "it has died"}
        await until(lambda: given(made, SMALL.policy, "small"))
        assert not given(made)
        last = next(last for subject, _, last in made.all() if subject is OWN)
        assert last is not None
        assert (last.green, last.failure) == (False, "it has died")
        assert made.green_ages().keys() == {"small"}


async def test_each_is_written_down_with_its_whole_report() -> None:
    prover, notes = ScriptedProver(), Notes()
    prover.green = {"small": False}
    async with proving(prover, notes) as made:
        await settled(made)
        assert [kind for kind, _, _ in notes.entries] == [PROOF_MADE] * 2
        (_, own, contents), (_, small, _) = notes.entries
        assert own | {"proof": ""} == {
            "proof": "", "template": None, "green": True, "stands_on": {"runsc": "1", "image": "data"}, "set": "quick",
            "seconds": 18.5, "counts": {"denied": 200, "reached": 14}, "red": [], "reds": 0,
        }  # fmt: skip
        found = made.find(str(own["proof"]))
        assert found is not None
        assert found.proven is not None
        assert contents == {"report": found.proven.report}
        assert (len(small["red"]), small["reds"]) == (MOST_NAMED, 70)  # type: ignore[arg-type]


async def test_a_server_that_is_asked_for_years_keeps_the_last_ones() -> None:
    prover, notes = ScriptedProver(), Notes()
    async with proving(prover, notes) as made:
        for number in range(1, MOST_KEPT // 2 + 2):
            await until(lambda number=number: len(notes.entries) == 2 * number)  # type: ignore[misc]
            made.ask()
        ids = [str(facts["proof"]) for _, facts, _ in notes.entries]
        assert made.find(ids[0]) is None
        assert all(made.find(one) for one in ids[-MOST_KEPT:])


async def test_one_that_is_under_way_ends_with_the_server() -> None:
    prover = ScriptedProver()
    prover.may_end.clear()
    async with proving(prover) as made:
        await until(lambda: prover.proved == [""])
    assert [standing for _, standing, _ in made.all()] == ["waiting", "waiting"]
    await made.close()
