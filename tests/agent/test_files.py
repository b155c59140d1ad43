"""File operations: harmless ones in a plain process and in gVisor, hostile ones in gVisor only."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Any

import pytest

from tests.agent.host import Failed, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def entries(host: Host, path: str, after: str | None = None, limit: int = 1000) -> dict[str, Any]:
    return await host.ask("file.list", path=path, after=after, limit=limit)


async def look(host: Host, path: str, follow: bool = False) -> dict[str, Any]:
    return await host.ask("file.stat", path=path, follow=follow)


async def problem(host: Host, op: str, **params: Any) -> str:
    return await (await host.open(op, **params)).refusal()


async def read_problem(host: Host, path: str) -> str:
    return await problem(host, "file.read", path=path, offset=0, length=None)


# --- what is the same everywhere ----------------------------------------------------------------------------------


async def test_what_is_written_is_read_back(inside: Host) -> None:
    content = os.urandom(3_000_001)
    assert (await (await inside.write("written/deep/file", content)).result())["size"] == len(content)
    assert await inside.read("written/deep/file") == content


async def test_an_empty_file_is_a_file(inside: Host) -> None:
    await (await inside.write("empty", b"")).result()
    assert await inside.read("empty") == b""
    assert (await look(inside, "empty"))["size"] == 0


async def test_a_part_is_read_by_offset_and_length(inside: Host) -> None:
    await (await inside.write("letters", b"abcdefgh")).result()
    assert await inside.read("letters", 2, 3) == b"cde"
    assert await inside.read("letters", 6) == b"gh"
    assert await inside.read("letters", 100) == b""
    assert await inside.read("letters", 0, 0) == b""


async def test_append_adds_and_create_never_replaces(inside: Host) -> None:
    await (await inside.write("log", b"one\n", how="create")).result()
    await (await inside.write("log", b"two\n", how="append")).result()
    assert await (await inside.write("log", b"three\n", how="create")).refusal() == "exists"
    assert await inside.read("log") == b"one\ntwo\n"


async def test_mode_is_set_exactly_whatever_the_umask(inside: Host) -> None:
    for mode in (0o600, 0o644, 0o666, 0o755):
        await (await inside.write("moded", b"x", mode=mode)).result()
        assert (await look(inside, "moded"))["mode"] == mode


async def test_replacing_is_atomic_and_shows_nothing_before_the_end(inside: Host) -> None:
    await (await inside.write("atomic/file", b"old")).result()
    call = await inside.open("file.write", path="atomic/file", how="replace", mode=0o644, parents=False)
    await call.send(b"new, and longer than the old")
    assert await inside.read("atomic/file") == b"old"
    await (await call.eof()).result()
    assert await inside.read("atomic/file") == b"new, and longer than the old"


@pytest.mark.parametrize("how", ["replace", "create"])
async def test_a_cancelled_write_leaves_nothing(inside: Host, how: str) -> None:
    call = await inside.open("file.write", path=f"cancelled/{how}", how=how, mode=0o644, parents=True)
    await call.send(b"x" * 300_000)
    await call.cancel()
    assert await call.refusal() == "cancelled"
    assert (await entries(inside, "cancelled"))["entries"] == []


async def test_without_parents_a_missing_directory_is_said_to_be_missing(inside: Host) -> None:
    assert await (await inside.write("no/such/directory/file", b"x", parents=False)).refusal() == "not_found"


async def test_names_of_any_bytes_survive(inside: Host) -> None:
    names = ["plain", "with space", "new\nline", "ünï", "\udcff\udc80", "-rf", "q'\"`$", "\x01\x1b[31m", "x" * 255]
    for name in names:
        await (await inside.write(f"names/{name}", os.fsencode(name))).result()
    listed = (await entries(inside, "names"))["entries"]
    assert [os.fsencode(one["name"]) for one in listed] == sorted(map(os.fsencode, names))
    for one in listed:
        assert await inside.read(one["path"]) == os.fsencode(one["name"])


async def test_a_listing_comes_in_sorted_pages_without_gaps(inside: Host) -> None:
    await inside.out("mkdir ~/paged; cd ~/paged; seq -w 1 2500 | xargs touch")
    found: list[str] = []
    more, after = True, None
    while more:
        page = await entries(inside, "paged", after, 700)
        found += [one["name"] for one in page["entries"]]
        more, after = page["more"], found[-1]
    assert found == [f"{number:04}" for number in range(1, 2501)]


async def test_entries_say_what_they_are(inside: Host) -> None:
    await inside.out("mkdir -p ~/kinds/d; cd ~/kinds; printf abc > f; ln -s f l; mkfifo p; chmod 640 f")
    found = {one["name"]: one for one in (await entries(inside, "kinds"))["entries"]}
    assert {name: one["kind"] for name, one in found.items()} == {
        "d": "directory", "f": "file", "l": "symlink", "p": "other",
    }  # fmt: skip
    assert (found["f"]["size"], found["f"]["mode"], found["l"]["target"]) == (3, 0o640, "f")
    assert found["f"]["path"].endswith("/kinds/f")
    assert abs(found["f"]["modified"] - (await look(inside, "kinds/d"))["modified"]) < 60


async def test_stat_follows_only_when_asked(inside: Host) -> None:
    await inside.out("mkdir -p ~/links; cd ~/links; echo x > f; ln -s f l; ln -s nowhere dead")
    assert (await look(inside, "links/l"))["kind"] == "symlink"
    assert (await look(inside, "links/l", follow=True))["kind"] == "file"
    assert await problem(inside, "file.stat", path="links/dead", follow=True) == "not_found"


async def test_directories_are_made_once(inside: Host) -> None:
    make = {"path": "made/of/parts", "parents": True, "mode": 0o750}
    assert await inside.ask("file.mkdir", **make) == {"created": True}
    assert await inside.ask("file.mkdir", **make) == {"created": False}
    assert (await look(inside, "made/of/parts"))["mode"] == 0o750
    assert await problem(inside, "file.mkdir", path="made/of/parts", parents=False, mode=0o755) == "exists"
    assert await problem(inside, "file.mkdir", path="made/not/there", parents=False, mode=0o755) == "not_found"
    await (await inside.write("made/file", b"x")).result()
    assert await problem(inside, "file.mkdir", path="made/file", parents=True, mode=0o755) == "exists"


async def test_renaming_replaces_only_when_asked(inside: Host) -> None:
    await (await inside.write("ren/a", b"a")).result()
    await (await inside.write("ren/b", b"b")).result()
    assert await problem(inside, "file.rename", path="ren/a", to="ren/b", replace=False) == "exists"
    await inside.ask("file.rename", path="ren/a", to="ren/b", replace=True)
    assert await inside.read("ren/b") == b"a"
    assert await read_problem(inside, "ren/a") == "not_found"


async def test_removing_takes_one_entry_or_a_whole_tree(inside: Host) -> None:
    await inside.out("mkdir -p ~/gone/a/b; cd ~/gone; touch f a/x a/b/y; ln -s f l; ln -s a d")
    assert await inside.ask("file.remove", path="gone/l", recursive=False) == {"removed": 1}
    assert await problem(inside, "file.remove", path="gone/a", recursive=False) == "not_empty"
    assert await inside.ask("file.remove", path="gone/d", recursive=True) == {
        "removed": 1
    }  # the link, not the directory
    assert await inside.ask("file.remove", path="gone", recursive=True) == {"removed": 6}
    assert await problem(inside, "file.remove", path="gone", recursive=True) == "not_found"


async def test_a_directory_is_no_file_and_a_file_no_directory(inside: Host) -> None:
    await (await inside.write("kind/file", b"x")).result()
    assert await read_problem(inside, "kind") == "is_directory"
    assert await (await inside.write("kind", b"x")).refusal() == "is_directory"
    assert await problem(inside, "file.list", path="kind/file", after=None, limit=1) == "not_directory"
    assert await read_problem(inside, "kind/file/x") == "not_directory"


@pytest.mark.parametrize("path", ["", "a/../b", "..", "/..", "a\0b", "n" * 256, "d/" * 2100, "\ud800"])
async def test_paths_that_could_mislead_are_refused(inside: Host, path: str) -> None:
    assert await read_problem(inside, path) == "unsafe_path"


async def test_the_images_own_links_work_in_any_path(inside: Host) -> None:
    assert (await look(inside, "/bin/sh", follow=True))["kind"] == "file"
    assert (await entries(inside, "/bin", limit=1))["more"] is True


async def test_many_operations_at_once_are_all_answered(inside: Host) -> None:
    writes = [await inside.write(f"crowd/{number}", b"%d" % number) for number in range(30)]
    for call in writes:
        await call.result()
    assert [await inside.read(f"crowd/{number}") for number in range(30)] == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("params", [{"offset": -1}, {"length": -1}, {"offset": 1 << 63}, {"path": 1}, {"offset": True}])
async def test_a_read_that_makes_no_sense_is_a_bad_request(inside: Host, params: dict[str, object]) -> None:
    assert await problem(inside, "file.read", **{"path": "x", "offset": 0, "length": None, **params}) == "bad_request"


async def test_an_unknown_way_to_write_is_a_bad_request(inside: Host) -> None:
    assert await problem(inside, "file.write", path="x", how="maybe", mode=0, parents=True) == "bad_request"


# --- what hostile code prepares -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def links() -> dict[str, str]:
    """Links in the home, and what reading them must give: the content, or the problem."""
    return {
        "in": "=inner",
        "two": "=inner",
        "up/real": "=inner",
        "here": "=inner",
        "out": "unsafe_path",
        "relative": "unsafe_path",
        "sneaky": "unsafe_path",
        "loop": "unsafe_path",
        "etc/passwd": "unsafe_path",
        "proc": "unsafe_path",
        "chain": "unsafe_path",
    }


async def test_a_link_is_followed_within_the_home_and_never_out_of_it(shared: Host, links: dict[str, str]) -> None:
    await shared.out(
        "mkdir -p ~/t/d; cd ~/t; echo -n =inner > real; ln -s real in; ln -s in two; ln -s .. d/up; ln -s d/up up;"
        "ln -s $HOME/t/real here; ln -s /etc/passwd out; ln -s ../../../etc/passwd relative; ln -s loop loop;"
        "ln -s $HOME/../../etc/passwd sneaky; ln -s /etc etc; ln -s /proc/self/environ proc; ln -s out chain"
    )
    for name, wanted in links.items():
        try:
            found = (await shared.read(f"t/{name}")).decode()
        except Failed as error:
            found = error.code
        assert (name, found) == (name, wanted)


async def test_writing_through_a_link_that_leads_out_changes_nothing_outside(shared: Host) -> None:
    await shared.out("mkdir -p ~/w /tmp/outside; cd ~/w; ln -s /tmp/outside/f l; ln -s /tmp/outside d")
    assert await (await shared.write("w/l", b"x")).refusal() == "unsafe_path"
    assert await (await shared.write("w/d/g", b"x")).refusal() == "unsafe_path"
    assert await shared.out("ls /tmp/outside") == b""


async def test_what_is_no_regular_file_is_never_opened(shared: Host) -> None:
    await shared.out(
        "mkdir -p ~/odd; cd ~/odd; mkfifo fifo;"
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"; ln -s /dev/zero zero"
    )
    async with asyncio.timeout(30):
        for path in ("odd/fifo", "odd/socket", "/dev/zero", "/dev/null", "/proc/self/mem", "/proc/kmsg", "/sys/kernel"):
            assert await read_problem(shared, path) in ("not_regular", "not_found", "is_directory")
        for path in ("odd/fifo", "odd/socket"):
            assert await (await shared.write(path, b"x")).refusal() == "not_regular"
            assert await (await shared.write(path, b"x", how="append")).refusal() == "not_regular"


async def test_a_file_that_grows_while_it_is_read_comes_to_an_end(shared: Host) -> None:
    writer = await shared.shell("echo start > ~/growing; echo up; while :; do echo more >> ~/growing; done")
    await writer.output(b"up")
    assert (await shared.read("growing")).startswith(b"start")
    await writer.cancel()
    await writer.result()


async def test_a_place_that_is_switched_all_the_time_never_leads_out(shared: Host) -> None:
    """The race: a directory that is a link to /etc every other moment."""
    switcher = await shared.python(
        "import os\nos.makedirs('race/real', exist_ok=True)\nopen('race/real/passwd', 'w').write('mine')\n"
        "os.chdir('race')\nos.symlink('/etc', 'link')\nos.symlink('real', 'place')\nprint('up', flush=True)\n"
        "while True:\n os.rename('link', 'place.new'); os.rename('place.new', 'place')\n"
        " os.symlink('real', 'x'); os.rename('x', 'place'); os.symlink('/etc', 'link')\n"
    )
    await switcher.output(b"up")
    seen = set()
    for _ in range(60):
        try:
            seen.add(await shared.read("race/place/passwd"))
        except Failed as error:
            seen.add(error.code.encode())
    await switcher.cancel()
    await switcher.result()
    assert seen <= {b"mine", b"unsafe_path", b"not_found", b"not_directory", b"other"}


async def test_files_are_touched_with_the_users_rights_and_no_more(shared: Host) -> None:
    await shared.out("mkdir -m 700 -p ~/own; umask 077; echo -n secret > ~/own/f; mkdir ~/shut; chmod 0 ~/shut")
    assert await shared.read("own/f") == b"secret"
    await (await shared.write("own/g", b"x")).result()
    assert await shared.out("stat -c %u:%g ~/own/g") == b"1000:1000\n"
    assert await (await shared.write("/etc/new", b"x")).refusal() == "denied"
    assert await problem(shared, "file.mkdir", path="/usr/new", parents=True, mode=0o755) == "denied"
    assert await problem(shared, "file.remove", path="/etc/passwd", recursive=False) == "denied"
    assert await problem(shared, "file.list", path="shut", after=None, limit=1) == "denied"


async def test_a_full_disk_is_told_as_no_space(shared: Host) -> None:
    assert await (await shared.write("/dev/shm/big", bytes(200_000_000))).refusal() == "no_space"
    assert await shared.out("ls -A /dev/shm") == b""


async def test_thirty_thousand_entries_are_listed_page_by_page(shared: Host) -> None:
    make = "import os\nos.mkdir('many'); os.chdir('many')\nfor number in range(100001, 130001): os.mknod(str(number))"
    await (await shared.python(make)).result()
    first = await entries(shared, "many", limit=1000)
    assert [one["name"] for one in first["entries"]] == [str(number) for number in range(100001, 101001)]
    last = await entries(shared, "many", after="129990", limit=1000)
    assert [one["name"] for one in last["entries"]] == [str(number) for number in range(129991, 130001)]
    assert (first["more"], last["more"]) == (True, False)
    assert await shared.ask("file.remove", path="many", recursive=True) == {"removed": 30_001}


async def test_a_tree_two_thousand_levels_deep_is_removed(shared: Host) -> None:
    make = "import os\nfor _ in range(2001):\n os.mkdir('deep'); open('deep/f', 'w').close(); os.chdir('deep')"
    await (await shared.python(make)).result()
    assert await shared.ask("file.remove", path="deep", recursive=True) == {"removed": 4002}


async def test_the_root_directory_cannot_be_removed(shared: Host) -> None:
    assert await problem(shared, "file.remove", path="/", recursive=True) == "unsafe_path"


async def test_setuid_bits_are_not_set_by_a_write(shared: Host) -> None:
    await (await shared.write("bits", b"x", mode=0o7755)).result()
    assert stat.S_IMODE((await look(shared, "bits"))["mode"]) == 0o755


async def test_much_passes_through_without_being_held_inside(shared: Host) -> None:
    await shared.out("truncate -s 160M ~/huge")
    call = await shared.open("file.read", path="huge", offset=0, length=None)
    call.keep = False
    await call.result()
    assert call.received == 160 << 20
    assert int(await shared.out("awk '/VmRSS/ {print $2}' /proc/1/status")) < 64 * 1024  # KiB
