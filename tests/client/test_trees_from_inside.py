"""What a hostile sandbox may send as a directory, and that nothing of it leaves the place it was meant for."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayfly import InputError, LocalFileError, Sandbox, UnsafeTree
from dayfly.client.tar import BLOCK, MAX_EXTENDED, TarReader
from dayfly.client.trees import MAX_DEPTH, Caps, Unpacking, pack, stays_inside
from tests.client.room import Landlord

Entry = tuple[str, bytes, dict[str, object]]


def archive(*entries: Entry, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of (name, content, fields of TarInfo)."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form, errors="surrogateescape") as tar:
        for name, content, fields in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def file(name: str, content: bytes = b"", **fields: object) -> Entry:
    return name, content, fields


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Entry:
    return name, b"", {"type": kind, "linkname": target}


def directory(name: str, **fields: object) -> Entry:
    return name, b"", {"type": tarfile.DIRTYPE, "mode": 0o755, **fields}


def unpack(data: bytes, local: Path, caps: Caps | None = None, piece: int = 999) -> int:
    unpacking = Unpacking(local, caps)
    try:
        for start in range(0, len(data), piece):
            unpacking.feed(data[start : start + piece])
        return unpacking.commit()
    finally:
        unpacking.discard()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory beside things that must stay as they are."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "sub").mkdir()
    before = snapshot(tmp_path)
    yield tmp_path / "sub" / "new"
    assert snapshot(tmp_path, leave_out=tmp_path / "sub" / "new") == before


def snapshot(root: Path, leave_out: Path | None = None) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(root.rglob("*")):
        if leave_out is None or (path != leave_out and leave_out not in path.parents):
            found[str(path)] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
    return found


HOSTILE: dict[str, tuple[Entry, ...]] = {
    "an absolute name": (file("/etc/x", b"x"),),
    "a name with ..": (file("../x", b"x"),),
    "a name with .. in the middle": (directory("a"), file("a/../../x", b"x")),
    "the root's parent": (directory(".."),),
    "an empty component": (file("a//b", b"x"),),
    "a dot in the middle": (file("a/./b", b"x"),),
    "a file as the root": (file(".", b"x"),),
    "a name that is too long": (file("a" * 256, b"x"),),
    "a path that is too long": (file("/".join(["a" * 100] * 50), b"x"),),
    "a path that is too deep": (file("/".join("a" * (MAX_DEPTH + 1)), b"x"),),
    "an absolute link": (link("l", "/etc/passwd"),),
    "a link out": (link("l", "../secret"),),
    "a link out of a directory": (directory("a"), link("a/l", "../../secret")),
    "a link that goes down and out": (directory("a"), link("l", "a/../../secret")),
    "a link through a link": (directory("a"), directory("a/b"), link("a/b/up", "../.."), link("l", "a/b/up/../secret")),
    "an empty link": (link("l", ""),),
    "writing through a link": (link("l", "."), file("l/x", b"x")),
    "writing through a link to a directory": (directory("a"), link("l", "a"), file("l/x", b"x")),
    "a file in the place of a link": (link("l", "x"), file("l", b"x")),
    "a link in the place of a file": (file("l", b"x"), link("l", "x")),
    "a directory in the place of a file": (file("a", b"x"), directory("a")),
    "a file twice": (file("a", b"x"), file("a", b"y")),
    "a file below a file": (file("a", b"x"), file("a/b", b"y")),
    "a hard link out": (link("h", "../secret", tarfile.LNKTYPE),),
    "an absolute hard link": (link("h", "/etc/passwd", tarfile.LNKTYPE),),
    "a hard link to a link": (link("l", "x"), link("h", "l", tarfile.LNKTYPE)),
    "a hard link through a link": (directory("a"), file("a/f"), link("l", "a"), link("h", "l/f", tarfile.LNKTYPE)),
    "a hard link to a directory": (directory("a"), link("h", "a", tarfile.LNKTYPE)),
    "a hard link to nothing": (link("h", "missing", tarfile.LNKTYPE),),
    "a hard link to the root": (link("h", ".", tarfile.LNKTYPE),),
    "a hard link in the place of a file": (file("a"), file("h"), link("h", "a", tarfile.LNKTYPE)),
    "a character device": (("d", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),),
    "a block device": (("d", b"", {"type": tarfile.BLKTYPE}),),
    "a FIFO": (("p", b"", {"type": tarfile.FIFOTYPE}),),
    "an unknown type": (("u", b"", {"type": b"Q"}),),
}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_refused_and_nothing_of_the_tree_is_left(place: Path, kind: str, form: int) -> None:
    with pytest.raises(UnsafeTree):
        unpack(archive(file("innocent", b"x"), *HOSTILE[kind], form=form), place)
    assert not place.exists()
    assert list(place.parent.iterdir()) == []


def test_the_refusals_above_are_of_the_members_and_not_of_the_archives(place: Path) -> None:
    """The live control: the same helper makes trees that are taken."""
    data = archive(
        directory("a"), file("a/f", b"x"), link("a/l", "f"), link("up", "a"), link("h", "a/f", tarfile.LNKTYPE)
    )
    assert unpack(data, place) == 5
    assert (place / "up" / "l").read_bytes() == b"x"
    assert (place / "h").samefile(place / "a" / "f")


def test_an_error_names_the_member_without_its_control_characters(place: Path) -> None:
    with pytest.raises(UnsafeTree) as caught:
        unpack(archive(link("evil\x1b[2J", "/x")), place)
    assert "evil\\x1b[2J" in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_of_any_bytes_and_long_ones_survive(place: Path, form: int) -> None:
    names = [b"caf\xe9", b"\xff\xfe", "日本".encode(), b"n" * 200, b"/".join([b"d" * 90] * 3), b"a\nb", b" ", b"-x"]
    unpack(archive(*(file(os.fsdecode(name), name) for name in names), form=form), place)
    for name in names:
        assert (os.fsencode(place) + b"/" + name, os.path.exists(os.fsencode(place) + b"/" + name)) == (
            os.fsencode(place) + b"/" + name,
            True,
        )


def test_names_that_differ_only_in_case_are_two_files(place: Path) -> None:
    unpack(archive(file("a", b"1"), file("A", b"2")), place)
    assert ((place / "a").read_bytes(), (place / "A").read_bytes()) == (b"1", b"2")


def test_modes_lose_set_id_bits_and_write_for_others(place: Path) -> None:
    unpack(archive(file("f", mode=0o6777), directory("d", mode=0o7777), file("none", mode=0)), place)
    assert stat.S_IMODE((place / "f").stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "d").stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "none").stat().st_mode) == 0o600


@pytest.mark.parametrize("time", ["0", "1700000000.5", "-5", "1e300", "inf", "nan"])
def test_no_claimed_time_is_a_problem(place: Path, time: str) -> None:
    assert unpack(archive(file("f", b"x", pax_headers={"mtime": time}), directory("d")), place) == 2
    assert 0 <= (place / "f").stat().st_mtime <= 2**33


def test_a_tree_over_its_caps_is_refused_by_the_claim_alone(place: Path) -> None:
    with pytest.raises(UnsafeTree, match="more than 10 bytes"):
        unpack(archive(file("a", b"x" * 6), file("b", b"x" * 6)), place, Caps(size=10))
    with pytest.raises(UnsafeTree, match="more than 2 entries"):
        unpack(archive(file("a"), file("b"), file("c")), place, Caps(members=2))
    with pytest.raises(UnsafeTree, match="more than 3 entries"):
        unpack(archive(file("a/b/c/d")), place, Caps(members=3))
    bomb = bytearray(archive(file("a"))[:BLOCK])
    bomb[124:136] = b"\x80" + (2**60).to_bytes(11, "big")
    bomb[148:156] = b" " * 8
    bomb[148:156] = b"%06o\0 " % sum(bomb)
    with pytest.raises(UnsafeTree, match="bytes"):
        unpack(bytes(bomb), place)
    assert unpack(archive(file("a", b"x" * 10), file("b")), place, Caps(size=10, members=2)) == 2


def test_an_extended_header_is_never_held_beyond_its_cap(place: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, MAX_EXTENDED + 1
    with pytest.raises(UnsafeTree, match="extended header"):
        unpack(header.tobuf(), place)


@pytest.mark.parametrize(
    "record",
    [b"5 x=1", b"x", b"99 path=a\n", b"0 path=a\n", b"9999999 path=a\n", b"11 size=-1\n", b"12 mtime=x1\n", b"20 GNU.sparse.map=1\n", b" =\n"],
)  # fmt: skip
def test_a_malformed_or_sparse_extended_header_is_refused(place: Path, record: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    data = header.tobuf() + record + bytes(-len(record) % BLOCK) + archive(file("f", b"x"))
    with pytest.raises(UnsafeTree):
        unpack(data, place)


@pytest.mark.parametrize("keep", [0, 100, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK - 1])
def test_an_archive_that_is_cut_short_is_refused(place: Path, keep: int) -> None:
    with pytest.raises(UnsafeTree, match="cut short"):
        unpack(archive(file("f", b"x" * 10))[: 2 * BLOCK][:keep], place)


def test_what_follows_the_end_is_refused_and_zeros_do_not_go_on_for_ever(place: Path) -> None:
    data = archive(file("f"))
    with pytest.raises(UnsafeTree, match="follows the end"):
        unpack(data + archive(file("g")), place)
    with pytest.raises(UnsafeTree, match="does not end"):
        unpack(data + bytes(2**21), place, piece=2**16)


def test_a_damaged_header_is_refused(place: Path) -> None:
    data = bytearray(archive(file("f", b"x")))
    data[0] ^= 1
    with pytest.raises(UnsafeTree, match="damaged"):
        unpack(bytes(data), place)


def test_a_place_that_is_taken_is_refused_before_anything_is_read(place: Path) -> None:
    data = archive(file("f", b"x"))
    place.mkdir()
    assert unpack(data, place) == 1  # an empty directory is as good as none
    for taken in (place, place / "f"):
        with pytest.raises(InputError, match="there already"):
            Unpacking(taken)
    (place / "dangling").symlink_to("nowhere")
    with pytest.raises(InputError, match="there already"):
        Unpacking(place / "dangling")
    with pytest.raises(InputError, match="No such file"):
        Unpacking(place / "missing" / "x")


@given(st.binary(max_size=3 * BLOCK), st.integers(1, 2 * BLOCK))
def test_arbitrary_bytes_never_raise_anything_but_a_refusal(data: bytes, piece: int) -> None:
    reader = TarReader()
    try:
        for start in range(0, len(data), piece):
            for _ in reader.feed(data[start : start + piece]):
                pass
        reader.finish()
    except UnsafeTree:
        pass
    assert len(reader._buffer) <= max(BLOCK, MAX_EXTENDED)


NAMES = st.sampled_from(["a", "b", "a/b", "b/a", "a/b/c", ".", "..", "../a", "/a", "a/../b", "l", "l/a", "a//b", ""])
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"g", b"x", b"L"]
)
MEMBERS = st.lists(st.tuples(NAMES, KINDS, NAMES, st.integers(0, 0o7777), st.binary(max_size=20)), max_size=8)


@settings(max_examples=300)
@given(MEMBERS, st.integers(0, 4000), st.integers(0, 255))
def test_no_sequence_of_members_reaches_beyond_the_directory(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, bytes, str, int, bytes]], spot: int, flip: int
) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / "secret").write_text("secret")
    entries = [
        (name, content if kind == tarfile.REGTYPE else b"", {"type": kind, "linkname": target, "mode": mode})
        for name, kind, target, mode, content in members
    ]
    data = bytearray(archive(*entries))
    if spot < len(data) and flip:
        data[spot] ^= flip
    try:
        unpack(bytes(data), root / "new")
    except UnsafeTree:
        assert not (root / "new").exists()
    else:
        check_contained(root / "new")
    assert sorted(set(os.listdir(root)) - {"new"}) == ["secret"]
    assert (root / "secret").read_text() == "secret"


def check_contained(top: Path) -> None:
    for where, directories, files in os.walk(top):
        for name in directories + files:
            path = Path(where) / name
            kind = path.lstat().st_mode
            assert stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind)
            assert not kind & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX)
            if path.is_symlink():
                assert Path(os.path.realpath(path)).is_relative_to(top.resolve())


@given(st.lists(st.sampled_from(["..", ".", "a", "b", ""]), max_size=8), st.integers(0, 4))
def test_a_link_that_is_said_to_stay_inside_does(parts: list[str], depth: int) -> None:
    target = "/".join(parts)
    place = "/root" + "/d" * depth
    if stays_inside(target.encode(), depth):
        assert os.path.normpath(f"{place}/{target}").startswith("/root")
        assert not target.startswith("/")


# --- the way in ---


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "f").write_bytes(b"x" * 1000)
    (top / "a" / "b" / "up").symlink_to("../f")
    (top / "empty").write_bytes(b"")
    os.mkdir(os.fsencode(top) + b"/caf\xe9")
    return top


def read_all(local: Path, size: int = 777) -> bytes:
    packed, found = pack(local), b""
    while piece := packed.read(size):
        assert len(piece) <= size
        found += piece
    return found


def test_a_directory_makes_the_way_there_and_back(tree: Path, tmp_path: Path) -> None:
    assert unpack(read_all(tree), tmp_path / "copy") == 6
    assert (tmp_path / "copy" / "a" / "b" / "up").read_bytes() == b"x" * 1000
    assert {os.fsencode(p.relative_to(tree)) for p in tree.rglob("*")} == {
        os.fsencode(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*")
    }


REFUSED_ON_THE_WAY_IN: dict[str, Callable[[Path], object]] = {
    "leads out": lambda path: path.symlink_to("../../secret"),
    "leads out of the directory": lambda path: path.symlink_to("/etc/passwd"),
    "no file, directory or link": lambda path: os.mkfifo(path),
}


@pytest.mark.parametrize("reason", REFUSED_ON_THE_WAY_IN)
def test_what_cannot_be_sent_is_named_before_anything_is(
    tree: Path, sandbox: Sandbox, landlord: Landlord, reason: str
) -> None:
    REFUSED_ON_THE_WAY_IN[reason](tree / "a" / "odd")
    with pytest.raises(InputError, match=reason) as caught:
        sandbox.files.upload_directory(tree, "there")
    assert "a/odd" in str(caught.value)
    assert landlord.rooms[0].files == {}


def test_a_file_that_shrinks_while_it_is_read_stops_the_upload(tree: Path) -> None:
    big = tree / "big"
    big.write_bytes(bytes(2**20))
    packed = pack(tree)
    packed.read(4 * BLOCK)
    os.truncate(big, 0)
    with pytest.raises(InputError, match="shorter"):
        packed.read(2**21)


def test_directories_go_in_and_come_out_through_a_sandbox(
    tree: Path, sandbox: Sandbox, landlord: Landlord, tmp_path: Path
) -> None:
    assert sandbox.files.upload_directory(tree, "there") == 6
    assert landlord.rooms[0].files["there/a/f"] == b"x" * 1000
    landlord.rooms[0].tree = archive(file("f", b"y"))
    assert sandbox.files.download_directory("there", tmp_path / "out") == 1
    assert (tmp_path / "out" / "f").read_bytes() == b"y"
    landlord.rooms[0].tree = archive(file("../f", b"y"))
    with pytest.raises(UnsafeTree):
        sandbox.files.download_directory("there", tmp_path / "out2")
    landlord.rooms[0].tree = archive(file("f", b"y" * 100))
    with pytest.raises(UnsafeTree):
        sandbox.files.download_directory("there", tmp_path / "out2", limit=99)
    with pytest.raises(LocalFileError, match="No such file"):
        sandbox.files.upload_directory(tmp_path / "missing", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tree"]
