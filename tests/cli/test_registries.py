"""Which registries this machine publishes packages to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.cli.registries import registries
from dayfly.cli.screen import tell_cautions
from dayfly.network import parse_network

Capture = pytest.CaptureFixture[str]

NPMRC = """\
; registry = https://comment.example.com/
# registry = https://comment.example.com/
registry = "https://npm.example.com:8443/a/"
  @team:registry=https://team.example.com
//token.example.com/:_authToken=secret
"""
PYPIRC = """\
[distutils]
index-servers = own
[own]
repository: https://user:secret@Upload.Example.com/legacy/
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


def test_they_are_those_of_npm_and_of_python(tmp_path: Path, etc: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert registries(home, etc=etc) == set()
    (tmp_path / ".npmrc").write_text(NPMRC)
    assert registries(home, etc=etc) == {"npm.example.com", "team.example.com"}
    (tmp_path / ".pypirc").write_text(PYPIRC)
    (etc / "npmrc").write_text("registry=https://all.example.com")
    found = {"npm.example.com", "team.example.com", "upload.example.com", "all.example.com"}
    assert registries(home, etc=etc) == found
    env = {"npm_config_registry": "https://env.example.com", "TWINE_REPOSITORY_URL": "https://twine.example.com/"}
    assert registries(home | env, etc=etc) == found | {"env.example.com", "twine.example.com"}


@pytest.mark.parametrize("name", ["NPM_CONFIG_USERCONFIG", "npm_config_userconfig"])
def test_npm_may_be_told_of_another_file(tmp_path: Path, etc: Path, name: str) -> None:
    (tmp_path / ".npmrc").write_text(NPMRC)
    (tmp_path / "other").write_text("registry=https://other.example.com")
    env = {"HOME": str(tmp_path), name: str(tmp_path / "other")}
    assert registries(env, etc=etc) == {"other.example.com"}


def test_what_cannot_be_read_is_no_reason_to_stop(tmp_path: Path, etc: Path) -> None:
    (tmp_path / ".npmrc").mkdir()
    (tmp_path / ".pypirc").write_bytes(b"repository = \xff\nrepository = https://[::\nrepository = ${UNSET}/x\n")
    assert registries({"HOME": str(tmp_path)}, etc=etc) == set()
    assert registries({}, etc=etc) == set()


@given(st.text(alphabet=st.sampled_from("registyo@:=/ h[].\n\"'")))
def test_no_line_breaks_it(text: str) -> None:
    found = registries({"TWINE_REPOSITORY_URL": text}, etc=Path("/nonexistent"))
    assert all(re.search(re.escape(name), text) for name in found)


def test_a_rule_that_reaches_one_is_cautioned_of(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".npmrc").write_text(NPMRC)
    tell_cautions(parse_network([{"host": "team.example.com"}, {"host": "api.example.com"}]))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "note: team.example.com: team.example.com is a registry of packages that this machine is set to"
    )
