"""Targets in a box, judged: what a wall denies, what is reached without one, and what a target cannot hide."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.errors import HostError
from dayfly.prove import Basis, Expected, Proof, Row, Verdict
from dayfly.prove.targets import asked, box
from dayfly.prove.targets.scene import BY_PACKETS, TO_LOOPBACK
from tests.prove.targets.subjects import BY_ID, PYTHON, bare, behaving, bwrap, probes, proved, rows
from tests.turns import quarter

NETWORK = (
    "dns.library",
    "dns.others",
    "metadata.address.usual",
    "network.tcp.private-10",
    "network.udp.public",
    "network.loopback.tcp",
)
SERVERS = ("network.loopback.tcp", "network.loopback.udp", "boundary.socket.host")


PACKETS = [probe.id for probe in asked() if probe.attempt in BY_PACKETS and probe.id not in TO_LOOPBACK]

FOUND = (
    "filesystem.host.path", "boundary.process.named", "boundary.process.signal", "boundary.identity.kernel", "boundary.identity.hostname",
    "credential.variables", "credential.environment", "credential.files.clouds", "credential.files.keys", "credential.files.packages",
    "credential.files.histories", "network.interfaces", "network.routes", "dns.files",
)  # fmt: skip

DENIED = (
    "boundary.call.modules", "boundary.call.swap", "boundary.setting.sysrq", "boundary.device.disks", "boundary.sudo",
    "filesystem.made.root", "filesystem.made.etc", "filesystem.made.programs", "filesystem.given", "boundary.superuser",
)  # fmt: skip


@pytest.fixture(scope="module")
def without_walls(request: pytest.FixtureRequest) -> Proof:
    """Of a bare subprocess. Of the packets, those whose turn it is."""
    asked_for = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    chosen = {*SERVERS, *FOUND, *DENIED, *asked_for.intersection(PACKETS)}
    return proved(bare(), [probe for probe in asked() if probe.id in chosen or probe.expected is Expected.ALLOWED])


@pytest.mark.parametrize("name", quarter(PACKETS))
def test_without_a_wall_what_leaves_is_seen(without_walls: Proof, name: str) -> None:
    """The control of every denial that a box has seen."""
    row = rows(without_walls)[name]
    assert (row.verdict, row.basis) == (Verdict.REACHED, Basis.SEEN), row.why


@pytest.mark.parametrize("name", SERVERS)
def test_without_a_wall_who_comes_to_the_judges_servers_is_seen(without_walls: Proof, name: str) -> None:
    row = rows(without_walls)[name]
    assert (row.verdict, row.basis) == (Verdict.REACHED, Basis.SEEN), row.why


@pytest.mark.parametrize("name", FOUND)
def test_without_a_wall_what_lies_about_is_found(without_walls: Proof, name: str) -> None:
    assert rows(without_walls)[name].verdict is Verdict.REACHED


def test_without_a_wall_everything_useful_works_and_nothing_is_left_open(without_walls: Proof) -> None:
    useful = [row for row in without_walls.rows if row.expected == "allowed"]
    assert len(useful) > 5
    assert all(row.green for row in useful), useful
    assert not without_walls.green
    assert without_walls.target is not None
    assert without_walls.target.name == "subprocess"
    assert "Python 3" in without_walls.target.version
    assert [row.id for row in without_walls.rows if row.verdict is Verdict.INCONCLUSIVE] == []


@pytest.mark.parametrize("name", DENIED)
def test_a_box_itself_denies_what_an_ordinary_user_may_not(without_walls: Proof, name: str) -> None:
    assert rows(without_walls)[name].verdict is Verdict.DENIED, rows(without_walls)[name].why


def test_bubblewrap_denies_the_network_and_the_host_has_seen_it() -> None:
    told: list[Row] = []
    found = proved(
        bwrap(),
        [*probes(*NETWORK, *SERVERS, "filesystem.host.path", "credential.files.keys"), BY_ID["useful.threads"]],
        told,
    )
    assert [(row.id, row.why) for row in found.red] == []
    assert {rows(found)[name].basis for name in (*NETWORK, *SERVERS)} == {Basis.SEEN}
    assert rows(found)["credential.files.keys"].basis is Basis.CLAIMED
    assert told == list(found.rows), "each is told of once, in its order"
    assert found.target is not None
    assert found.target.version.startswith("bubblewrap ")


@pytest.fixture(scope="module")
def with_a_network() -> Proof:
    """Of bubblewrap with one wall taken away."""
    command = list(bwrap().command)
    at = 1 + command.index("--unshare-all")
    command[at:at] = ["--share-net", "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]
    return proved(replace(bwrap(), command=command), probes(*NETWORK))


@pytest.mark.parametrize("name", NETWORK)
def test_one_with_its_network_on_is_caught(with_a_network: Proof, name: str) -> None:
    row = rows(with_a_network)[name]
    assert (row.verdict, row.basis) == (Verdict.REACHED, Basis.SEEN)


REACHED = ("dns.library", "network.tcp.private-10", *SERVERS)

LIES = f"""
import subprocess, sys
said = subprocess.run([{PYTHON!r}, "-"], input=sys.stdin.read(), capture_output=True, text=True).stdout
print(said if "answer" in said else '{{"tried": 9, "reached": []}}')
"""


def test_one_that_says_it_denied_while_somebody_came_through_is_not_believed() -> None:
    found = rows(proved(behaving("liar", LIES), probes(*REACHED, "credential.variables")))
    assert {found[name].verdict for name in REACHED} == {Verdict.REACHED}
    assert all("the host saw" in found[name].why for name in REACHED)
    lied = found["credential.variables"]
    assert (lied.verdict, lied.basis) == (Verdict.DENIED, Basis.CLAIMED), "nobody saw it, and it says so"


ANSWERS = f"""
import subprocess, sys
program = sys.stdin.read()
if "sha256" in program and "TEXTS" not in program:
    sys.exit(subprocess.run([{PYTHON!r}, "-"], input=program, text=True).returncode)
"""

PATIENCE = 5.0


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit(1)", "it said nothing"),
        ("print('{\"answer\": \"no\"}')", "it cannot run a program"),
        (f"{ANSWERS}\nwhile True: print('more and more ' * 100)", "it said more than"),
        (f"{ANSWERS}\nimport threading; threading.Event().wait()", "it was not done in"),
        (f"{ANSWERS}\nprint('[' * 99999)", "[[[["),
        (f"{ANSWERS}\nprint('{{}}')", "{}"),
        (f"{ANSWERS}\nraise RuntimeError('not today')", "not today"),
    ],
)  # fmt: skip
def test_one_that_is_dead_mute_or_endless_has_shown_nothing(code: str, why: str) -> None:
    chosen = [replace(one, seconds=0.5) for one in probes("network.interfaces")]
    found = proved(behaving("broken", code, start_seconds=PATIENCE), chosen)
    assert {row.verdict for row in found.rows} == {Verdict.INCONCLUSIVE}
    assert why in found.rows[0].why
    assert not found.green


def test_a_judge_that_does_not_come_to_its_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps it: nobody waits for ever."""
    monkeypatch.setattr(box, "longest", lambda target, probes: 2.0)
    endless = behaving("endless", f"{ANSWERS}\nimport threading; threading.Event().wait()", start_seconds=600.0)
    with pytest.raises(HostError, match="does not come to its end"):
        proved(endless, probes("network.interfaces"))


def test_one_that_dies_in_the_middle_takes_what_was_denied_along() -> None:
    """It answers once, denies, and does not answer in the end."""
    once = f"""{ANSWERS}
print('{{"tried": 1, "reached": []}}')
"""
    dying = once.replace(
        "import subprocess, sys", "import os, subprocess, sys\nif os.path.exists('/tmp/done'): sys.exit(1)"
    ).replace("print('{", "open('/tmp/done', 'w').close(); print('{")
    assert proved(behaving("steady", once), probes("network.interfaces")).rows[0].verdict is Verdict.DENIED
    found = proved(behaving("dying", dying), probes("network.interfaces")).rows[0]
    assert (found.verdict, "control" in found.why) == (Verdict.INCONCLUSIVE, True)


def test_what_was_reached_last_distrusts_nobody() -> None:
    found = rows(proved(bare(), probes("metadata.variables", "network.udp.public")))
    assert list(found) == ["metadata.variables", "network.udp.public"], "in the catalogue's order"
    assert found["metadata.variables"].verdict is Verdict.DENIED, found["metadata.variables"].why
    assert found["network.udp.public"].verdict is Verdict.REACHED


CALLS_HOME = f"""
import os, socket, subprocess, sys
runs = len(open("/tmp/runs").read()) if os.path.exists("/tmp/runs") else 0
open("/tmp/runs", "a").write("x")
if runs == 2: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"home", ("203.0.113.9", 9))
sys.exit(subprocess.run([{PYTHON!r}, "-"], input=sys.stdin.read(), text=True).returncode)
"""


def test_a_packet_that_no_probe_has_sent_distrusts_them_all() -> None:
    """It leaves while something that must work is tried: nobody knows whose it was."""
    found = rows(proved(behaving("caller", CALLS_HOME), probes("boundary.superuser", "useful.threads")))
    assert found["boundary.superuser"].verdict is Verdict.INCONCLUSIVE
    assert "UDP to 203.0.113.9" in found["boundary.superuser"].why
    assert found["useful.threads"].green


ATTACKS = f"""
import os, signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP, signal.SIGKILL):
    os.kill(1, number)
for name in ("mem", "environ", "maps", "fd/0"):
    try: open("/proc/1/" + name, "rb").read(1)
    except OSError: continue
    sys.exit("it can be looked into")
sys.exit(subprocess.run([{PYTHON!r}, "-"], input=sys.stdin.read(), text=True).returncode)
"""


def test_nobody_in_a_box_can_end_the_judge_or_look_into_it() -> None:
    found = proved(behaving("hostile", ATTACKS), probes("useful.threads", "boundary.vsock"))
    assert rows(found)["useful.threads"].green, rows(found)["useful.threads"].why
    assert rows(found)["boundary.vsock"].verdict is not Verdict.INCONCLUSIVE, rows(found)["boundary.vsock"].why


def command_lines() -> list[bytes]:
    """Of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def test_nothing_of_a_box_is_left_and_nothing_of_this_machine_is_changed() -> None:
    mark = secrets.token_hex(8)
    writes = f"""
import os, subprocess, sys
for place in ("/tmp", "/var/tmp", os.path.expanduser("~"), "/usr", "/etc"):
    try: open(os.path.join(place, {mark!r}), "w").close()
    except OSError: pass
subprocess.Popen(["sh", "-c", "read forever", {mark!r}], stdin=subprocess.PIPE, start_new_session=True)
sys.exit(subprocess.run([{PYTHON!r}, "-"], input=sys.stdin.read(), text=True).returncode)
"""
    found = proved(behaving("untidy", writes), probes("useful.threads"))
    assert found.rows[0].green, found.rows[0].why
    assert [
        str(top) for top in map(Path, ("/tmp", "/var/tmp", "/usr", "/etc", str(Path.home()))) if (top / mark).exists()
    ] == []
    assert [line for line in command_lines() if mark.encode() in line] == []


def test_of_another_machine_nothing_is_seen_and_all_is_claimed() -> None:
    """What must work, at a target that is said to be elsewhere: the only thing that is tried outside of a box here."""
    from dayfly.prove.targets import Place

    elsewhere = replace(bwrap(), place=Place.ELSEWHERE)
    found = proved(
        elsewhere, probes("useful.threads", "network.loopback.tcp", "network.tcp.private-10", "boundary.socket.host")
    )
    assert [(row.id, row.why) for row in found.red] == []
    assert {row.basis for row in found.rows} == {Basis.CLAIMED}
    assert any("nothing is seen" in one.value for one in found.conditions)


def test_what_must_work_is_asked_of_everybody() -> None:
    assert len([probe for probe in asked() if probe.expected is Expected.ALLOWED]) == 8
    assert os.environ.get("DEPLOY_TOKEN") is None
