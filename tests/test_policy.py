"""What a policy says is checked before anything is started."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dayfly.errors import DayflyError, InputError, PolicyError
from dayfly.limits import GIB, MIB, Limits, parse_size, size_text
from dayfly.policy import DataMount, Policy, parse_policy


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        ({"netwrok": "none"}, "netwrok"),
        ({"network": "all"}, "network"),
        ({"limits": {"memory": "lots"}}, "memory"),
        ({"limits": {"memory": 1}}, "memory"),
        ({"limits": {"cpus": float("nan")}}, "cpus"),
        ({"limits": {"run_seconds": -1}}, "run_seconds"),
        ({"limits": {"lifetime_seconds": 1e12}}, "lifetime_seconds"),
        ({"limits": {"memmory": "1GiB"}}, "memmory"),
        ({"accept_unenforced": ["speed"]}, "speed"),
        ({"strict": True, "accept_unenforced": ["disk"]}, "strict"),
        ({"mounts": [{"source": "relative", "target": "/data"}]}, "absolute"),
        ({"mounts": [{"source": "/nowhere-at-all", "target": "/data"}]}, "cannot be used"),
        ({"mounts": [{"source": "/usr", "target": "/data", "write": True}]}, "write"),
    ],
)
def test_a_mistake_is_a_policy_error_that_names_it(bad: dict[str, object], names: str) -> None:
    with pytest.raises(PolicyError, match=names):
        parse_policy(bad)


SPOKEN = [
    (lambda: Limits(memmory="1GiB"), "there is no key 'memmory'", "did you mean memory?"),  # type: ignore[call-arg]
    (lambda: Limits(zzz=1), "there is no key 'zzz'", "keys are cpus, memory,"),  # type: ignore[call-arg]
    (lambda: Policy(limit=1), "there is no key 'limit'", "did you mean limits?"),  # type: ignore[call-arg]
    (lambda: Limits(run_seconds=0), "run_seconds must be at least 0.05 s, not 0 s", "run_seconds may be 0.05 s to"),
    (lambda: Limits(memory="1MiB"), "memory must be at least 96 MiB, not 1 MiB", "96 MiB to 1024 GiB"),
    (lambda: Limits(memory=10**5000), "memory must be at most 1024 GiB", "96 MiB to 1024 GiB"),
    (lambda: Limits(cpus="many"), "cpus must be a valid number", "the default is 1.0"),
    (lambda: Limits(memory="lots"), "memory: not a size: 'lots'", "'512MiB'"),
    (lambda: Policy(limits=5), "limits has keys of its own", "keys are cpus"),
    (lambda: Policy(network="all"), "network: neither 'none' nor a list of rules: 'all'", "the default is 'none'"),
    (lambda: Policy.model_validate({"limits": {"cpuz": 1}}), "there is no key 'limits.cpuz'", "did you mean cpus?"),
    (lambda: Policy.model_validate_json("{"), "Invalid JSON", "keys are boundary"),
    (lambda: Policy(mounts=[{"source": "/usr", "target": "/d", "x": 1}]), "'mounts[0].x'", "source, target"),
    (lambda: DataMount(source=Path("x"), target="/y"), "source: mount source must be absolute: 'x'", "whole path"),
    (lambda: DataMount(source=Path("/u\0"), target="/y"), "cannot be used", "that you may read"),
    (lambda: DataMount(source=Path("/usr/share")), "target is missing", "give target"),  # type: ignore[call-arg]
    (lambda: setattr(Limits(), "memory", 5), "frozen: memory cannot be changed", "make a new Limits"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sentence", "remedy"), SPOKEN)
def test_a_mistake_is_told_in_the_words_of_whoever_made_it(
    make: Callable[[], object], sentence: str, remedy: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        make()
    assert sentence in caught.value.message
    assert remedy in (caught.value.remedy or "")
    assert "pydantic" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_mistake_is_told_at_once_but_not_thousands() -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy({"limits": {"memmory": 1, "cpus": 0}, "netwrok": "none"})
    for word in ("'limits.memmory'", "limits.cpus", "'netwrok'"):
        assert word in caught.value.message
    with pytest.raises(PolicyError, match="and 992 more") as caught:
        parse_policy({str(number): 1 for number in range(1000)})
    assert len(str(caught.value)) < 1000


def test_a_policy_within_another_model_is_checked_by_that_model() -> None:
    class Settings(BaseModel):
        policy: Policy
        limits: Limits

    assert Settings.model_validate({"policy": {"image": "x"}, "limits": {"memory": "1GiB"}}).limits.memory == GIB
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"policy": {"limits": {"cpus": 0}}, "limits": {"memmory": 1}})
    assert [item["loc"] for item in caught.value.errors()] == [("policy", "limits", "cpus"), ("limits", "memmory")]


@pytest.mark.parametrize(("size", "text"), [(GIB, "1 GiB"), (96 * MIB, "96 MiB"), (1000, "1000 B"), (0, "0 B")])
def test_a_size_is_shown_in_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    assert size_text(size) == text


def test_the_defaults_are_what_the_documentation_promises() -> None:
    limits = Policy().limits
    assert (limits.cpus, limits.memory, limits.processes, limits.disk) == (1, GIB, 256, 2 * GIB)
    assert (limits.run_seconds, limits.run_cpu_seconds, limits.output) == (60, 60, 4 * MIB)
    assert (limits.lifetime_seconds, limits.idle_seconds, limits.cpu_seconds) == (1800, 600, 3600)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "me"))
    (tmp_path / "people" / "me" / ".ssh").mkdir(parents=True)
    (tmp_path / "people" / "me" / "project").mkdir()
    return tmp_path / "people" / "me"


def test_what_may_not_be_mounted_is_refused(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/etc")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    sources = [home, home.parent, tmp_path, home / ".ssh", link, tmp_path / "socket", "/dev/null", "/", "/etc", "/etc/passwd",
               "/proc", "/proc/self", "/sys", "/run", "/root", "/home", "/var", "/boot"]  # fmt: skip
    for source in sources:
        with pytest.raises(PolicyError):
            parse_policy({"mounts": [{"source": str(source), "target": "/data"}]})
    server.close()


def test_a_folder_of_a_home_may_be_mounted(home: Path) -> None:
    policy = parse_policy({"mounts": [{"source": str(home / "project"), "target": "/data"}]})
    assert policy.mounts == (DataMount(source=home / "project", target="/data"),)


@pytest.mark.parametrize(
    "target", ["/", "data", "/usr/x", "/etc", "/proc/x", "/data/../etc", "//data", "/da\0ta", "/.dayfly"]
)
def test_a_target_that_is_no_plain_place_of_ones_own_is_refused(target: str, home: Path) -> None:
    with pytest.raises(PolicyError):
        parse_policy({"mounts": [{"source": str(home / "project"), "target": target}]})


def test_targets_may_not_overlap(home: Path) -> None:
    mounts = [{"source": str(home / "project"), "target": target} for target in ("/data", "/data/inner")]
    with pytest.raises(PolicyError, match="overlap"):
        parse_policy({"mounts": mounts})


@given(st.integers(0, 10**15), st.sampled_from(["", "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "k", "m", "g"]))
def test_sizes_in_text_are_what_they_say(number: int, unit: str) -> None:
    factor = {
        "": 1,
        "b": 1,
        "k": 1000,
        "kb": 1000,
        "kib": 1024,
        "m": 10**6,
        "mb": 10**6,
        "mib": MIB,
        "g": 10**9,
        "gb": 10**9,
        "gib": GIB,
    }
    assert parse_size(f" {number} {unit}") == number * factor[unit.lower()]


@given(st.text(max_size=20))
def test_no_text_breaks_the_reading_of_sizes(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_size(text) >= 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_nothing_but_a_policy_or_a_policy_error_comes_of_any_value(value: object) -> None:
    with contextlib.suppress(PolicyError):
        assert isinstance(parse_policy(value), Policy)  # type: ignore[arg-type]


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(Exception, match="frozen"):
        Limits().memory = 5  # type: ignore[misc]


def test_every_error_says_whose_fault_it_is_and_how_a_server_answers() -> None:
    kinds = [DayflyError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        assert kind.fault in ("caller", "host", "sandbox")
        assert 400 <= kind.http_status <= 599
        assert kind.__doc__
