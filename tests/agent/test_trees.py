"""Directories as tar streams, both ways, and what hostile ones get."""

from __future__ import annotations

import io
import os
import tarfile
from typing import Any

import pytest

from tests.agent.host import Call, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


def archive(*members: tuple[str, bytes, str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of (name, type, target, content)."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as tar:
        for name, kind, link, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


FILE, DIRECTORY, LINK, HARD, CHARACTER, FIFO = b"0", b"5", b"2", b"1", b"3", b"6"


class Member:
    """One member that came out, with its content."""

    def __init__(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        self.info = info
        content = tar.extractfile(info) if info.isreg() else None
        self.content = content.read() if content else b""


async def pack(host: Host, path: str) -> dict[str, Member]:
    call = await host.open("tree.pack", path=path)
    value = await call.result()
    with tarfile.open(fileobj=io.BytesIO(call.stdout), errors="surrogateescape") as tar:
        members = {info.name: Member(tar, info) for info in tar}
    assert value == {"members": len(members), "size": sum(len(member.content) for member in members.values())}
    return members


async def unpack(host: Host, path: str, data: bytes) -> Call:
    call = await host.open("tree.unpack", path=path)
    await call.send(data)
    return await call.eof()


async def test_a_directory_comes_out_with_its_files_links_and_modes(inside: Host) -> None:
    await inside.out(
        "mkdir -p ~/out/d/e; cd ~/out; echo -n content > d/f; chmod 640 d/f; ln -s ../d/f d/l; ln d/f d/same; touch d/e/empty"
    )
    members = await pack(inside, "out")
    assert list(members) == ["d", "d/e", "d/e/empty", "d/f", "d/l", "d/same"]
    assert members["d"].info.isdir()
    assert (members["d/f"].content, members["d/f"].info.mode) == (b"content", 0o640)
    assert (members["d/l"].info.type, members["d/l"].info.linkname) == (LINK, "../d/f")
    assert members["d/same"].info.isreg()  # a hard link is a file of its own


async def test_names_of_any_bytes_and_length_survive_both_ways(inside: Host) -> None:
    names = ["ünï", "\udcff\udcfe", "new\nline", "n" * 255, f"{'d' * 200}/{'e' * 200}/{'f' * 50}", "x" * 100, "y" * 101]
    data = archive(*[(name, FILE, "", os.fsencode(name)) for name in names])
    assert (await (await unpack(inside, "names", data)).result())["members"] == len(names)
    members = await pack(inside, "names")
    assert {name for name, member in members.items() if member.info.isreg()} == set(names)
    assert all(members[name].content == os.fsencode(name) for name in names)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
async def test_every_usual_kind_of_tar_goes_in(inside: Host, form: int) -> None:
    long = "a/" * 40 + "b"
    data = archive(("dir", DIRECTORY, "", b""), ("dir/f", FILE, "", b"x" * 1000), (long, FILE, "", b"y"), form=form)
    assert await (await unpack(inside, f"usual/{form}", data)).result() == {"members": 3, "size": 1001}
    assert await inside.read(f"usual/{form}/dir/f") == b"x" * 1000
    assert await inside.read(f"usual/{form}/{long}") == b"y"


async def test_an_empty_directory_goes_both_ways(inside: Host) -> None:
    await inside.ask("file.mkdir", path="void", parents=True, mode=0o755)
    assert await pack(inside, "void") == {}
    assert await (await unpack(inside, "void", archive())).result() == {"members": 0, "size": 0}


async def test_members_replace_files_and_links_but_not_directories(inside: Host) -> None:
    await inside.out("mkdir -p ~/over/dir ~/safe; cd ~/over; echo old > f; echo -n safe > ~/safe/f; ln -s ~/safe/f l")
    data = archive(("f", FILE, "", b"new"), ("l", FILE, "", b"new"))
    await (await unpack(inside, "over", data)).result()
    assert (await inside.read("over/f"), await inside.read("over/l"), await inside.read("safe/f")) == (
        b"new",
        b"new",
        b"safe",
    )
    assert await (await unpack(inside, "over", archive(("dir", FILE, "", b"x")))).refusal() == "is_directory"


async def test_a_file_is_no_directory_to_pack_or_to_unpack_into(inside: Host) -> None:
    await (await inside.write("single", b"x")).result()
    assert await (await inside.open("tree.pack", path="single")).refusal() == "not_directory"
    assert await (await unpack(inside, "single", archive())).refusal() == "not_directory"
    assert await (await inside.open("tree.pack", path="nothing-here")).refusal() == "not_found"


async def test_packing_is_held_back_by_a_host_that_does_not_read(inside: Host) -> None:
    await (await inside.write("large/file", bytes(2_000_000))).result()
    call = await inside.open("tree.pack", path="large")
    call.reading = False
    assert await inside.read("large/file", 0, 4) == bytes(4)
    assert not call.done
    await call.read_on()
    assert await call.result() == {"members": 1, "size": 2_000_000}


async def test_cancelling_ends_both_ways(inside: Host) -> None:
    await (await inside.write("both/file", bytes(2_000_000))).result()
    out = await inside.open("tree.pack", path="both")
    out.reading = False
    into = await inside.open("tree.unpack", path="both-again")
    await into.send(archive(("f", FILE, "", bytes(100_000)))[:50_000])
    for call in (out, into):
        await call.cancel()
        assert await call.refusal() == "cancelled"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([("../evil", FILE, "", b"x")], "unsafe_path"),
        ([("a/../../evil", FILE, "", b"x")], "unsafe_path"),
        ([("/tmp/evil", FILE, "", b"x")], "unsafe_path"),
        ([("..", DIRECTORY, "", b"")], "unsafe_path"),
        ([("n" * 256, FILE, "", b"x")], "unsafe_path"),
        ([("l", LINK, "/tmp", b""), ("l/evil", FILE, "", b"x")], "unsafe_path"),
        ([("l", LINK, "..", b""), ("l/evil", DIRECTORY, "", b"")], "unsafe_path"),
        ([("d", CHARACTER, "", b"")], "not_regular"),
        ([("d", FIFO, "", b"")], "not_regular"),
        ([("d", HARD, "/etc/passwd", b"")], "not_regular"),
    ],
)
async def test_members_that_would_leave_or_are_no_files_are_refused(
    shared: Host, members: list[Any], problem: str
) -> None:
    call = await unpack(shared, "hostile/inner", archive(*members))
    assert await call.refusal() == problem
    assert await shared.out("ls -A /tmp | grep -v ^.dayfly$; find ~ /tmp -name evil 2>/dev/null; true") == b""


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 10_000,
        archive(("f", FILE, "", b"content"))[:700],
        archive(("f", FILE, "", b"content"))[:300],
        b"\0" * 511,
        archive(("f", FILE, "", b"x")).replace(b"ustar", b"USTAR"),
    ],
    ids=["noise", "cut content", "cut header", "cut end", "changed header"],
)
async def test_what_is_no_whole_tar_is_refused(shared: Host, data: bytes) -> None:
    assert await (await unpack(shared, "damaged", data)).refusal() == "other"


async def test_only_files_directories_and_links_are_packed_and_nothing_waits(shared: Host) -> None:
    await shared.out(
        "mkdir ~/odd; cd ~/odd; mkfifo fifo; echo -n x > file; chmod 4755 file; ln -s /etc/passwd out;"
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\""
    )
    members = await pack(shared, "odd")
    assert set(members) == {"file", "out"}
    assert members["file"].info.mode == 0o755
    assert members["out"].info.issym()


async def test_a_tree_two_thousand_levels_deep_is_packed(shared: Host) -> None:
    make = "import os\nfor _ in range(2000):\n os.mkdir('d'); os.chdir('d')"
    await (await shared.python(make)).result()
    call = await shared.open("tree.pack", path="d")
    assert (await call.result())["members"] == 1999


async def test_nothing_in_the_kernels_own_trees_is_packed(shared: Host) -> None:
    assert await (await shared.open("tree.pack", path="/proc")).refusal() == "not_regular"
    assert await (await shared.open("tree.pack", path="/sys/kernel")).refusal() in ("not_regular", "not_found")


async def test_unpacking_as_the_user_changes_nothing_of_roots(shared: Host) -> None:
    assert await (await unpack(shared, "/etc", archive(("hosts2", FILE, "", b"x")))).refusal() == "denied"
