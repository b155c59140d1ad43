"""The doctor sees what is there, names the remedy for what is not, and never hangs or raises."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path

import pytest

from dayfly import doctor
from dayfly.boundaries.base import Cell, Guarantees, ProbeReport
from dayfly.doctor import Finding, examine
from dayfly.paths import Paths
from dayfly.spec import SandboxSpec


class Probed:
    """A boundary that answers ``probe`` as told, or not at all."""

    guarantees = Guarantees(False, False, False, False, False, {})

    def __init__(self, name: str, report: ProbeReport | None = None, until: threading.Event | None = None) -> None:
        self.name, self.report, self.until = name, report, until

    def probe(self) -> ProbeReport:
        if self.until is not None:
            self.until.wait(60)
        if self.report is None:
            raise ZeroDivisionError("inside the probe")
        return self.report

    async def open(self, spec: SandboxSpec) -> Cell:
        raise NotImplementedError

    def explain(self, spec: SandboxSpec) -> dict[str, object]:
        return {}

    def sweep(self) -> int:
        return 0


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_on_this_machine_everything_that_is_needed_is_found() -> None:
    found = named(examine())
    for name in ("python", "architecture", "tools", "runsc", "user namespaces", "disk"):
        assert found[name].ok is True, found[name]
    assert "dayfly never uses it" in found["kvm"].message
    assert found["kvm"].ok is None
    assert found["cgroup"].message.startswith(("cgroup v1", "cgroup v2", "cgroup none"))


def test_extras_that_are_not_there_are_a_note_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(examine())["extras"].ok is True, "the tests need all of them"
    monkeypatch.setattr(doctor, "_installed", lambda name: name not in ("botocore", "keyring"))
    found = named(examine())["extras"]
    assert found.ok is None, "no sandbox needs them"
    assert "server" in found.message.partition("not installed")[0]
    assert found.remedy is not None
    assert found.remedy.endswith("pip install 'dayfly[keyring,objects]'")


def test_on_an_empty_machine_the_remedies_are_named_and_nothing_is_created(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "data", tmp_path / "run")
    found = named(examine(paths=paths, environment={"PATH": "/nowhere"}))
    assert found["runsc"].ok is False
    assert found["runsc"].remedy == "run: dayfly setup"
    assert found["images"].ok is False
    assert found["images"].remedy == "dayfly images build data"
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_image_is_a_finding_with_its_remedy(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "data", tmp_path / "run")
    (paths.images / ("1" * 64)).mkdir(parents=True)
    found = named(examine(paths=paths))["images"]
    assert found.ok is False
    assert "damaged" in found.message
    assert (found.remedy or "").startswith(f"dayfly images rm {'1' * 12}")


def test_an_unusable_setting_is_the_finding(tmp_path: Path) -> None:
    [finding] = examine(environment={"DAYFLY_DATA": "relative"})
    assert finding.ok is False
    assert finding.remedy


def test_the_age_of_the_runsc_is_told() -> None:
    age = named(examine(today=datetime.date(2099, 1, 1)))["runsc age"]
    assert age.ok is None
    assert "dayfly setup --from" in age.message


def test_boundaries_tell_themselves_whether_they_are_usable() -> None:
    usable = Probed("good", ProbeReport(True, facts={"runsc": "1"}))
    broken = Probed("bad", ProbeReport(False, ("it is broken",), ("mend it",)))
    found = named(examine([usable, broken]))
    assert found["boundary good"] == Finding("boundary good", True, "runsc 1")
    assert found["boundary bad"] == Finding("boundary bad", False, "it is broken", "mend it")


def test_a_probe_that_raises_is_a_finding() -> None:
    finding = named(examine([Probed("odd")]))["boundary odd"]
    assert finding.ok is False
    assert "ZeroDivisionError: inside the probe" in finding.message


def test_a_probe_that_hangs_is_a_finding_and_the_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 2.0)
    release = threading.Event()
    before = time.monotonic()
    found = named(examine([Probed("stuck", ProbeReport(True), until=release), Probed("good", ProbeReport(True))]))
    release.set()
    assert time.monotonic() - before < 20
    assert found["boundary stuck"] == Finding("boundary stuck", False, "did not answer within 2 s")
    assert found["boundary good"].ok is True
    assert found["runsc"].ok is True


def test_a_data_directory_in_memory_is_noted() -> None:
    """As /tmp is on Debian 13. /dev/shm is one everywhere."""
    assert doctor._kind_of(Path("/dev/shm")) == "tmpfs"
    assert doctor._kind_of(Path("/proc")) == "proc"
    place = Path("/dev/shm/dayfly-of-nobody")
    disk = named(examine(paths=Paths(place, place / "run")))["disk"]
    assert disk.ok is not True
    if disk.ok is None:  # else it is too small as well, which is worse and told instead
        assert "which is memory" in disk.message
        assert disk.remedy
    assert not place.exists()


def test_own_cgroups_are_read_for_both_versions() -> None:
    text = "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/d:e\n"
    assert doctor._own_cgroups(text) == {
        "name=systemd": "/",
        "memory": "/a/b",
        "cpu": "/c",
        "cpuacct": "/c",
        "": "/d:e",
    }
