"""A directory from inside: a tar stream that is unpacked on this machine. What is there afterwards is looked at with the system's own eyes."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

from dayfly.client import tar, trees
from dayfly.client.tar import BLOCK, Member, TarReader
from dayfly.client.trees import Caps, Unpacking
from dayfly.errors import DayflyError, UnsafeTree
from tests.fuzz.target import MIB, Target, may_be_shown, pieces

CAPS = Caps(size=1 * MIB, members=50)
PREAMBLE = 3  # what is done with the sums, and two sizes of pieces
CANARY = b"nobody writes here"
Listing = dict[bytes, tuple[object, ...]]


def unpacked(data: bytes) -> None:
    """The same tree however the stream is cut, below its directory and nowhere else; or an error, and nothing."""
    sizes, said = _cut(data)
    with tempfile.TemporaryDirectory(prefix="dayfly-fuzz-") as place:
        canary = Path(place, "canary")
        canary.write_bytes(CANARY)
        one, other = (_unpack(Path(place, name), said, cut) for name, cut in (("one", b""), ("other", sizes)))
        assert one == other, "cut in another way it is another tree"
        assert canary.read_bytes() == CANARY
        assert set(os.listdir(place)) == {"canary"} | ({"one", "other"} if one is not None else set())


def _unpack(local: Path, said: bytes, sizes: bytes) -> Listing | None:
    unpacking = Unpacking(local, CAPS)
    try:
        for piece in pieces(said, sizes):
            unpacking.feed(piece)
        members = unpacking.commit()
    except DayflyError as error:
        may_be_shown(error.message)
        return None
    finally:
        unpacking.discard()
    listing = _listed(os.fsencode(local))
    assert members == len(listing) <= CAPS.members
    return listing


def _listed(root: bytes) -> Listing:
    """Everything that there is, without following a link; fails for what may not be."""
    found: Listing = {}
    for directory, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            found[os.path.relpath(path, root)] = _judged(root, path, status)
    assert sum(int(str(row[1])) for row in found.values()) <= CAPS.size * CAPS.members
    return found


def _judged(root: bytes, path: bytes, status: os.stat_result) -> tuple[object, ...]:
    mode = status.st_mode
    assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode), "a special file"
    if stat.S_ISLNK(mode):
        target = os.readlink(path)
        end = os.path.realpath(path)
        assert end == os.path.realpath(root) or end.startswith(os.path.realpath(root) + b"/"), f"leads to {end!r}"
        return "link", 0, target
    assert not stat.S_IMODE(mode) & 0o7022, "a mode that gives others more than they may have"
    if stat.S_ISDIR(mode):
        return "directory", 0, stat.S_IMODE(mode)
    return (
        "file",
        status.st_size,
        stat.S_IMODE(mode),
        Path(os.fsdecode(path)).read_bytes(),
        int(status.st_mtime),
        status.st_nlink,
    )


def members_of(data: bytes) -> None:
    """The reader alone, which holds no more than a block and an extended header."""
    sizes, said = _cut(data)
    reader, given, content = TarReader(), 0, 0
    try:
        for piece in pieces(said, sizes):
            for event in reader.feed(piece):
                if isinstance(event, Member):
                    assert not content, "a member before the last one's content was all there"
                    content = event.size
                else:
                    content -= len(event)
                    given += len(event)
                    assert content >= 0
        reader.finish()
        assert not content
    except UnsafeTree as error:
        may_be_shown(error.message)
    assert given <= len(data)


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Sizes of pieces, and the stream. An odd first byte: the sums of its headers are made right, without which nearly nothing that
    was changed would be looked at any further."""
    sizes, said = data[:PREAMBLE], bytearray(data[PREAMBLE:])
    if sizes[:1] and sizes[0] % 2:
        for at in range(0, len(said) - BLOCK + 1, BLOCK):
            if said[at + 257 : at + 262] == b"ustar":
                said[at + 148 : at + 156] = b" " * 8
                said[at + 148 : at + 156] = b"%06o\0 " % sum(said[at : at + BLOCK])
    return sizes, bytes(said)


def archive(*rows: tuple[str, bytes, bytes, str], form: int = tarfile.PAX_FORMAT) -> bytes:
    """Rows of name, type, content, target."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as file:
        for name, kind, content, target in rows:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname, info.mtime = kind, len(content), target, 1
            file.addfile(info, io.BytesIO(content))
    return made.getvalue()[: 20 * 512]


FILE, DIRECTORY, SYMLINK, HARDLINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
LONG = "d" * 90 + "/" + "n" * 120

SEEDS = tuple(
    b"\1\0\x07" + one
    for one in (
        archive(("a", FILE, b"content", "")),
        archive(("d", DIRECTORY, b"", ""), ("d/f", FILE, b"x" * 600, ""), ("d/l", SYMLINK, b"", "../d/f"), ("h", HARDLINK, b"", "d/f")),
        archive((LONG, FILE, b"long", ""), ("l", SYMLINK, b"", LONG)),
        archive((LONG, FILE, b"long", ""), ("l", SYMLINK, b"", LONG), form=tarfile.GNU_FORMAT),
        archive(("../up", FILE, b"x", ""), ("/root", FILE, b"x", "")),
        archive(("l", SYMLINK, b"", "../../x")),
        archive(("d", SYMLINK, b"", ".."), ("d/f", FILE, b"x", "")),
        archive(("p", tarfile.FIFOTYPE, b"", ""), ("c", tarfile.CHRTYPE, b"", "")),
        archive(("\udcff\udcfe", FILE, b"x", ""), (".", DIRECTORY, b"", ""), form=tarfile.GNU_FORMAT),
    )
)  # fmt: skip

WORDS = (
    b"../",
    b"/",
    b"./",
    b"..",
    b"30 mtime=1.5\n",
    b"11 size=10\n",
    b"12 path=a/b\n",
    bytes(512),
    b"ustar\x0000",
    b"\x80",
)


READS = (tar, trees)

TARGETS = (
    Target("tree", unpacked, READS, SEEDS, memory=4 * MIB, examples=250, words=WORDS),
    Target("tar", members_of, (tar,), SEEDS, memory=1 * MIB, examples=500, words=WORDS),
)
