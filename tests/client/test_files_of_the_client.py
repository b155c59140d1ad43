"""Files over a room in memory: content in, content out, and sandboxes that lie about sizes and listings."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly import AsyncSandbox, FileProblem, InputError, Sandbox, SandboxFileError
from dayfly.client.content import PIECE
from dayfly.client.files import MAX_LISTED
from dayfly.client.names import last_name, path_text
from tests.client.room import Landlord, embedded_only


async def generated() -> AsyncIterator[bytes]:
    yield b"ab"
    yield b"c"


CONTENTS = {
    "bytes": lambda: b"abc",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "text": lambda: "abc",
    "a file": lambda: io.BytesIO(b"abc"),
    "a list": lambda: [b"a", b"", b"bc"],
    "a generator": lambda: (bytes([byte]) for byte in b"abc"),
    "an async generator": generated,
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_content_of_every_kind_arrives_as_it_is(landlord: Landlord, sandbox: Sandbox, kind: str) -> None:
    assert sandbox.files.write("f", CONTENTS[kind]()) == 3
    assert sandbox.files.append("f", CONTENTS[kind]()) == 3
    assert sandbox.files.read("f") == b"abcabc"
    assert sandbox.files.read_text("f") == "abcabc"


@pytest.mark.parametrize("content", [7, None, ["text"], [7], io.StringIO("text"), object()])
def test_content_of_any_other_kind_is_refused(sandbox: Sandbox, content: object) -> None:
    with pytest.raises(InputError):
        sandbox.files.write("f", content)  # type: ignore[arg-type]


@embedded_only  # a socket has pieces of its own
async def test_large_content_travels_in_bounded_pieces(landlord: Landlord) -> None:
    sizes: list[int] = []

    async def watching(path: str, chunks: AsyncIterator[bytes], **_: object) -> int:
        sizes.extend([len(chunk) async for chunk in chunks])
        return sum(sizes)

    async with AsyncSandbox(opener=landlord) as sandbox:
        landlord.rooms[0].write_file = watching  # type: ignore[method-assign,assignment]
        await sandbox.files.write("f", bytes(3 * PIECE + 1))
        assert sum(sizes) == 3 * PIECE + 1
        assert max(sizes) <= PIECE
        sizes.clear()
        await sandbox.files.write("f", (b"x" * 10 for _ in range(2 * PIECE // 10)))
        assert max(sizes) <= PIECE
        assert len(sizes) < 5


def test_an_iterable_is_read_away_from_the_loop(sandbox: Sandbox) -> None:
    names: list[str] = []

    def content() -> Iterator[bytes]:
        names.append(threading.current_thread().name)
        yield b"x"

    sandbox.files.write("f", content())
    assert names == ["dayfly-content"]


def test_what_an_iterable_raises_reaches_the_caller(sandbox: Sandbox) -> None:
    def content() -> Iterator[bytes]:
        yield b"x"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        sandbox.files.write("f", content())
    assert not sandbox.files.exists("f")


def test_an_exclusive_write_needs_a_new_name(sandbox: Sandbox) -> None:
    sandbox.files.write("f", b"", exclusive=True)
    with pytest.raises(SandboxFileError) as caught:
        sandbox.files.write("f", b"", exclusive=True)
    assert caught.value.problem is FileProblem.EXISTS


def test_a_read_into_memory_is_capped_even_if_the_file_never_ends(landlord: Landlord, sandbox: Sandbox) -> None:
    landlord.rooms[0].endless = bytes(1000)
    with pytest.raises(SandboxFileError, match="limit=") as caught:
        sandbox.files.read("f", limit=5000)
    assert caught.value.problem is FileProblem.TOO_LARGE


def test_a_download_is_capped_and_then_leaves_nothing(landlord: Landlord, sandbox: Sandbox, tmp_path: Path) -> None:
    landlord.rooms[0].endless = bytes(1000)
    (tmp_path / "old").write_text("kept")
    with pytest.raises(SandboxFileError):
        sandbox.files.download("f", tmp_path / "old", limit=100_000)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "kept")]


def test_a_download_takes_the_files_own_name_in_a_directory(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.files.write("d/f", b"abc")
    assert sandbox.files.download("d/f", tmp_path) == 3
    assert (tmp_path / "f").read_bytes() == b"abc"
    assert sandbox.files.download("d/f", str(tmp_path / "g")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "g"]


def test_a_download_replaces_a_link_and_does_not_follow_it(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "f").symlink_to("victim")
    sandbox.files.write("f", b"abc")
    sandbox.files.download("f", tmp_path / "f")
    assert (tmp_path / "victim").read_text() == "untouched"
    assert not (tmp_path / "f").is_symlink()


def test_a_download_to_a_place_that_is_not_there_is_one_clear_error(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.files.write("f", b"abc")
    with pytest.raises(InputError, match="No such file or directory"):
        sandbox.files.download("f", tmp_path / "missing" / "f")


def test_an_upload_streams_a_file_under_its_own_name(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"a,b\n")
    assert sandbox.files.upload(tmp_path / "data.csv") == 4
    assert sandbox.files.upload(tmp_path / "data.csv", "/tmp/x") == 4
    assert sandbox.files.read("data.csv") == sandbox.files.read("/tmp/x") == b"a,b\n"
    with pytest.raises(InputError, match="No such file"):
        sandbox.files.upload(tmp_path / "missing")
    with pytest.raises(InputError, match="directory"):
        sandbox.files.upload(tmp_path, "x")


def test_a_listing_goes_over_all_pages(landlord: Landlord, sandbox: Sandbox) -> None:
    landlord.rooms[0].files = {f"{number:05}": b"" for number in range(2500)}
    names = [f"{number:05}" for number in range(2500)]
    assert [info.name for info in sandbox.files.list()] == names
    assert [info.name for info in sandbox.files.iterate()] == names


async def test_a_listing_is_a_list(landlord: Landlord, sandbox: Sandbox) -> None:
    sandbox.files.write("f", b"")
    assert len(sandbox.files.list()) == 1
    async with AsyncSandbox(opener=landlord) as other:
        await other.files.write("f", b"")
        assert [info.name for info in await other.files.list(".")] == ["f"]
        assert [info.name async for info in other.files.iterate(".")] == ["f"]


def test_a_listing_that_is_too_long_names_the_way_to_have_it(landlord: Landlord, sandbox: Sandbox) -> None:
    landlord.rooms[0].files = {f"{number:05}": b"" for number in range(MAX_LISTED)}
    assert len(sandbox.files.list()) == MAX_LISTED
    sandbox.files.write("more", b"")
    with pytest.raises(SandboxFileError, match=r"files\.iterate") as caught:
        sandbox.files.list()
    assert caught.value.problem is FileProblem.TOO_LARGE
    assert sum(1 for _ in sandbox.files.iterate()) == MAX_LISTED + 1


def test_bytes_that_are_no_text_are_replaced_in_text_only(sandbox: Sandbox) -> None:
    sandbox.files.write("f", b"caf\xe9 \xc3\xa9")
    assert sandbox.files.read_text("f") == "caf\ufffd \u00e9"
    assert sandbox.files.read_text("f", encoding="latin-1") == "caf\u00e9 \u00c3\u00a9"
    assert sandbox.files.read("f") == b"caf\xe9 \xc3\xa9"


@pytest.mark.parametrize("pages", [[(["a", "b"], True)], [(["b", "a"], False)], [([], True)], [(["a", "a"], False)]])
def test_a_listing_that_repeats_or_never_ends_is_an_error(
    landlord: Landlord, sandbox: Sandbox, pages: list[tuple[list[str], bool]]
) -> None:
    landlord.rooms[0].pages = pages
    with pytest.raises(SandboxFileError):
        list(sandbox.files.list())


def test_existence_tells_missing_from_failing(landlord: Landlord, sandbox: Sandbox) -> None:
    async def denied(path: str, *, follow: bool = True) -> None:
        raise SandboxFileError(FileProblem.DENIED, path)

    assert not sandbox.files.exists("f")
    landlord.rooms[0].stat = denied  # type: ignore[method-assign,assignment]
    with pytest.raises(SandboxFileError, match="denied"):
        sandbox.files.exists("f")


def test_files_are_renamed_removed_and_directories_made(sandbox: Sandbox) -> None:
    sandbox.files.write("a", b"x")
    sandbox.files.rename("a", "b")
    assert sandbox.files.stat("b").size == 1
    assert sandbox.files.remove("b") == 1
    assert sandbox.files.mkdir("d")


@pytest.mark.parametrize("path", ["", b"", "a\0b", 7, None, ["a"]])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(InputError):
        path_text(path)  # type: ignore[arg-type]


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_names_of_any_bytes_survive_text_and_json(name: bytes) -> None:
    text = path_text(name)
    assert json.loads(json.dumps(text)).encode("utf-8", "surrogateescape") == name
    assert path_text(text) == text
    assert os.fsencode(text) == name


def test_paths_may_be_text_bytes_or_pure_paths(sandbox: Sandbox) -> None:
    sandbox.files.write(b"caf\xe9", b"1")
    assert sandbox.files.read("caf\udce9") == b"1"
    assert path_text(PurePosixPath("a/b")) == "a/b"


@pytest.mark.parametrize("path", ["..", "/", ".", "a/.."])
def test_a_path_without_a_last_name_gives_no_local_name(path: str) -> None:
    with pytest.raises(InputError, match="name the local file"):
        last_name(path)
