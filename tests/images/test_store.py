"""The store: an image is there whole or not at all, names point to it, and what is used stays."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from dayfly.errors import HostError, ImageNotFound, InputError
from dayfly.images import Store
from dayfly.paths import Paths

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Paths(tmp_path / "data", tmp_path / "run"))


def put(store: Store, digest: str, *names: str) -> None:
    """A small stand-in for a built image."""
    record = {"name": "x", "architecture": "amd64", "python": "/usr/bin/python3", "python_version": "3.11",
              "languages": ["python"], "environment": {"A": "b"}, "size": 1, "created": "2026-01-01", "packages": 1}  # fmt: skip
    with store.workspace() as work:
        (work / "rootfs").mkdir()
        (work / "image.json").write_text(json.dumps(record))
        (work / "contents.json").write_text(
            json.dumps([{"name": "six", "version": "1", "kind": "wheel", "licence": "MIT"}])
        )
        (work / "lock.json").write_text(json.dumps({"wheels": []}))
        store.adopt(work, digest)
    for name in names:
        store.name(name, digest)


def entries(store: Store) -> set[str]:
    return {path.name for path in store.directory.iterdir() if path.is_dir()}


def test_nothing_is_created_by_asking(store: Store) -> None:
    assert store.list() == ()
    with pytest.raises(ImageNotFound):
        store.resolve("data")
    assert not store.directory.exists()


def test_an_image_is_found_by_name_digest_and_beginning_of_a_digest(store: Store) -> None:
    put(store, ONE, "mine")
    image = store.resolve("mine")
    assert (image.name, image.digest, image.python_version) == ("mine", ONE, "3.11")
    assert image.environment == {"A": "b"}
    assert image.rootfs.is_dir()
    assert store.resolve(ONE).rootfs == store.resolve("1" * 12).rootfs == image.rootfs
    assert [package.name for package in store.contents("mine")] == ["six"]
    assert store.lock("mine") == {"wheels": []}


def test_an_image_that_is_not_built_says_how_to_build_it(store: Store) -> None:
    with pytest.raises(ImageNotFound, match="dayfly images build data"):
        store.resolve("data")
    put(store, ONE, "mine")
    with pytest.raises(ImageNotFound, match="built are: mine"):
        store.resolve("other")


@pytest.mark.parametrize(
    "name", ["", "..", "../names/mine", "/etc", "A", "1" * 11, "1" * 65, "sha256:", "x" * 65, "a\0"]
)
def test_what_is_no_name_is_never_looked_up_as_a_path(store: Store, name: str) -> None:
    put(store, ONE, "mine")
    with pytest.raises(ImageNotFound):
        store.resolve(name)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "f" * 12, "sha256:" + "1" * 64])
def test_names_that_could_be_taken_for_digests_or_paths_are_refused(store: Store, name: str) -> None:
    put(store, ONE)
    with pytest.raises(InputError):
        store.name(name, ONE)


def test_an_ambiguous_beginning_of_a_digest_is_not_resolved(store: Store) -> None:
    put(store, "sha256:" + "1" * 63 + "a")
    put(store, "sha256:" + "1" * 63 + "b")
    with pytest.raises(ImageNotFound):
        store.resolve("1" * 12)


def test_a_name_moves_and_the_older_image_is_pruned(store: Store) -> None:
    put(store, ONE, "mine")
    put(store, TWO, "mine")
    assert store.resolve("mine").digest == TWO
    assert {info.image.digest: info.names for info in store.list()} == {ONE: (), TWO: ("mine",)}
    assert store.prune() == (ONE,)
    assert [info.image.digest for info in store.list()] == [TWO]


def test_removing_one_of_two_names_keeps_the_image(store: Store) -> None:
    put(store, ONE, "a", "b")
    store.remove("a")
    assert store.resolve("b").digest == ONE
    store.remove("b")
    assert entries(store) == {"names"}
    with pytest.raises(ImageNotFound):
        store.remove("b")


def test_an_image_in_use_is_neither_removed_nor_pruned(store: Store) -> None:
    put(store, ONE, "mine")
    with store.lease(store.resolve("mine")), store.lease(store.resolve("mine")):
        with pytest.raises(HostError, match="in use"):
            store.remove("mine")
        assert store.resolve("mine").rootfs.is_dir()
        put(store, TWO, "mine")
        assert store.prune() == ()
    assert store.prune() == (ONE,)


def test_a_removed_image_cannot_be_leased(store: Store) -> None:
    put(store, ONE, "mine")
    image = store.resolve("mine")
    store.remove("mine")
    with pytest.raises(ImageNotFound):
        store.lease(image)


def test_a_lease_ends_with_the_process_that_holds_it(store: Store) -> None:
    put(store, ONE, "mine")
    child, here = _in_child(_hold_lease, store)
    assert here.recv() == "held"
    with pytest.raises(HostError, match="in use"):
        store.remove("mine")
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    store.remove("mine")


def test_a_failed_build_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.workspace() as work:
            (work / "rootfs").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert entries(store) == set()


def test_the_next_build_clears_what_a_killed_one_left_and_not_what_a_live_one_holds(store: Store) -> None:
    dead, from_dead = _in_child(_hold_workspace, store)
    live, from_live = _in_child(_hold_workspace, store)
    left, held = from_dead.recv(), from_live.recv()
    assert dead.pid is not None
    os.kill(dead.pid, signal.SIGKILL)
    dead.join()
    with store.workspace() as mine:
        assert entries(store) == {held, mine.name}
        assert left not in entries(store)
    from_live.send("done")
    live.join()
    assert entries(store) == set()


def test_a_damaged_image_names_its_remedy(store: Store) -> None:
    put(store, ONE, "mine")
    (store.directory / ("1" * 64) / "image.json").write_text("{")
    with pytest.raises(HostError, match=r"damaged.*dayfly images rm"):
        store.resolve("mine")
    store.remove("mine")
    assert store.list() == ()


@pytest.mark.parametrize("record", [None, "{", "[]", "{}", '{"name": "x"}', "null", "\xff"])
def test_a_damaged_image_is_listed_as_that_among_the_others(store: Store, record: str | None) -> None:
    put(store, ONE, "good")
    put(store, TWO, "bad")
    path = store.directory / ("2" * 64) / "image.json"
    path.unlink() if record is None else path.write_bytes(record.encode("latin-1"))
    bad, good = store.list()
    assert (bad.names, bad.image.name, bad.image.digest, bad.damaged, bad.created) == (
        ("bad",), "bad", TWO, True, "damaged",
    )  # fmt: skip
    assert (good.names, good.damaged) == (("good",), False)
    with pytest.raises(HostError, match="damaged"):
        store.resolve("bad")


def test_a_workspace_that_another_removes_at_that_moment_is_no_obstacle(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing and adopting happen outside of the store's lock: what was listed may be gone."""
    put(store, ONE)
    find = Path.glob

    def stale(self: Path, pattern: str) -> list[Path]:
        return [*find(self, pattern), self / ".build-gone"]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", stale)
        with store.workspace() as work:
            assert work.is_dir()
    assert entries(store) == {"1" * 64}


def _in_child(target: object, store: Store) -> tuple[multiprocessing.Process, Connection]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=target, args=(store, there), daemon=True)  # type: ignore[arg-type]
    child.start()
    return child, here  # type: ignore[return-value]


def _hold_lease(store: Store, pipe: Connection) -> None:
    with store.lease(store.resolve("mine")):
        pipe.send("held")
        pipe.recv()


def _hold_workspace(store: Store, pipe: Connection) -> None:
    with store.workspace() as work:
        pipe.send(work.name)
        pipe.recv()
