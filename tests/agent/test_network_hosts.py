"""The hosts file of a sandbox: what is written there, and that no other file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dayfly.agent.network.hosts import MADE, MAX_KNOWN, Hosts
from dayfly.boundaries.gvisor.skeleton import etc_files
from dayfly.spec import SandboxSpec
from tests.agent.host import Host
from tests.agent.test_network_inside import names, said

MINE = etc_files("box-1", "0")["hosts"].encode()
MINE_INSIDE = etc_files(SandboxSpec.hostname, "0")["hosts"].encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "hosts"
    made.write_bytes(MINE)
    made.chmod(0o444)
    return made


def test_a_cells_file_is_known_by_its_beginning() -> None:
    assert MINE.startswith(MADE)


def test_names_are_added_and_go_when_they_are_to(path: Path) -> None:
    hosts = Hosts(str(path))
    assert path.read_bytes() == MINE
    for host, address in (("a.example", "127.64.0.1"), ("b.example", "127.64.0.2"), ("a.example", "127.64.0.1")):
        hosts.add(host, address)
    assert path.read_bytes() == MINE + b"127.64.0.1 a.example\n127.64.0.2 b.example\n"
    assert path.stat().st_mode & 0o777 == 0o644
    hosts.keep(["b.example", "never.example"])
    assert path.read_bytes() == MINE + b"127.64.0.2 b.example\n"
    hosts.add("a.example", "127.64.0.1")
    hosts.keep(())
    assert path.read_bytes() == MINE


def test_nothing_is_written_while_nothing_changes(path: Path) -> None:
    hosts = Hosts(str(path))
    hosts.keep(["a.example"])
    assert path.stat().st_mode & 0o777 == 0o444
    hosts.add("a.example", "127.64.0.1")
    path.write_bytes(b"somebody was here\n")
    hosts.keep(["a.example", "b.example"])
    hosts.add("a.example", "127.64.0.1")
    assert path.read_bytes() == b"somebody was here\n"


def test_it_is_no_longer_than_everybody_can_read_in_a_moment(path: Path) -> None:
    hosts = Hosts(str(path))
    for number in range(MAX_KNOWN + 3):
        hosts.add(f"n{number}.example", f"127.64.0.{number + 1}")
    lines = path.read_text().splitlines()
    assert len(lines) == MINE.count(b"\n") + MAX_KNOWN
    hosts.keep([f"n{number}.example" for number in range(1, MAX_KNOWN)])
    hosts.add("late.example", "127.64.1.1")
    assert path.read_text().endswith("127.64.1.1 late.example\n")


@pytest.mark.parametrize(
    "content",
    [b"", b"127.0.0.1 localhost\n", MADE, MINE + b"10.0.0.7 mine\n", b"# mine\n" + MINE, MADE + b"x" * 600 + b"\n"],
)
def test_a_file_that_is_somebodys_own_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(content)
    path.chmod(0o600)
    hosts = Hosts(str(path))
    hosts.add("a.example", "127.64.0.1")
    hosts.keep(())
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (content, 0o600)


def test_a_link_is_not_followed_and_no_file_no_harm(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    for place in (str(link), str(tmp_path / "nowhere"), None):
        hosts = Hosts(place)
        hosts.add("a.example", "127.64.0.1")
        hosts.keep(())
    assert path.read_bytes() == MINE
    assert not (tmp_path / "nowhere").exists()


def test_what_cannot_be_written_says_nothing_any_more(path: Path, tmp_path: Path) -> None:
    """Half a line would be another name's. Without a file the resolver knows all of it."""
    hosts = Hosts(str(path))
    hosts.add("a.example", "127.64.0.1")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    hosts.add("b.example", "127.64.0.2")
    hosts.add("c.example", "127.64.0.3")
    hosts.keep(())
    assert not (tmp_path / "elsewhere").exists()
    assert repr(hosts).startswith("<Hosts None")


@pytest.mark.gvisor
@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_inside_writes_the_hosts_file(room: Host) -> None:
    await names(room, ("one.example", [443]))
    assert await room.out("getent hosts one.example >seen; cat /etc/hosts") == MINE_INSIDE + b"127.64.0.1 one.example\n"
    code = """
found = []
for attempt in (
    lambda: open("/etc/hosts", "a"),
    lambda: os.chmod("/etc/hosts", 0o666),
    lambda: os.rename("/etc/hosts", "/etc/mine"),
    lambda: os.unlink("/etc/hosts"),
):
    try:
        attempt()
        found.append("done")
    except OSError as error:
        found.append(type(error).__name__)
print(json.dumps(found))
"""
    assert await said(room, code) == ["PermissionError"] * 4
    assert await room.out("cat /etc/hosts") == MINE_INSIDE + b"127.64.0.1 one.example\n"
