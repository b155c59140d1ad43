"""What ``--out`` brings back, from sandboxes that lie."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly import Execution, FileInfo, FileKind, HostError, InputError, Outcome, Result, Sandbox
from dayfly.cli import saving
from dayfly.cli.saving import Saved, Saver, checked_directory
from dayfly.client.trees import Folder
from tests.client.room import Landlord, Room

DONE = Execution(Outcome.OK)


@pytest.fixture
def landlord() -> Landlord:
    return Landlord()


@pytest.fixture
def sandbox(landlord: Landlord) -> Iterator[Sandbox]:
    with Sandbox({"limits": {"disk": "16MiB"}}, opener=landlord) as sandbox:
        yield sandbox


@pytest.fixture
def room(landlord: Landlord, sandbox: Sandbox) -> Room:
    return landlord.rooms[0]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def listed(room: Room, **directories: list[FileInfo]) -> None:
    """Let the room claim these listings."""

    async def list_files(path: str, *, after: str | None = None, limit: int = 1000) -> tuple[list[FileInfo], bool]:
        return (directories.get("home" if path == "." else path.replace("/", "_"), []) if after is None else []), False

    room.list_files = list_files  # type: ignore[method-assign]


def info(name: str, kind: FileKind = FileKind.FILE, size: int = 1, modified: float = 1.0) -> FileInfo:
    return FileInfo(name, name, kind, size, 0o644, modified)


def test_new_and_changed_files_come_back_and_others_stay(sandbox: Sandbox, room: Room, out: Path) -> None:
    listed(room, home=[info("changed"), info("same")])
    saver = Saver(sandbox, out)
    room.files = {"changed": b"2", "same": b"1", "new": b"3", "sub/deep": b"4"}
    listed(
        room,
        home=[info("changed", modified=2.0), info("new"), info("same"), info("sub", FileKind.DIRECTORY)],
        sub=[info("deep")],
    )
    assert saver.collect(DONE) == [Saved("changed", 1), Saved("new", 1), Saved("sub/deep", 1)]
    assert {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()} == {
        "changed": b"2", "new": b"3", "sub/deep": b"4",
    }  # fmt: skip


def test_hidden_files_links_and_special_files_do_not_come_back(sandbox: Sandbox, room: Room, out: Path) -> None:
    saver = Saver(sandbox, out)
    kinds = [info("link", FileKind.SYMLINK), info("pipe", FileKind.OTHER), info("z")]
    listed(
        room,
        home=[info(".cache", FileKind.DIRECTORY), info(".hidden"), info("__pycache__", FileKind.DIRECTORY), *kinds],
    )
    room.files = {"z": b"", ".hidden": b"", "link": b"", "pipe": b""}
    assert saver.collect(DONE) == [Saved("z", 0)]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "..", "a/b", "a\0b", "", "x" * 256])
def test_a_claimed_name_that_is_none_is_ignored(sandbox: Sandbox, room: Room, out: Path, name: str) -> None:
    saver = Saver(sandbox, out)
    listed(room, home=[info(name)])
    room.files = {name: b"evil"}
    assert saver.collect(DONE) == []
    assert [path.name for path in out.parent.rglob("*")] == ["out"]


def test_a_name_of_any_bytes_comes_back_as_it_is(sandbox: Sandbox, room: Room, out: Path) -> None:
    saver = Saver(sandbox, out)
    listed(room, home=[info("caf\udce9\x1b[2J")])
    room.files = {"caf\udce9\x1b[2J": b"1"}
    assert saver.collect(DONE)[0].size == 1
    assert [path.name for path in out.iterdir()] == ["caf\udce9\x1b[2J"]


def test_a_link_that_lies_in_the_way_is_not_followed(sandbox: Sandbox, room: Room, out: Path) -> None:
    (out.parent / "victim").mkdir()
    (out.parent / "precious").write_text("precious")
    (out / "sub").symlink_to("../victim")
    (out / "file").symlink_to("../precious")
    saver = Saver(sandbox, out)
    listed(room, home=[info("file"), info("sub", FileKind.DIRECTORY)], sub=[info("x")])
    room.files = {"file": b"1", "sub/x": b"2"}
    assert saver.collect(DONE) == [Saved("file", 1)]
    assert (out.parent / "precious").read_text() == "precious"
    assert list((out.parent / "victim").iterdir()) == []
    assert not (out / "file").is_symlink()


def test_files_are_capped_in_number_and_bytes(
    sandbox: Sandbox, room: Room, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saving, "MAX_FILES", 2)
    saver = Saver(sandbox, out)
    room.files = dict.fromkeys("abc", b"1")
    listed(room, home=[info(name) for name in "abc"])
    assert len(saver.collect(DONE)) == 2
    assert "more than 2 new files" in capsys.readouterr().err
    room.endless = bytes(2**20)
    assert saver.collect(DONE) == []
    assert "not saved: too large" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["a", "b"]


def test_a_home_without_end_is_looked_at_only_so_far(
    sandbox: Sandbox, room: Room, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saving, "MAX_LOOKED_AT", 5)
    monkeypatch.setattr(saving, "MAX_DEPTH", 3)
    listed(room, home=[info(str(number)) for number in range(9)])
    Saver(sandbox, out)
    assert "more than 5 files" in capsys.readouterr().err

    async def inside_itself(path: str, *, after: str | None = None, limit: int = 1000) -> tuple[list[FileInfo], bool]:
        return ([info("d", FileKind.DIRECTORY)] if after is None else []), False

    room.list_files = inside_itself  # type: ignore[method-assign]
    Saver(sandbox, out)
    assert capsys.readouterr().err == ""


def test_rich_results_become_numbered_files_that_a_browser_will_not_run(
    sandbox: Sandbox, room: Room, out: Path
) -> None:
    room.files = {"chart-1.png": b"the code's own"}
    saver = Saver(sandbox, out)
    listed(room, home=[info("chart-1.png", modified=5.0)])
    results = (
        Result({"image/png": b"\x89PNG", "text/plain": "<Figure>"}),
        Result({"text/html": "<script>evil()</script>", "text/plain": "table"}),
        Result({"application/json": {"a": [1]}, "text/plain": "{}"}),
        Result({"text/plain": "only text"}),
        Result({"image/svg+xml": "<svg/>\udcff", "text/latex": "x"}),
    )
    saved = saver.collect(Execution(Outcome.OK, results=results))
    assert [one.name for one in saved] == [
        "chart-1.png",
        "chart-2.png",
        "table-1.html",
        "data-1.json",
        "chart-1.svg",
        "formula-1.tex",
    ]
    assert (out / "chart-1.png").read_bytes() == b"the code's own"
    assert (out / "chart-2.png").read_bytes() == b"\x89PNG"
    assert "default-src 'none'" in (out / "table-1.html").read_text().split("<script>")[0]
    assert json.loads((out / "data-1.json").read_text()) == {"a": [1]}


def test_a_directory_in_the_place_of_a_result_is_told_and_the_rest_is_saved(
    sandbox: Sandbox, room: Room, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "chart-1.png").mkdir()
    listed(room)
    results = (Result({"image/png": b"x"}), Result({"text/latex": "y"}))
    assert Saver(sandbox, out).collect(Execution(Outcome.OK, results=results)) == [Saved("formula-1.tex", 1)]
    assert "not saved: 'chart-1.png'" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["chart-1.png", "formula-1.tex"]


def test_a_disk_that_fails_names_the_directory(
    sandbox: Sandbox, room: Room, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(room)
    saver = Saver(sandbox, out)

    def fail(*_: object) -> tuple[int, int]:
        raise OSError(errno.ENOSPC, "No space left on device", b".dayfly-0123")

    monkeypatch.setattr(Folder, "create", fail)
    with pytest.raises(HostError) as caught:
        saver.collect(Execution(Outcome.OK, results=(Result({"image/png": b"x"}),)))
    assert caught.value.message == f"cannot save into {out}: No space left on device"
    assert caught.value.remedy


def test_a_directory_is_tried_before_it_is_needed(tmp_path: Path) -> None:
    assert checked_directory(None) is None
    assert checked_directory(tmp_path / "new" / "deep") == tmp_path / "new" / "deep"
    assert list((tmp_path / "new" / "deep").iterdir()) == []
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "sub", Path("/proc/self")):
        with pytest.raises(InputError, match=f"--out {place}: "):
            checked_directory(place)


def test_results_are_saved_even_if_the_sandbox_is_gone(sandbox: Sandbox, room: Room, out: Path) -> None:
    saver = Saver(sandbox, out)
    sandbox.run_code("die")
    assert saver.collect(Execution(Outcome.SANDBOX_ENDED, results=(Result({"image/png": b"x"}),))) == [
        Saved("chart-1.png", 1)
    ]


def test_files_and_results_together_are_capped(
    sandbox: Sandbox, room: Room, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "MAX_FILES", 5)
    listed(room)
    saver = Saver(sandbox, out)
    room.files = {"chart-2.svg": b"mine", "other": b"1"}
    listed(room, home=[info("chart-2.svg"), info("other")])
    results = tuple(Result({"image/svg+xml": f"<svg>{number}</svg>"}) for number in range(50_000))
    saved = saver.collect(Execution(Outcome.OK, results=results))
    assert [one.name for one in saved] == ["chart-2.svg", "other", "chart-1.svg", "chart-3.svg", "chart-4.svg"]
    assert (out / "chart-2.svg").read_bytes() == b"mine"
    assert "more than 5 files and results" in capsys.readouterr().err
