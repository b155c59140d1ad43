"""What a sandbox offers to be saved: agents that lie in their listings, and trees without end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from dayfly.errors import FileProblem, SandboxFileError
from dayfly.manager import offered
from dayfly.manager.offered import MOST_ENTRIES, MOST_FILES, MOST_TOLD, Offered
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Output
from dayfly.spec import FileInfo, FileKind

ONE = Output(bucket="lake", prefix="out/", endpoint="https://s3.example.com", credentials="key", **{"from": "out"})

Page = tuple[Sequence[FileInfo], bool]
Listing = Callable[[str, str | None], Page]


def entry(name: str, kind: FileKind = FileKind.FILE, size: int = 1) -> FileInfo:
    return FileInfo(name, name, kind, size, 0o644, 0.0)


class Liar:
    """A life whose agent lists so."""

    def __init__(self, listing: Listing, kind: FileKind = FileKind.DIRECTORY) -> None:
        self._listing = listing
        self._kind = kind
        self.asked = 0

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        assert not follow
        return entry(path, self._kind)

    async def list_files(self, path: str, *, after: str | None = None) -> Page:
        self.asked += 1
        return self._listing(path, after)


async def of(liar: Liar) -> tuple[list[str], Offered]:
    found = Offered(cast(RecordedLife, cast(Any, liar)))
    return [one.below for one in await found.below(ONE)], found


async def test_a_tree_is_its_files() -> None:
    tree: dict[str, list[FileInfo]] = {
        "out": [entry("a"), entry("b", FileKind.DIRECTORY), entry("c", FileKind.SYMLINK), entry("d", FileKind.OTHER)],
        "out/b": [entry("a"), entry("b")],
    }
    files, found = await of(Liar(lambda path, after: (tree[path], False)))
    assert files == ["a", "b/a", "b/b"]
    assert [(one.path, one.reason) for one in found.left_out] == [
        ("out/c", "is a symbolic link"),
        ("out/d", "is no regular file"),
    ]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0", "\ud800", "n" * 256], ids=lambda name: ascii(name)[:12]
)
async def test_what_is_no_name_ends_the_listing(name: str) -> None:
    files, found = await of(Liar(lambda path, after: ([entry("#"), entry(name), entry("z")], False)))
    assert files == ["#"]
    assert [one.reason for one in found.left_out] == ["is listed in a way that no directory is"]


@pytest.mark.parametrize("names", [["b", "a"], ["a", "a"]])
async def test_a_listing_that_goes_back_is_not_believed_any_further(names: list[str]) -> None:
    files, found = await of(Liar(lambda path, after: ([entry(name) for name in names], False)))
    assert files == names[:1]
    assert found.left_out_count == 1


async def test_pages_that_repeat_themselves_end() -> None:
    liar = Liar(lambda path, after: ([entry("a")], True))
    assert (await of(liar))[0] == ["a"]
    assert liar.asked == 2
    empty = Liar(lambda path, after: ([], True))
    assert (await of(empty))[0] == []
    assert empty.asked == 1


def endless(kind: FileKind) -> Listing:
    def listing(path: str, after: str | None) -> Page:
        start = int(after or 0)
        return [entry(f"{start + number:012}", kind) for number in range(1, 1001)], True

    return listing


async def test_files_without_end_are_so_many_and_the_rest_is_a_number() -> None:
    liar = Liar(endless(FileKind.FILE))
    files, found = await of(liar)
    assert len(files) == MOST_FILES
    assert liar.asked == MOST_ENTRIES // 1000 + 1
    assert found.left_out_count == MOST_ENTRIES - MOST_FILES + 1
    assert len(found.left_out) == MOST_TOLD
    assert found.left_out[0].reason == "is beyond the 10000 files of one save"


async def test_directories_without_end_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered, "MOST_ENTRIES", 3000)
    for kind in (FileKind.DIRECTORY, FileKind.SYMLINK):
        liar = Liar(endless(kind))
        files, found = await of(liar)
        assert files == []
        assert liar.asked <= 4
        assert any("more than 3000 entries" in one.reason for one in found.left_out) or found.left_out_count > 3000


async def test_a_directory_in_itself_for_ever_is_not_followed() -> None:
    liar = Liar(lambda path, after: ([entry("d" * 200, FileKind.DIRECTORY)], False))
    files, found = await of(liar)
    assert files == []
    assert [one.reason for one in found.left_out] == ["has a path that is too long"]
    short = Liar(lambda path, after: ([entry("d", FileKind.DIRECTORY)], False))
    assert [one.reason for one in (await of(short))[1].left_out] == ["is a directory more than 64 deep"]


@pytest.mark.parametrize("kind", [FileKind.FILE, FileKind.SYMLINK, FileKind.OTHER])
async def test_what_is_no_directory_has_nothing_below(kind: FileKind) -> None:
    liar = Liar(lambda path, after: ([entry("a")], False), kind)
    files, found = await of(liar)
    assert (files, liar.asked) == ([], 0)
    assert found.left_out[0].reason == "is no directory"


async def test_what_cannot_be_listed_is_said() -> None:
    def refused(path: str, after: str | None) -> Page:
        if path == "out":
            return [entry("a", FileKind.DIRECTORY), entry("b")], False
        raise SandboxFileError(FileProblem.DENIED, path)

    files, found = await of(Liar(refused))
    assert files == ["b"]
    assert [(one.path, one.reason) for one in found.left_out] == [("out/a", "cannot be listed: denied")]
