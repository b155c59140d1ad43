"""What code inside a real sandbox sees and may do, judged from the host where it can be."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dayfly.boundaries.base import Cell
from dayfly.boundaries.gvisor.abilities import FIRST_UID, UIDS
from dayfly.errors import HostError, InputError
from dayfly.limits import MIB, Limits
from dayfly.paths import Paths
from dayfly.spec import Mount, ReadOnlyLayer
from dayfly.testing.boundary_contract import Subject
from dayfly.testing.echo import Echo
from dayfly.testing.traces import descendants

pytestmark = pytest.mark.gvisor

ROOT = os.geteuid() == 0


@asynccontextmanager
async def room(subject: Subject, **changes: Any) -> AsyncIterator[tuple[Cell, Echo]]:
    cell = await subject.boundary.open(subject.make_spec(**changes))
    try:
        yield cell, Echo(cell.stream)
    finally:
        await cell.kill()


def tree(directory: Path) -> set[tuple[str, int, int]]:
    """Every entry with its mode and modification time."""
    paths = [Path(where, name) for where, names, files in os.walk(directory) for name in (*names, *files)]
    return {(str(path), path.lstat().st_mode, path.lstat().st_mtime_ns) for path in (directory, *paths)}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory to be mounted, open to everybody as far as modes go."""
    directory = tmp_path / "shared"
    directory.mkdir()
    (directory / "file").write_text("from the host")
    directory.chmod(0o777)
    (directory / "file").chmod(0o666)
    return directory


async def test_root_inside_is_an_unprivileged_user_on_the_host(gvisor: Subject) -> None:
    before = descendants()
    async with room(gvisor) as (_, echo):
        assert await echo.run("reply(os.getuid())") == [0]
        owners = {os.stat(f"/proc/{pid}").st_uid for pid, _ in descendants() - before}
    if ROOT:
        cells = owners - {0}  # runsc itself, which runs no code of the sandbox's
        assert len(cells) == 1
        assert FIRST_UID <= cells.pop() < FIRST_UID + UIDS
    else:
        assert owners == {os.geteuid()}


async def test_two_cells_are_two_users_two_machines_and_two_names(gvisor: Subject) -> None:
    code = "reply([os.uname().nodename, open('/etc/hostname').read(), open('/etc/machine-id').read()])"
    async with room(gvisor, hostname="one") as (first, echo), room(gvisor, hostname="two") as (second, other):
        ((name, file, machine),) = await echo.run(code)
        ((other_name, _, other_machine),) = await other.run(code)
        assert (name, file, other_name) == ("one", "one\n", "two")
        assert len(machine) == 33
        assert machine != other_machine
        assert not ROOT or first.explain()["host_uid"] != second.explain()["host_uid"]


async def test_nothing_of_the_hosts_identity_is_inside(gvisor: Subject) -> None:
    files = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "/proc/1/environ", "/proc/1/cmdline"]
    files += ["/proc/version", "/proc/mounts", "/proc/self/mountinfo", "/proc/self/cgroup"]
    async with room(gvisor) as (_, echo):
        (text,) = await echo.run(f"reply('\\n'.join(open(f, errors='replace').read() for f in {files!r}))")
    for private in (
        os.uname().nodename,
        os.uname().release,
        str(Path.home()),
        str(Paths(Path("/x"), Path("/x")).cells),
    ):
        assert private in ("/", "/root", "localhost") or private not in text, private
    assert "nameserver 127.0.0.1" in text


async def test_memory_inside_is_the_limit_and_not_the_hosts(gvisor: Subject) -> None:
    async with room(gvisor, limits=Limits(memory=300 * MIB)) as (_, echo):
        (line,) = await echo.run("reply(open('/proc/meminfo').readline())")
    assert line.split() == ["MemTotal:", str(300 * 1024), "kB"]


async def test_the_agent_has_five_capabilities_and_what_it_starts_none(gvisor: Subject) -> None:
    code = """
def caps(): return {l.split()[0]: l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')}
reply(caps())
read, write = os.pipe()
if os.fork() == 0:
    os.setgroups([]); os.setgid(1000); os.setuid(1000)
    os.write(write, caps()['CapEff:'].encode()); os._exit(0)
reply(os.read(read, 100).decode())
"""
    async with room(gvisor) as (_, echo):
        agent, user = await echo.run(code)
    wanted = sum(1 << bit for bit in (0, 5, 6, 7, 24))  # CHOWN, KILL, SETGID, SETUID, SYS_RESOURCE
    assert {int(agent[kind], 16) for kind in ("CapPrm:", "CapEff:", "CapBnd:")} == {wanted}
    assert int(agent["CapInh:"], 16) == 0
    assert int(user, 16) == 0


async def test_the_agent_is_started_as_a_program_would_be(gvisor: Subject) -> None:
    code = "import __main__\nreply([sys.argv, sys.path[0], __main__.__name__, __main__.main.__module__, os.getpid()])"
    async with room(gvisor) as (_, echo):
        ((argv, first, name, module, pid),) = await echo.run(code)
    assert (argv, first) == (["/.dayfly/agent.pyz"], "/.dayfly/agent.pyz")
    assert (name, module, pid) == ("__main__", "__main__", 1)


async def test_an_agent_on_another_file_system_or_not_for_everybody_is_copied(
    gvisor: Subject, agent: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "agent.pyz"
    mine.write_bytes(agent.read_bytes())
    mine.chmod(0o600)
    async with room(gvisor, agent=mine) as (_, echo):
        assert await echo.echo(b"hello") == b"hello"
    assert mine.stat().st_mode & 0o777 == 0o600


async def test_the_agents_file_is_shared_with_the_host_and_cannot_be_changed_from_inside(
    gvisor: Subject, agent: Path
) -> None:
    before = agent.read_bytes(), agent.stat().st_mode
    code = """
for work in (lambda: os.chmod(f, 0o777), lambda: open(f, 'wb'), lambda: os.open(f, os.O_TRUNC), lambda: os.unlink(f)):
    for f in ('/.dayfly/agent.pyz', '/.dayfly/boot.py'):
        try: work()
        except OSError: pass
"""
    async with room(gvisor, agent=agent) as (_, echo):
        await echo.run(code)
    assert (agent.read_bytes(), agent.stat().st_mode) == before
    assert agent.stat().st_nlink == 1, "a link to it is left"


async def test_there_is_no_network_but_loopback(gvisor: Subject) -> None:
    code = """
import socket
reply(sorted(line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]))
def attempt(address):
    try: socket.create_connection(address, 3)
    except OSError as error: return error.errno
    return 'connected'
server = socket.create_server(('127.0.0.1', 0))
reply([attempt(('192.0.2.1', 80)), attempt(('169.254.169.254', 80)), attempt(server.getsockname())])
"""
    async with room(gvisor) as (_, echo):
        devices, outcomes = await echo.run(code)
    assert devices == ["lo"]
    assert outcomes[2] == "connected", "the control: loopback works"
    assert outcomes[:2] in ([101, 101], [113, 113]), "unreachable, at once"


async def test_a_read_only_mount_refuses_root_inside(gvisor: Subject, shared: Path) -> None:
    code = """
reply(open('/mnt/shared/file').read())
def attempt(work):
    try: work()
    except OSError as error: return error.errno
    return 'done'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def remount():
    if libc.mount(b'none', b'/mnt/shared', None, 32 | 4096, None): raise OSError(ctypes.get_errno(), '')
reply([
    attempt(lambda: open('/mnt/shared/file', 'w')),
    attempt(lambda: os.open('/mnt/shared/file', os.O_RDONLY | os.O_TRUNC)),
    attempt(lambda: os.truncate('/mnt/shared/file', 0)),
    attempt(lambda: os.utime('/mnt/shared/file')),
    attempt(lambda: os.link('/mnt/shared/file', '/mnt/shared/link')),
    attempt(lambda: open('/mnt/shared/new', 'w')),
    attempt(lambda: os.unlink('/mnt/shared/file')),
    attempt(lambda: os.rename('/mnt/shared/file', '/mnt/shared/other')),
    attempt(lambda: os.chmod('/mnt/shared/file', 0o4777)),
    attempt(lambda: os.mkdir('/mnt/shared/directory')),
    attempt(remount),
])
"""
    before = tree(shared)
    mount = Mount(shared, "/mnt/shared")
    async with room(gvisor, mounts=(mount,)) as (_, echo):
        text, refused = await echo.run(code)
    assert text == "from the host"
    assert set(refused[:-1]) <= {30, 1, 13}, refused  # EROFS, EPERM, EACCES
    assert refused[-1] in (1, 13, 22), "remounting"
    assert tree(shared) == before
    assert (shared / "file").read_text() == "from the host"


async def test_mounts_appear_where_the_image_has_nothing_and_the_image_stays_untouched(
    gvisor: Subject, shared: Path, rootfs: Path
) -> None:
    before = tree(rootfs)
    mounts = (Mount(shared, "/data/deep/er"), Mount(shared / "file", "/home/user/file.txt"))
    layers = (ReadOnlyLayer(shared, "/lib/python3/dist-packages/extra"),)  # through the image's link /lib -> usr/lib
    spec = gvisor.make_spec()
    code = """
reply([open(f).read() for f in
       ('/data/deep/er/file', '/home/user/file.txt', '/usr/lib/python3/dist-packages/extra/file')])
reply(sorted(os.listdir('/')))
os.chown('/home/user', 1000, 1000)
for f in ('/tmp/new', '/home/user/new', '/dev/shm/new'): open(f, 'w').write('x')
"""
    image = replace(spec.image, layers=layers)
    async with room(gvisor, mounts=mounts, image=image) as (_, echo):
        texts, names = await echo.run(code)
    assert texts == ["from the host"] * 3
    assert {"usr", "etc", "home", "data"} <= set(names)
    assert tree(rootfs) == before


async def test_what_the_cells_user_cannot_reach_is_mounted_all_the_same(gvisor: Subject, tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "inner").mkdir(parents=True)
    (private / "inner/file").write_text("reached")
    private.chmod(0o700)
    mounts = (Mount(private / "inner", "/mnt/inner"), Mount(private / "inner/file", "/mnt/file"))
    async with room(gvisor, mounts=mounts) as (_, echo):
        assert (
            await echo.run("reply(open('/mnt/inner/file').read()); reply(open('/mnt/file').read())") == ["reached"] * 2
        )
        code = "try: os.listdir('/mnt/inner/..'), reply(sorted(os.listdir('/mnt')))\nexcept OSError: reply(0)"
        assert await echo.run(code) == [["file", "inner"]], "only what was mounted"


async def test_a_mount_that_only_its_owner_may_read_is_refused_to_another_user(gvisor: Subject, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    spec = gvisor.make_spec(mounts=(Mount(secret, "/mnt/secret"),))
    if not ROOT:
        await (await gvisor.boundary.open(spec)).kill()  # the same host user reads it
        return
    with pytest.raises(InputError) as refused:
        await gvisor.boundary.open(spec)
    assert refused.value.remedy
    assert gvisor.traces() == []


async def test_places_that_the_cells_user_cannot_reach_are_refused(gvisor: Subject, data: Path) -> None:
    data.chmod(0o700)
    if not ROOT:
        await (await gvisor.boundary.open(gvisor.make_spec())).kill()  # it is the same host user
        return
    with pytest.raises(HostError) as refused:
        await gvisor.boundary.open(gvisor.make_spec())
    assert str(data) in str(refused.value)
    assert refused.value.remedy


async def test_a_target_below_a_file_is_refused(gvisor: Subject, shared: Path) -> None:
    with pytest.raises(InputError, match="below a file"):
        await gvisor.boundary.open(gvisor.make_spec(mounts=(Mount(shared, "/etc/passwd/x"),)))
    with pytest.raises(InputError, match="is a directory"):
        await gvisor.boundary.open(gvisor.make_spec(mounts=(Mount(shared / "file", "/usr"),)))
    assert gvisor.traces() == []


async def test_dayflys_own_data_cannot_be_mounted(gvisor: Subject, data: Path) -> None:
    (data / "cells").mkdir(exist_ok=True)
    (data / "link").symlink_to(data / "cells")
    for source in (data, data.parent, data / "cells", data / "link"):
        with pytest.raises(InputError, match="dayfly's own data"):
            await gvisor.boundary.open(gvisor.make_spec(mounts=(Mount(source, "/data"),)))


async def test_an_image_without_a_python_is_one_clear_error(gvisor: Subject, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    image = replace(gvisor.make_spec().image, rootfs=empty)
    with pytest.raises(InputError, match="no /usr/bin/python3"):
        await gvisor.boundary.open(gvisor.make_spec(image=image))
    assert gvisor.traces() == []


@pytest.mark.parametrize("changes", [{"id": "../../../etc"}, {"id": "short"}, {"hostname": "a\nb"}, {"hostname": ""}])
async def test_a_specification_that_is_no_specification_is_refused(gvisor: Subject, changes: dict[str, str]) -> None:
    with pytest.raises(InputError):
        await gvisor.boundary.open(gvisor.make_spec(**changes))
    assert gvisor.traces() == []


async def test_a_second_cell_of_the_same_id_is_refused_and_the_first_lives(gvisor: Subject) -> None:
    spec = gvisor.make_spec()
    cell = await gvisor.boundary.open(spec)
    with pytest.raises(HostError, match="exists"):
        await gvisor.boundary.open(spec)
    assert await Echo(cell.stream).echo(b"alive") == b"alive"
    await cell.kill()
    assert gvisor.traces() == []


async def test_others_on_the_host_cannot_look_into_a_cells_directory(gvisor: Subject, data: Path) -> None:
    async with room(gvisor) as (cell, _):
        directory = data / "cells" / cell.id[:16]
        found = directory.stat()
        assert found.st_mode & 0o007 == 0
        assert found.st_uid == os.geteuid()
        uid = cell.explain()["host_uid"]
        assert found.st_gid == (uid if ROOT else os.getegid())
        assert found.st_mode & 0o020 == 0, "the cell's own user may pass, not write"


async def test_a_sentry_that_is_killed_is_a_lost_boundary_and_says_so(gvisor: Subject) -> None:
    before = descendants()
    async with room(gvisor) as (cell, echo):
        await echo.run("pass")
        for pid, _ in descendants() - before:
            with suppress(FileNotFoundError):  # the others end with the sentry
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"runsc-sandbox"):
                    os.kill(pid, 9)
        end = await cell.wait()
    assert (end.reason.value, end.detail) == ("boundary_lost", "killed by SIGKILL")
