"""The keyring: a real library and backends of the tests' own, asked by a process that can be killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from dayfly.network import parse_network
from dayfly.owner import NOBODY
from dayfly.secrets import Entry, Environment, Files, Ring, StoreProblem, Vault
from tests.secrets.canary import CANARY, seen_in, told

ENTRY = Entry(name="crm", hosts=("api.example.com",), source="keyring")
ROOT = str(Path(__file__).parents[2])


def use(monkeypatch: pytest.MonkeyPatch, backend: str, file: Path) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", f"tests.secrets.rings.{backend}")
    monkeypatch.setenv("PYTHONPATH", ROOT)
    monkeypatch.setenv("RING_OF_THE_TESTS", str(file))


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ring:
    use(monkeypatch, "Kept", tmp_path / "ring")
    return Ring()


def test_a_value_is_kept_in_it_and_what_is_known_of_it_in_a_file(ring: Ring, tmp_path: Path) -> None:
    files = Files(tmp_path / "secrets")
    ring.write(ENTRY, SecretStr(CANARY))
    files.write(ENTRY, None)
    assert not any(seen_in(one.read_text()) for one in files.directory.iterdir())
    vault = Vault(files, Environment({}), ring)
    rules = parse_network([{"host": "api.example.com", "inject": {"secret": "crm"}}])
    assert vault.resolve(rules, NOBODY).whole() == {"crm": CANARY}
    ring.remove(ENTRY)
    ring.remove(ENTRY)  # of what is not there
    assert "there is no secret crm" in vault.resolve(rules, NOBODY).missing[0].reason


def test_each_owner_has_his_own(ring: Ring) -> None:
    other = ENTRY.model_copy(update={"tenant": "anna"})
    ring.write(ENTRY, SecretStr("everybody's"))
    ring.write(other, SecretStr("anna's"))
    assert [one and one.get_secret_value() for one in map(ring.value, (ENTRY, other))] == ["everybody's", "anna's"]


@pytest.mark.parametrize("backend", ["Failing", "Unfit", "Nobody"])
def test_one_that_does_not_work_is_a_clear_error_that_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str
) -> None:
    use(monkeypatch, backend, tmp_path / "ring")
    with pytest.raises(StoreProblem, match="the keyring cannot be used") as refused:
        Ring().write(ENTRY, SecretStr(CANARY))
    assert refused.value.remedy
    assert not seen_in(told(refused.value))
    assert not (tmp_path / "ring").exists()


def test_one_that_waits_for_a_person_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, "Waiting", tmp_path / "ring")
    with pytest.raises(StoreProblem, match="no answer") as refused:
        Ring(seconds=3).write(ENTRY, SecretStr(CANARY))
    assert not seen_in(told(refused.value))
    pid = int((tmp_path / "ring").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_is_not_told_the_secrets_of_the_environment(
    ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYFLY_SECRET_OTHER", CANARY)
    ring.write(ENTRY, SecretStr("value"))
    assert "HOME" in (tmp_path / "ring.environment").read_text()
    assert not seen_in((tmp_path / "ring.environment").read_text())


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayfly.secrets.ring.find_spec", lambda _: None)
    with pytest.raises(StoreProblem) as refused:
        Ring().value(ENTRY)
    assert refused.value.remedy == "pip install 'dayfly[keyring]'"
