"""Other people's sandboxes as command lines: what is there, what is missing, and what each is told to be."""

from __future__ import annotations

import os
import runpy
import stat
import sys
import types
from collections.abc import Mapping
from pathlib import Path

import pytest

from dayfly.errors import HostError, InputError
from dayfly.prove import Verdict
from dayfly.prove.targets import KINDS, Means, Place, command
from dayfly.prove.targets.box import _plan, plan_of
from dayfly.prove.targets.peers import bubblewrap, docker
from dayfly.prove.targets.peers.means import SHIMS
from tests.prove.targets.subjects import PYTHON, bwrap, means, probes, proved, rows


def executable(path: Path, script: str) -> Path:
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_every_target_says_what_it_is_and_whose_words_that_is() -> None:
    for make in (KINDS["subprocess"], KINDS["bwrap"]):
        made = make(means())
        assert made.configured
        assert made.source
        assert made.place is Place.BOX


def test_bubblewrap_is_set_up_as_it_is_told() -> None:
    walls = list(bubblewrap.WALLS)
    assert {"--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--disable-userns"} <= set(walls)
    assert "--share-net" not in walls
    assert [walls[at + 1] for at, word in enumerate(walls) if word == "--ro-bind"] == ["/usr"]
    assert not {"--bind", "--dev-bind"} & set(walls)


@pytest.mark.parametrize(("kind", "package"), [("gvisor-wheel", "gvisor"), ("smolagents", "smolagents")])
def test_a_library_that_is_missing_is_named_with_its_remedy(kind: str, package: str, tmp_path: Path) -> None:
    bare = executable(tmp_path / "python", f'#!/bin/sh\nexec {PYTHON} -S "$@"\n')
    with pytest.raises(HostError) as caught:
        KINDS[kind](Means(python=str(bare)))
    assert f"pip install {package}" in str(caught.value.remedy)


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError) as caught:
        KINDS["bwrap"](Means())
    assert caught.value.remedy == "apt-get install bubblewrap"


def test_e2b_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    with pytest.raises(HostError, match="E2B_API_KEY is not set"):
        KINDS["e2b"](Means())


DOCKER = """#!/bin/sh
# Speaks the part of docker's command line that is needed here; the container is bubblewrap's.
case "$1" in
  version) echo 99.1; exit ;;
  run) [ "$*" = "run --rm --interactive {walls} {image} python3 -" ] || exit 125
       exec {bwrap} {own} /usr/bin/python3 - ;;
esac
exit 1
"""


def test_docker_is_asked_by_its_command_line_and_watched_from_here(tmp_path: Path) -> None:
    """With a stand-in: there need be no daemon. What is denied by its walls is seen on this machine's own loopback."""
    walls, own = " ".join(docker.WALLS), " ".join(bubblewrap.WALLS)
    script = DOCKER.format(walls=walls, image=docker.IMAGE, bwrap=bwrap().command[0], own=own)
    target = docker.target(Means(programs={"docker": str(executable(tmp_path / "docker", script))}))
    assert target.place is Place.HERE
    found = proved(target, probes("network.loopback.tcp", "network.tcp.private-10", "useful.threads"))
    assert [(row.id, row.why) for row in found.red] == []
    assert rows(found)["network.loopback.tcp"].basis == "seen"
    assert rows(found)["network.tcp.private-10"].basis == "claimed", "no packet is heard where there is no box"
    assert found.target is not None
    assert found.target.version == "99.1"


def test_a_docker_without_a_daemon_is_left_out(tmp_path: Path) -> None:
    silent = executable(tmp_path / "docker", "#!/bin/sh\necho no daemon >&2\nexit 1\n")
    with pytest.raises(HostError, match="no daemon that answers"):
        docker.target(Means(programs={"docker": str(silent)}))


def fake_library(name: str, **members: object) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    return module


class E2bSandbox:
    """What E2B's SDK offers of a sandbox, as far as the shim uses it."""

    @classmethod
    def create(cls) -> E2bSandbox:
        return cls()

    def __enter__(self) -> E2bSandbox:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run_code(self, code: str) -> object:
        logs = types.SimpleNamespace(stdout=[f"ran {code}", "\n"], stderr=["careful\n"])
        return types.SimpleNamespace(logs=logs, error=types.SimpleNamespace(name="NameError", value="x"))


class Gvisor:
    class Mount:
        @staticmethod
        def tmpfs(where: str) -> str:
            return where

    class Sandbox:
        def __init__(self, env: Mapping[str, str], mounts: list[str]) -> None:
            self.made = (env, mounts)

        def __enter__(self) -> Gvisor.Sandbox:
            return self

        def __exit__(self, *_: object) -> None: ...

        def exec(self, program: str, flag: str, code: str) -> tuple[str, str]:
            return f"{program} {flag} ran {code}\n", "careful\n"


@pytest.mark.parametrize(
    ("shim", "library", "out", "errors"),
    [
        ("e2b", fake_library("e2b_code_interpreter", Sandbox=E2bSandbox), "ran 1+1\n", "careful\nNameError: x\n"),
        (
            "gvisor_wheel",
            fake_library("gvisor", Sandbox=Gvisor.Sandbox, Mount=Gvisor.Mount),
            "python3 -c ran 1+1\n",
            "careful\n",
        ),
    ],
)
def test_a_shim_hands_the_program_in_and_brings_what_it_says_out(
    shim: str,
    library: types.ModuleType,
    out: str,
    errors: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, library.__name__, library)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(read=lambda: "1+1"))
    runpy.run_path(str(SHIMS / f"{shim}.py"), run_name="__main__")
    assert capsys.readouterr() == (out, errors)


@pytest.mark.parametrize(
    ("line", "remedy"), [("", "a program"), ("'unclosed", "quote it"), ("no-such-program-anywhere -", "a program")]
)
def test_a_command_line_that_is_none_is_refused(line: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        command.target(line, elsewhere=False)
    assert remedy in str(caught.value.remedy)


def test_any_command_line_that_takes_a_program_is_a_target() -> None:
    line = " ".join(bwrap().command)
    found = proved(command.target(line, elsewhere=False), probes("dns.others", "useful.threads"))
    assert found.green, found.red
    assert found.target is not None
    assert found.target.configured == line
    assert command.target(line, elsewhere=True).place is Place.ELSEWHERE


def test_a_plan_goes_into_the_box_and_is_the_same_there() -> None:
    chosen = probes("dns.others", "useful.threads")
    plan = _plan(bwrap(), chosen, {})
    import json

    target, there = plan_of(json.loads(plan["files"]["/run/box/asked.json"]))
    assert (target.name, list(target.command), target.place) == ("bwrap", list(bwrap().command), Place.BOX)
    assert sorted(one.id for one in there) == sorted(one.id for one in chosen)


@pytest.mark.gvisor
def test_dayfly_itself_is_judged_by_the_same_way() -> None:
    found = proved(
        KINDS["dayfly"](Means()), probes("network.tcp.private-10", "credential.environment", "useful.threads")
    )
    assert [(row.id, row.why) for row in found.red] == []
    assert rows(found)["network.tcp.private-10"].basis == "seen"
    assert os.environ.get("DEPLOY_TOKEN") is None
    assert Verdict.INCONCLUSIVE not in found.count()
