"""The file of roots: what it is made of, in this process, and that boundaries without a user of their own have it too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dayfly.agent.network import trust
from dayfly.agent.network.trust import MAX_BUNDLE, Trust
from tests.agent.authority import Authority
from tests.agent.host import Host

OURS, OTHER = Authority().pem, Authority().pem
ROOT = "-----BEGIN CERTIFICATE-----\nroot\n-----END CERTIFICATE-----"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a Trust of this process writes; the machine has no roots."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(trust, "SYSTEM_BUNDLES", (str(tmp_path / "system"), str(tmp_path / "other")))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    return tmp_path


def told(made: Trust, authority: str) -> str:
    made.prepare(authority)
    made.commit(authority)
    return Path(made.bundle).read_text("utf-8")


def test_the_bundle_is_the_systems_list_and_one_more(scratch: Path) -> None:
    (scratch / "system").write_text(ROOT)
    (scratch / "other").write_text("not this one")
    made = Trust(None)
    assert told(made, OURS) == f"{ROOT}\n{OURS}"
    assert Path(made.authority).read_text() == OURS
    assert told(made, OTHER) == f"{ROOT}\n{OTHER}"
    assert told(made, "") == ROOT
    assert (scratch / "system").read_text() == ROOT
    assert sorted(one.name for one in scratch.iterdir()) == [
        "authority.crt", "ca-certificates.crt", "other", "system",
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["certifi/cacert.pem", "pip/_vendor/certifi/cacert.pem"])
def test_certifis_list_is_taken_where_the_system_has_none(scratch: Path, place: str) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    file = scratch / "prefix" / f"local/lib/python{version}/dist-packages" / place
    file.parent.mkdir(parents=True)
    file.write_text(ROOT)
    (scratch / "system").write_text("# nothing\n")
    assert told(Trust(None), OURS) == f"{ROOT}\n{OURS}"


@pytest.mark.parametrize("kind", ["none", "directory", "pipe", "huge"])
def test_what_is_no_list_counts_as_none(scratch: Path, kind: str) -> None:
    system = scratch / "system"
    if kind == "directory":
        system.mkdir()
    elif kind == "pipe":
        os.mkfifo(system)
    elif kind == "huge":
        system.write_text(ROOT + "#" * MAX_BUNDLE)
    assert told(Trust(None), OURS) == OURS


def test_nothing_is_written_for_who_has_no_authority(scratch: Path) -> None:
    made = Trust(None)
    made.prepare("")
    made.commit("")
    assert list(scratch.iterdir()) == []


def test_what_cannot_be_written_changes_nothing(scratch: Path) -> None:
    (scratch / "system").write_text(ROOT)
    made = Trust(None)
    told(made, OURS)
    (scratch / "ca-certificates.crt.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        made.prepare(OTHER)
    assert Path(made.bundle).read_text() == f"{ROOT}\n{OURS}"


def test_what_was_written_in_vain_takes_no_room(scratch: Path) -> None:
    (scratch / "authority.crt.new").mkdir()  # the last one
    with pytest.raises(OSError, match="directory"):
        Trust(None).prepare(OURS)
    assert [one.name for one in scratch.iterdir()] == ["authority.crt.new"]


SOMEBODY = 4242
"""A uid that has nothing here."""


@pytest.fixture
def image(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a Trust that is pid 1 of a sandbox finds: the system's list, and certifi's."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(trust, "RUN_DIRECTORY", str(scratch / "run"))
    certifi = scratch / "prefix/lib/python3/dist-packages/certifi"
    for directory in (scratch / "etc", certifi, scratch / "elsewhere"):
        directory.mkdir(parents=True, mode=0o755)
    (scratch / "etc/roots.pem").write_text(ROOT)
    (scratch / "system").symlink_to("etc/roots.pem")
    (certifi / "cacert.pem").write_text(ROOT)
    return certifi / "cacert.pem"


def test_what_the_image_reads_becomes_a_link_to_what_is_ours(scratch: Path, image: Path) -> None:
    told(Trust(SOMEBODY), OURS)
    assert (scratch / "etc/roots.pem").readlink() == scratch / "run/ca-certificates.crt"
    assert image.readlink() == scratch / "run/certifi-0.crt"
    assert (scratch / "system").readlink() == Path("etc/roots.pem"), "as the image has it"


def test_a_list_that_is_the_systems_is_led_there_once(scratch: Path, image: Path) -> None:
    """Debian's certifi is a link. Led twice, the second link would lie where the file that is ours does."""
    image.unlink()
    image.symlink_to(scratch / "system")
    made = Trust(SOMEBODY)
    for authority in (OURS, OTHER):
        assert told(made, authority) == image.read_text() == f"{ROOT}\n{authority}"
    assert sorted(one.name for one in (scratch / "run").iterdir() if not one.is_symlink()) == [
        "authority.crt", "ca-certificates.crt",
    ]  # fmt: skip


@pytest.mark.parametrize(("mode", "owner"), [(0o777, SOMEBODY), (0o775, SOMEBODY), (0o755, os.geteuid())])
def test_a_directory_that_code_could_write_is_left_alone(scratch: Path, image: Path, mode: int, owner: int) -> None:
    image.parent.chmod(mode)
    told(Trust(owner), OURS)
    assert image.read_text() == ROOT
    assert not image.is_symlink()


def test_a_directory_that_is_exchanged_meanwhile_leads_nowhere_else(
    scratch: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, own = image.parent, os.fchown

    def exchange(directory: int, uid: int, gid: int) -> None:
        if place.exists() and not place.is_symlink() and os.path.samestat(os.fstat(directory), place.stat()):
            place.rename(place.with_name("moved"))
            place.symlink_to(scratch / "elsewhere")
        own(directory, uid, gid)

    monkeypatch.setattr(os, "fchown", exchange)
    told(Trust(SOMEBODY), OURS)
    assert place.is_symlink()
    assert list((scratch / "elsewhere").iterdir()) == []
    assert [one.name for one in place.with_name("moved").iterdir()] == ["cacert.pem"]


ROOTS = f"""
import ssl
known = ssl.create_default_context().get_ca_certs(binary_form=True)
print([ssl.PEM_cert_to_DER_cert(one) in known for one in {[OURS, OTHER]!r}])
"""


@pytest.mark.gvisor
@pytest.mark.asyncio(loop_scope="module")
async def test_python_inside_believes_on_every_boundary(inside: Host) -> None:
    """Without a user of its own (the fake boundary), variables are all there is: the system's file is the machine's."""
    for authority in (None, OURS, OTHER, None):
        await inside.ask("network", names=[], authority=authority, env={})
        call = await inside.python(ROOTS)
        await call.result()
        assert call.stdout == b"%a\n" % [authority == OURS, authority == OTHER], call.stderr
