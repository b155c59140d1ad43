"""The store's files: for this user only, whole or not there, and nothing is used that others could have touched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from dayfly.errors import HostError, InputError
from dayfly.owner import NOBODY, Owner
from dayfly.secrets import Entry, Files, StoreProblem
from dayfly.secrets import files as module
from tests.secrets.canary import CANARY, seen_in, told

VALUE = SecretStr(CANARY)


def entry(name: str = "crm", **more: object) -> Entry:
    return Entry.model_validate({"name": name, "hosts": ["api.example.com"], **more})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "data/secrets")


@pytest.fixture
def stored(files: Files) -> Path:
    files.write(entry(), VALUE)
    return files.directory / "crm"


def test_what_was_stored_is_there(files: Files, stored: Path) -> None:
    found = files.find("crm", NOBODY)
    assert found == entry()
    assert found is not None
    value = files.value(found)
    assert value is not None
    assert value.get_secret_value() == CANARY
    assert files.all() == ([entry()], [])


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_only_this_user_can_read_it_whatever_the_umask(files: Files, umask: int) -> None:
    before = os.umask(umask)
    try:
        files.write(entry(), VALUE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(one.stat().st_mode) for one in files.directory.iterdir()] == [0o600]


def test_an_owner_has_one_of_his_own_and_writing_again_replaces_it(files: Files, stored: Path) -> None:
    owners = [NOBODY, Owner("anna"), Owner("anna", "monday"), Owner("bert")]
    for one in owners:
        files.write(entry(tenant=one.tenant or None, conversation=one.conversation), SecretStr(f"value of {one}"))
    files.write(entry(tenant="anna"), SecretStr("newer"))
    assert len(files.all()[0]) == 4
    found = files.value(entry(tenant="anna"))
    assert found is not None
    assert found.get_secret_value() == "newer"
    assert files.find("crm", Owner("bert", "monday")) is None
    assert [files.remove("crm", Owner("anna")), files.remove("crm", Owner("anna"))] == [True, False]
    assert len(files.all()[0]) == 3


def test_without_a_directory_there_is_nothing(files: Files) -> None:
    assert files.find("crm", NOBODY) is None
    assert files.all() == ([], [])
    assert not files.remove("crm", NOBODY)
    assert not files.directory.exists()


def unreadable(files: Files) -> StoreProblem:
    with pytest.raises(StoreProblem) as refused:
        files.find("crm", NOBODY)
    assert not seen_in(told(refused.value))
    assert refused.value.remedy
    return refused.value


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644])
def test_a_file_that_others_can_use_is_refused(files: Files, stored: Path, mode: int) -> None:
    stored.chmod(mode)
    assert "others can use" in unreadable(files).message
    assert [len(found) for found in files.all()] == [0, 1]
    stored.chmod(0o600)
    assert files.find("crm", NOBODY) == entry()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o711, 0o755])
def test_a_directory_that_others_can_enter_is_refused_for_reading_and_for_writing(
    files: Files, stored: Path, mode: int
) -> None:
    files.directory.chmod(mode)
    assert "others can use" in unreadable(files).message
    with pytest.raises(HostError):
        files.write(entry("other"), VALUE)
    assert [one.name for one in files.directory.iterdir()] == ["crm"]


def test_a_link_is_refused_also_to_a_good_file(files: Files, stored: Path) -> None:
    good = stored.rename(stored.with_name("other"))
    stored.symlink_to(good)
    assert "is a link" in unreadable(files).message
    files.write(entry(), VALUE)  # which puts a file in its place
    assert files.find("crm", NOBODY) == entry()


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path, files: Files, stored: Path) -> None:
    files.directory.rename(tmp_path / "elsewhere")
    files.directory.symlink_to(tmp_path / "elsewhere")
    assert "is a link" in unreadable(files).message


def test_what_is_no_file_is_refused_and_nobody_waits_for_it(files: Files, stored: Path) -> None:
    stored.unlink()
    os.mkfifo(stored, 0o600)
    assert "is no file" in unreadable(files).message


def test_what_belongs_to_another_user_is_refused(files: Files, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert "another user" in unreadable(files).message


@pytest.mark.parametrize(
    "content",
    [
        "",
        CANARY,
        f'"{CANARY}"',
        f'{{"value": "{CANARY}"',
        json.dumps({"name": "crm", "hosts": ["api.example.com"]}),
        json.dumps({"name": "crm", "hosts": ["api.example.com"], "value": ["a"]}),
        json.dumps({"name": "crm", "hosts": ["api.example.com"], "value": f"{CANARY}\r\nX: 1"}),
        json.dumps({"name": "crm", "hosts": [CANARY], "value": CANARY}),
        json.dumps({"name": CANARY, "hosts": [], "value": CANARY}),
        json.dumps({"name": "other", "hosts": [], "value": CANARY}),
        json.dumps({"name": "crm", "tenant": "anna", "hosts": [], "value": CANARY}),
        json.dumps({"name": "crm", "hosts": [], "value": CANARY, CANARY: 1}),
        json.dumps({"name": "crm", "hosts": [], "value": CANARY, "source": "environment"}),
        json.dumps({"name": "crm", "hosts": [], "value": CANARY, "source": "keyring"}),
        "[" * 100_000,
        json.dumps({"name": "crm", "hosts": [], "value": "v" * 10_000}),
        json.dumps({"name": "crm", "hosts": [], "value": "value"}) + " " * 200_000 + "{",
    ],
    ids=lambda one: ascii(one[:30]),
)
def test_a_damaged_file_is_one_clear_error_that_shows_nothing_of_it(files: Files, stored: Path, content: str) -> None:
    stored.write_text(content)
    assert "is not as dayfly wrote it" in unreadable(files).message
    assert "crm" in files.all()[1][0].message


def test_a_file_of_no_text_is_damaged(files: Files, stored: Path) -> None:
    stored.write_bytes(b"\xff\xfe\0{" + CANARY.encode())
    assert "is not as dayfly wrote it" in unreadable(files).message


def test_one_that_cannot_be_written_leaves_what_was_there(
    files: Files, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostError, match="no space left") as refused:
        files.write(entry(), SecretStr(CANARY + "2"))
    assert not seen_in(told(refused.value))
    assert [one.name for one in files.directory.iterdir()] == ["crm"]
    assert CANARY + "2" not in stored.read_text()


def test_there_is_an_end_to_how_many_there_are(files: Files, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECRETS", 1)
    files.write(entry(), VALUE)
    with pytest.raises(InputError, match="1 secrets already"):
        files.write(entry("other"), VALUE)
