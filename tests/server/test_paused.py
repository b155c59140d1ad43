"""What a server remembers of paused sandboxes, for the next one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from dayfly.manager import Paused
from dayfly.manager.paused import KeptFor
from dayfly.manager.sealing import Sealed
from dayfly.policy import DataMount, Policy
from dayfly.server.paused import PausedRecords


def paused(place: Path, policy: Policy) -> Paused:
    sealed = Sealed(place / "elsewhere" / "x.sealed", 7, "6b" * 32)
    return Paused(
        "a" * 32, KeptFor("anna"), policy, "sha256:0", place / "agent", sealed, 9.0, 1.0, 2.0, 3.0, 4, ("python",), ()
    )


def test_a_record_comes_back_whole_wherever_its_memory_lies_by_now(place: Path) -> None:
    data = place / "data"
    data.mkdir()
    one = paused(place, Policy(image="python", mounts=(DataMount(source=data, target="/data"),)))
    PausedRecords(place / "state.db", place / "elsewhere").put(one)
    (found,) = PausedRecords(place / "state.db", place / "here").all()
    assert (found.id, found.owner, found.policy, found.sealed.key) == (one.id, one.owner, one.policy, one.sealed.key)
    assert found.sealed.file == place / "here" / "x.sealed"


def test_a_record_is_kept_while_its_data_is_not_there(place: Path) -> None:
    data = place / "data"
    data.mkdir()
    records = PausedRecords(place / "state.db", place)
    records.put(paused(place, Policy(mounts=(DataMount(source=data, target="/data"),))))
    data.rmdir()
    for _ in range(2):
        (found,) = records.all()
        assert found.policy.mounts[0].source == data


def test_a_record_that_is_none_is_forgotten_and_the_others_are_there(place: Path) -> None:
    records = PausedRecords(place / "state.db", place)
    records.put(paused(place, Policy()))
    with closing(sqlite3.connect(place / "state.db", isolation_level=None)) as state:
        state.execute("INSERT INTO paused (id, record) VALUES ('b', '{}')")
    for left in (2, 1):
        with closing(sqlite3.connect(place / "state.db")) as state:
            assert state.execute("SELECT count(*) FROM paused").fetchone() == (left,)
        assert [one.id for one in records.all()] == ["a" * 32]
