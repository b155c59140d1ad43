"""A save over an agent that lies or falls silent, and a store that is only a connection in memory: bounded, counted, and told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from dayfly.errors import FileProblem, SandboxFileError, StoreFailed
from dayfly.manager import outputs
from dayfly.manager.outlet import Outlet
from dayfly.manager.outputs import LAST_SECONDS, OUTPUT_SECONDS, Saving
from dayfly.manager.recorded import RecordedLife
from dayfly.network import ObjectsRule
from dayfly.owner import NOBODY
from dayfly.policy import Policy
from dayfly.saved import LeftOut
from dayfly.spec import FileInfo, FileKind

PLACE = {"bucket": "lake", "prefix": "out/", "endpoint": "https://s3.example.com", "credentials": "key"}


class Store:
    """The gateway's and the store's side: takes what is put, whole or not at all."""

    def __init__(self, status: int = 200) -> None:
        self.kept: dict[str, bytes] = {}
        self.status = status
        self.admitted: dict[str, ObjectsRule] = {}
        self.most = 0
        self.open = 0

    async def admit(self, guest: str, rules: tuple[ObjectsRule, ...], told: Any, owner: Any) -> None:
        (self.admitted[guest],) = rules

    async def withdraw(self, guest: str) -> None:
        self.admitted.pop(guest)

    async def connect(self, guest: str, host: str, port: int, early: bytes = b"") -> Connection:
        assert guest in self.admitted
        assert (host, port) == ("objects.dayfly.internal", 80)
        self.open += 1
        self.most = max(self.most, self.open)
        return Connection(self)


class Connection:
    """One ``PUT`` after another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._said = b""

    async def write(self, data: bytes) -> None:
        self._said += data

    async def read(self, limit: int) -> bytes:
        head, _, body = self._said.partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        length = next(int(one.partition(":")[2]) for one in fields if one.lower().startswith("content-length"))
        assert len(body) == length
        self._said = b""
        if self._store.status == 200:
            self._store.kept[line.split(" ")[1]] = body
        return b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % self._store.status

    def close(self) -> None:
        self._store.open -= 1


class Inside:
    """A life whose directory has these files: by name what is said of its size, and the pieces that are read of it."""

    id = "a" * 32
    owner = NOBODY

    def __init__(self, files: dict[str, tuple[int, Any]], **output: Any) -> None:
        self.policy = Policy(outputs=[{**PLACE, **output}])
        self.files = files
        self.told: list[dict[str, Any]] = []
        self.unsaved: str | None = None
        self.last_act: Callable[[], Any] | None = None

    def copying(self, news: object) -> None: ...

    def tell_saved(self, facts: dict[str, Any]) -> None:
        self.told.append(facts)

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return FileInfo(path, path, FileKind.DIRECTORY, 0, 0o755, 0.0)

    async def list_files(self, path: str, *, after: str | None = None) -> tuple[list[FileInfo], bool]:
        rows = [FileInfo(name, name, FileKind.FILE, size, 0o644, 0.0) for name, (size, _) in sorted(self.files.items())]
        return rows, False

    async def read_raw(self, path: str, length: int) -> AsyncIterator[bytes]:
        _, content = self.files[path.rpartition("/")[2]]
        if isinstance(content, Exception):
            raise content
        for piece in content:
            if piece is None:
                await asyncio.Event().wait()
            yield piece


def saving(inside: Inside, store: Store) -> Saving:
    return Saving(cast(RecordedLife, cast(Any, inside)), cast(Outlet, cast(Any, store)))


async def test_what_is_there_is_kept_and_counted() -> None:
    inside, store = Inside({"a": (1, [b"x"]), "b": (4, [b"12", b"34"]), "c": (0, [])}), Store()
    saved = await saving(inside, store).on_demand()
    assert store.kept == {"/lake/out/a": b"x", "/lake/out/b": b"1234", "/lake/out/c": b""}
    assert (saved.keys, saved.size, saved.left_out) == (("out/a", "out/b", "out/c"), 5, ())
    assert (store.admitted, store.open) == ({}, 0)
    (told,) = inside.told
    assert (told["objects"], told["bytes"], told["problem"]) == (3, 5, None)
    assert told["outputs"][0]["credentials"] == "key"


async def test_an_agent_that_says_other_lengths_is_not_believed() -> None:
    small = {"short": (5, [b"abc"]), "long": (3, [b"abc", b"def"]), "longer": (3, [b"abcd"]), "fine": (3, [b"abc"])}
    store = Store()
    saved = await saving(Inside(small), store).on_demand()
    assert saved.keys == ("out/fine",)
    assert list(store.kept) == ["/lake/out/fine"]
    assert {one.path for one in saved.left_out} == {"outputs/short", "outputs/long", "outputs/longer"}
    assert {one.reason for one in saved.left_out} == {"has changed while it was read"}


async def test_a_large_file_that_shrinks_is_no_object() -> None:
    size = outputs.IN_MEMORY + 5
    store = Store()
    saved = await saving(Inside({"a": (size, [bytes(100)]), "b": (size, [bytes(size)])}), store).on_demand()
    assert (saved.keys, saved.size) == (("out/b",), size)
    assert list(store.kept) == ["/lake/out/b"]
    assert saved.left_out == (LeftOut("outputs/a", "has changed while it was read"),)


async def test_sizes_that_an_agent_makes_up_move_no_more_than_there_may_be() -> None:
    files = {"a": (1 << 60, [b"x"]), "b": (3000, [bytes(3000)]), "c": (3000, [bytes(3000)]), "d": (1000, [bytes(1000)])}
    store = Store()
    saved = await saving(Inside(files, max_bytes="6KiB"), store).on_demand()
    assert saved.keys == ("out/b", "out/d")
    assert [one.path for one in saved.left_out] == ["outputs/a", "outputs/c"]


async def test_what_cannot_be_read_is_said_and_the_rest_is_saved() -> None:
    files = {"a": (1, SandboxFileError(FileProblem.NOT_FOUND, "a")), "b": (1, [b"x"])}
    saved = await saving(Inside(files), Store()).on_demand()
    assert (saved.keys, saved.left_out) == (("out/b",), (LeftOut("outputs/a", "cannot be read: not_found"),))


async def test_no_more_connections_than_so_many() -> None:
    inside, store = Inside({f"{number:03}": (1, [b"x"]) for number in range(200)}), Store()
    await saving(inside, store).on_demand()
    assert len(store.kept) == 200
    assert store.most <= 8


@pytest.mark.parametrize("last", [True, False])
async def test_an_agent_that_says_nothing_more_is_waited_for_so_long(last: bool) -> None:
    """On the held clock."""
    inside, store = Inside({"a": (1, [b"x"]), "b": (1, [None])}), Store()
    began = asyncio.get_running_loop().time()
    if last:
        await saving(inside, store).at_last()
        assert "within 30 s" in (inside.unsaved or "")
    else:
        with pytest.raises(StoreFailed, match="within 120 s"):
            await saving(inside, store).on_demand()
    assert round(asyncio.get_running_loop().time() - began) == (LAST_SECONDS if last else OUTPUT_SECONDS)
    assert (store.admitted, store.open) == ({}, 0)
    (told,) = inside.told
    assert (told["objects"], told["problem"]) == (1, f"the outputs were not saved within {30 if last else 120} s")


async def test_a_store_that_refuses_ends_the_save_and_is_told() -> None:
    inside, store = Inside({f"{number:03}": (1, [b"x"]) for number in range(100)}), Store(status=503)
    with pytest.raises(StoreFailed, match="503"):
        await saving(inside, store).on_demand()
    assert (store.kept, store.open, store.admitted) == ({}, 0, {})
    assert "503" in inside.told[0]["problem"]
    await saving(inside, store).at_last()
    assert "503" in (inside.unsaved or "")


async def test_a_last_save_that_is_cut_short_is_told_as_that() -> None:
    inside, store = Inside({"a": (1, [None])}), Store()
    task = asyncio.ensure_future(saving(inside, store).at_last())
    while not store.open and not store.admitted:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert inside.told[0]["problem"] == inside.unsaved == "it was cut short by the sandbox's end"
    assert (store.admitted, store.open) == ({}, 0)


async def test_two_saves_are_one_after_the_other_and_the_last_is_the_last() -> None:
    inside, store = Inside({"a": (1, [b"x"])}), Store()
    one = saving(inside, store)
    inside.last_act = one.at_last
    first, second = await asyncio.gather(one.on_demand(), one.on_demand(last=True))
    assert first == second
    assert store.most == 1
    assert inside.last_act is None


async def test_the_journals_entry_is_bounded_whatever_names_there_are() -> None:
    names = [f"{number:03}" + "\x7f\n\U0001f600" * 40 for number in range(150)]
    names += [f"{number:03}" + "\U0001f600" * 40 for number in range(150)]
    inside = Inside({name: (0, []) for name in names})
    saved = await saving(inside, Store()).on_demand()
    assert (len(saved.keys), saved.left_out_count, len(saved.left_out)) == (150, 150, 100)
    assert len(str(inside.told[0])) < 16_000
    assert str(inside.told[0]).isascii()
