"""The indexes of this machine: asked from its tools, with the credentials that they have, and never waited for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dayfly import indexes
from dayfly.errors import PolicyError
from dayfly.indexes import MachineIndexes, package_indexes
from dayfly.network import PackageKind, parse_network

PYTHON = parse_network([{"packages": {"python": ["a"]}}])
NODE = parse_network([{"packages": {"node": ["a"]}}])


def home(directory: Path, npmrc: str = "", **more: str) -> dict[str, str]:
    """An environment in which nothing is set but what is given here."""
    (directory / ".npmrc").write_text(npmrc)
    kept = {"PATH": more.pop("PATH", os.environ["PATH"]), "HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "NPM_CONFIG_GLOBALCONFIG": str(directory / "no-npmrc"), **more}


def test_pip_tells_its_index_with_credentials(tmp_path: Path) -> None:
    found = package_indexes(home(tmp_path, PIP_INDEX_URL="https://me:pass@index.example.com/simple"))
    assert found["python"] == "https://me:pass@index.example.com/simple"


def test_a_file_of_pip_counts_and_the_environment_before_it(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://global.example.com/simple\n[install]\nindex-url = https://one.example.com/simple\n"
    )
    env = home(tmp_path) | {"PIP_CONFIG_FILE": str(config)}
    assert package_indexes(env)["python"] == "https://one.example.com/simple"
    assert (
        package_indexes({**env, "PIP_INDEX_URL": "https://env.example.com/simple"})["python"]
        == "https://env.example.com/simple"
    )


def test_where_nothing_is_set_pip_tells_its_own_default(tmp_path: Path) -> None:
    found = package_indexes(home(tmp_path))
    assert found["python"].startswith("https://")
    assert "*" not in found["python"]


def test_a_machine_that_is_to_use_no_index_has_none(tmp_path: Path) -> None:
    assert "python" not in package_indexes(home(tmp_path, PIP_NO_INDEX="1"))


@pytest.mark.parametrize(
    ("npmrc", "url"),
    [
        ("registry=https://npm.example.com/\n", "https://npm.example.com/"),
        ("registry = 'https://npm.example.com/a/b/'\n//npm.example.com/a/:_authToken=t0k/en\n", "https://:t0k%2Fen@npm.example.com/a/b/"),
        ("registry=https://npm.example.com/\n//npm.example.com/:_auth=bWU6cGFzcw==\n", "https://me:pass@npm.example.com/"),
        ("registry=https://npm.example.com/\n//npm.example.com/:username=me\n//npm.example.com/:_password=cGFzcw==\n", "https://me:pass@npm.example.com/"),
        ("registry=https://npm.example.com/\n//npm.example.com/:_authToken=${TOKEN}\n", "https://:fromenv@npm.example.com/"),
        ("registry=https://npm.example.com/\n//other.example.com/:_authToken=x\n", "https://npm.example.com/"),
        ("registry=https://npm.example.com/abc/\n//npm.example.com/ab/:_authToken=x\n", "https://npm.example.com/abc/"),
        ("registry=file:///etc\n", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tools", ["none", "npm"])
def test_npm_has_its_registry_and_what_it_sends_there(tmp_path: Path, npmrc: str, url: str | None, tools: str) -> None:
    """With the program, and where there is only what it reads. pip, of which this is not, would be asked each time."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    if tools == "npm":
        registry = npmrc.splitlines()[0].partition("=")[2].strip(" '")
        (bin_ / "npm").write_text(f"#!/bin/sh\n[ \"$*\" = 'config get registry' ] && echo '{registry}'\n")
        (bin_ / "npm").chmod(0o755)
    assert indexes._node(home(tmp_path, npmrc, PATH=f"{bin_}", TOKEN="fromenv")) == url


@pytest.mark.parametrize("variable", ["npm_config_registry", "NPM_CONFIG_REGISTRY"])
def test_the_environment_counts_before_files_of_npm(tmp_path: Path, variable: str) -> None:
    npmrc = "registry=https://npm.example.com/\n//env.example.com/:_authToken=x\n"
    told = {
        variable: "https://env.example.com/",
        "NPM_CONFIG_//env.example.com/:_authToken": "tok",
        "npm_config__auth": "y",
    }
    env = home(tmp_path, npmrc, PATH=str(tmp_path), PIP_NO_INDEX="1") | told
    assert package_indexes(env)["node"] == "https://:tok@env.example.com/"
    assert indexes._node(env | {variable: ""}) == "https://npm.example.com/"


def test_a_tool_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); print('x', flush=True); import time; time.sleep(99)"
    assert indexes._output([sys.executable, "-c", code], os.environ, seconds=1.0) is None
    assert indexes._output([sys.executable, "-c", "print('x')"], os.environ) == "x\n"
    assert indexes._output(["/nowhere/at/all"], os.environ) is None


async def test_the_machine_is_asked_once_and_only_when_a_rule_needs_it() -> None:
    asked = []

    def ask() -> dict[PackageKind, str]:
        asked.append(1)
        return {"python": "https://index.example.com/simple/"}

    machine = MachineIndexes(ask)
    assert await machine.of(parse_network([{"host": "a.example.com"}])) == {}
    assert asked == []
    assert await machine.of(PYTHON) == await machine.of(PYTHON) == {"python": "https://index.example.com/simple/"}
    assert asked == [1]
    with pytest.raises(PolicyError, match="no index of such packages"):
        await machine.of(NODE)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://10.1.2.3:8080/simple/", "is at an address"),
        ("https://me:hunter2@[::1]/simple/", "is at an address"),
        ("file:///srv/simple", "is neither https nor http"),
        ("https:///simple", "has no host"),
        ("https://[::1/simple", "has no host"),
    ],
)
async def test_an_index_that_cannot_be_used_is_told_when_it_is_needed(url: str, why: str) -> None:
    with pytest.raises(PolicyError, match=f"packages.python: the index that this machine is set to {why}") as caught:
        await MachineIndexes(lambda: {"python": url}).of(PYTHON)
    assert "pip config set" in (caught.value.remedy or "")
    assert "hunter2" not in str(caught.value)
