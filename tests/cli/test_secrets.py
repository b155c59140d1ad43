"""``dayfly secrets``: values go in by stdin, a prompt, a variable or a file, and never come out."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from dayfly.network import parse_network
from dayfly.owner import NOBODY, Owner
from dayfly.secrets import Vault
from tests.cli.leftovers import Dayfly
from tests.secrets.canary import CANARY, seen_in
from tests.secrets.test_ring import use

HOST = ("--host", "api.example.com")


def stored(data: Path, owner: Owner = NOBODY) -> dict[str, str]:
    rules = parse_network([{"host": "api.example.com", "inject": {"secret": "crm"}}])
    return Vault.at(data / "secrets").resolve(rules, owner).values


def quiet(*done: subprocess.CompletedProcess[str]) -> None:
    assert not any(seen_in(one.stdout + one.stderr) for one in done)


def test_a_value_goes_in_and_never_comes_out(dayfly: Dayfly, data: Path) -> None:
    set_once = dayfly("secrets", "set", "crm", *HOST, "--host", "*.Example.org", input=CANARY + "\n")
    assert (set_once.returncode, set_once.stdout) == (0, "")
    assert "stored crm, for api.example.com, *.example.org" in set_once.stderr
    assert stored(data) == {"crm": CANARY}
    listed, as_json = dayfly("secrets", "list"), dayfly("secrets", "list", "--json")
    assert listed.stdout.split("\n")[1].split() == ["crm", "api.example.com,", "*.example.org", "-", "-", "file", "now"]
    [one] = json.loads(as_json.stdout)
    assert one.keys() == {"name", "hosts", "tenant", "conversation", "source", "created"}
    removed = dayfly("secrets", "rm", "crm")
    assert (removed.returncode, stored(data)) == (0, {})
    assert dayfly("secrets", "rm", "crm").returncode == 2
    quiet(set_once, listed, as_json, removed)


def test_of_a_variable_and_of_a_file(dayfly: Dayfly, data: Path, tmp_path: Path) -> None:
    from_variable = dayfly("secrets", "set", "crm", *HOST, "--from-env", "TOKEN", TOKEN=CANARY)
    assert stored(data) == {"crm": CANARY}
    (tmp_path / "token").write_text(f"{CANARY}2\r\n")
    from_file = dayfly("secrets", "set", "crm", *HOST, "--from-file", "token")
    assert stored(data) == {"crm": CANARY + "2"}
    quiet(from_variable, from_file)


def test_an_owner_has_one_of_his_own(dayfly: Dayfly, data: Path) -> None:
    dayfly("secrets", "set", "crm", *HOST, input="everybodys")
    dayfly("secrets", "set", "crm", *HOST, "--tenant", "anna", "--conversation", "monday", input="mondays")
    assert stored(data, Owner("anna", "monday")) == {"crm": "mondays"}
    assert stored(data, Owner("anna")) == {"crm": "everybodys"}
    assert "anna    monday" in dayfly("secrets", "list").stdout
    assert (
        "anna, conversation monday"
        in dayfly("secrets", "rm", "crm", "--tenant", "anna", "--conversation", "monday").stderr
    )
    assert stored(data, Owner("anna", "monday")) == {"crm": "everybodys"}


@pytest.mark.parametrize(
    ("arguments", "value", "line"),
    [
        (("crm", *HOST, CANARY), "x", "a value is no argument"),
        (("crm",), CANARY, "say which hosts"),
        (("crm", "--host", "*"), CANARY, "hosts"),
        (("Crm", *HOST), CANARY, "not a secret's name"),
        (("crm", *HOST, "--conversation", "monday"), CANARY, "say of which tenant"),
        (("crm", *HOST), "", "is empty"),
        (("crm", *HOST), f"{CANARY}\nsecond", "line break"),
        (("crm", *HOST), CANARY * 1000, "longer than"),
        (("crm", *HOST, "--from-env", "NO_SUCH_VARIABLE"), CANARY, "no variable 'NO_SUCH_VARIABLE'"),
        (("crm", *HOST, "--from-file", "missing"), CANARY, "cannot read missing"),
        (("crm", *HOST, "--from-file", "a", "--from-env", "b"), CANARY, "two values"),
        (("crm", *HOST, f"--value={CANARY}"), "x", "no such option: --value"),
    ],
    ids=lambda one: ascii(one)[:40] if isinstance(one, str) else None,
)
def test_a_mistake_is_one_line_that_shows_nothing(
    dayfly: Dayfly, data: Path, arguments: tuple[str, ...], value: str, line: str
) -> None:
    done = dayfly("secrets", "set", *arguments, input=value, DAYFLY_DEBUG="1")
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    quiet(done)
    assert stored(data) == {}


def test_bytes_that_are_no_text_are_refused(dayfly: Dayfly, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(CANARY.encode() + b"\xff\xfe")
    done = dayfly("secrets", "set", "crm", *HOST, "--from-file", "token", DAYFLY_DEBUG="1")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr
    quiet(done)


def test_what_others_could_read_is_named_with_what_to_do(dayfly: Dayfly, data: Path) -> None:
    dayfly("secrets", "set", "crm", *HOST, input=CANARY)
    dayfly("secrets", "set", "other", *HOST, input=CANARY)
    (data / "secrets/crm").chmod(0o644)
    done = dayfly("secrets", "list")
    assert (done.returncode, "other" in done.stdout, "crm" in done.stdout) == (0, True, False)
    assert "others can use" in done.stderr
    assert f"chmod 600 {data}/secrets/crm" in done.stderr
    quiet(done)


def test_the_environments_are_listed_too(dayfly: Dayfly) -> None:
    done = dayfly("secrets", "list", DAYFLY_SECRET_A_B=CANARY, DAYFLY_SECRET_A_B__HOSTS="api.example.com")
    assert done.stdout.split("\n")[1].split() == ["a_b", "api.example.com", "-", "-", "environment", "-"]
    quiet(done)


def test_the_service_may_have_them_elsewhere(dayfly: Dayfly, data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'data = "{tmp_path}/service"\n')
    (tmp_path / "b.toml").write_text(f'data = "{tmp_path}/service"\nsecrets = "{tmp_path}/elsewhere"\n')
    for file in ("a.toml", "b.toml"):
        assert dayfly("secrets", "set", "crm", *HOST, "--config", file, input=CANARY).returncode == 0
    assert stored(data) == {}
    for place in ("service/secrets", "elsewhere"):
        assert [one.name for one in (tmp_path / place).iterdir()] == ["crm"]
        assert (tmp_path / place).stat().st_mode & 0o777 == 0o700


def test_a_keyring_keeps_the_value_and_gives_it_back(
    dayfly: Dayfly, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, "Kept", tmp_path / "ring")
    more = {name: os.environ[name] for name in ("PYTHON_KEYRING_BACKEND", "PYTHONPATH", "RING_OF_THE_TESTS")}
    done = dayfly("secrets", "set", "crm", *HOST, "--keyring", input=CANARY, **more)
    assert (done.returncode, stored(data)) == (0, {"crm": CANARY})
    assert CANARY not in (data / "secrets/crm").read_text()
    assert dayfly("secrets", "set", "crm", *HOST, input="in-a-file", **more).returncode == 0
    assert stored(data) == {"crm": "in-a-file"}
    assert json.loads((tmp_path / "ring").read_text()) == {}  # nothing stays in it
    dayfly("secrets", "set", "crm", *HOST, "--keyring", input=CANARY, **more)
    dayfly("secrets", "rm", "crm", **more)
    assert (stored(data), json.loads((tmp_path / "ring").read_text())) == ({}, {})
    quiet(done)


def test_without_a_keyring_nothing_is_stored(dayfly: Dayfly, data: Path) -> None:
    backend = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    done = dayfly("secrets", "set", "crm", *HOST, "--keyring", input=CANARY, **backend)
    assert done.returncode == 4
    assert "the keyring cannot be used: there is none here" in done.stderr
    assert not (data / "secrets").exists()
    quiet(done)


def test_on_a_terminal_it_is_asked_for_and_not_shown(environment: dict[str, str], data: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dayfly", "secrets", "set", "crm", *HOST]
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        seen = read_until(ours, b"value of crm: ")
        os.write(ours, CANARY.encode() + b"\n")
        seen += read_until(ours, None)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    assert stored(data) == {"crm": CANARY}
    assert not seen_in(seen.decode("utf-8", "replace"))


def read_until(terminal: int, text: bytes | None) -> bytes:
    """Or to the end."""
    seen = b""
    while text is None or text not in seen:
        if not select.select([terminal], [], [], 60)[0]:
            raise TimeoutError(seen)
        try:
            seen += os.read(terminal, 1000)
        except OSError:  # the other side is closed
            break
    return seen
