"""The private apt asks the archive that the host trusts, and acts on nothing of the host's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dayfly.errors import HostError, InputError
from dayfly.images.apt import Apt, Deb, _host_transport
from dayfly.images.cache import Cache
from dayfly.images.sources import Source, host_distribution, own_sources


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Apt:
    host = host_distribution()
    apt = Apt(tmp_path_factory.mktemp("apt"), own_sources(host, host.codename), "amd64")
    apt.update()
    return apt


def test_every_dependency_is_chosen_with_version_and_digest(apt: Apt) -> None:
    debs = {deb.name: deb for deb in apt.resolve(["bash"])}
    assert {"bash", "libc6", "base-files"} <= set(debs)
    assert all(len(deb.sha256) == 64 and deb.size > 0 and deb.version for deb in debs.values())


def test_the_choice_has_one_order_so_that_the_same_packages_are_the_same_image(apt: Apt) -> None:
    names = [deb.name for deb in apt.resolve(["python3", "bash", "adduser"])]
    assert names == sorted(names)
    assert len(names) > 10


def test_names_that_are_not_there_are_named(apt: Apt) -> None:
    with pytest.raises(InputError, match="no package dayfly-a, dayfly-b"):
        apt.resolve(["bash", "dayfly-b", "dayfly-a"])
    with pytest.raises(InputError, match="dayfly-a"):
        apt.resolve_one("dayfly-a")


def test_a_name_is_never_an_option(apt: Apt) -> None:
    with pytest.raises(InputError, match="no package --version"):
        apt.resolve(["--version"])


def test_a_package_is_downloaded_once_and_then_taken_from_the_cache(apt: Apt, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    deb = apt.resolve_one("base-passwd")
    steps: list[int] = []
    [first] = apt.fetch([deb], cache, lambda step: steps.append(step.total or 0))
    assert first.stat().st_size == deb.size
    assert deb.size in steps
    steps.clear()
    assert apt.fetch([deb], cache, lambda step: steps.append(step.total or 0)) == [first]
    assert steps == [0]


def test_a_package_whose_content_is_not_the_promised_one_is_refused(apt: Apt, tmp_path: Path) -> None:
    deb = apt.resolve_one("base-passwd")
    lie = Deb(deb.name, deb.version, deb.architecture, "0" * 64, deb.size)
    with pytest.raises(HostError, match="not the file that the index describes"):
        apt.fetch([lie], Cache(tmp_path))


def test_an_archive_that_cannot_be_reached_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    source = Source((f"file:{tmp_path}/nowhere",), ("bookworm",), ("main",), str(host_distribution().keyring))
    with pytest.raises(HostError, match="cannot read the distribution's package lists") as caught:
        Apt(tmp_path / "apt", [source], "amd64").update()
    assert "network" in (caught.value.remedy or "")


def test_an_archive_that_the_distribution_did_not_sign_is_refused(tmp_path: Path) -> None:
    dists = tmp_path / "repo/dists/bookworm"
    dists.mkdir(parents=True)
    (dists / "Release").write_text("Origin: Debian\nCodename: bookworm\nSuite: stable\nSHA256:\n")
    source = Source((f"file:{tmp_path}/repo",), ("bookworm",), ("main",), str(host_distribution().keyring))
    with pytest.raises(HostError, match="not signed"):
        Apt(tmp_path / "apt", [source], "amd64").update()


def test_no_hook_of_the_host_is_taken_over(tmp_path: Path) -> None:
    apt = Apt(tmp_path, [], "amd64")
    text = (tmp_path / "apt.conf").read_text()
    assert apt is not None
    assert "Invoke" not in text
    assert 'Dir::Etc::Parts "/dev/null";' in text
    assert all(line.startswith("Acquire::") for line in _host_transport())
