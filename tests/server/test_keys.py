"""Keys: shown once, kept as digests, valid until they expire or are revoked. And how failures are counted."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from dayfly.errors import HostError, InputError
from dayfly.server import keys as keys_module
from dayfly.server import state
from dayfly.server.errors import NoSuchKey
from dayfly.server.failures import BURST, INTERVAL, MAX_ADDRESSES, Failures
from dayfly.server.keys import Keys
from dayfly.server.state import MIGRATIONS, open_state


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(place: Path) -> Path:
    return place / "server" / "state.db"


def test_a_key_is_checked_by_its_secret(file: Path) -> None:
    keys = Keys(file)
    key, secret = keys.create("t", "laptop", ["run", "read"])
    assert keys.check(secret) == key
    assert (key.tenant, key.name, key.scopes, key.sandbox) == ("t", "laptop", ("read", "run"), None)
    other, _ = keys.create("u", "laptop", ["admin"])
    changed = secret[:-1] + ("q" if secret[-1] == "a" else "a")  # the last letter has one bit
    for wrong in (changed, secret[:-1], secret.upper(), secret.replace("dfk", "dft"), "", "dfk_"):
        assert keys.check(wrong) is None
    assert keys.check(secret.replace(key.id, other.id)) is None, "another key's id with this secret"


def test_the_file_holds_no_secret_and_is_for_its_owner_only(file: Path) -> None:
    _, secret = Keys(file).create("t", "laptop", ["run"])
    stored = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"laptop" in stored
    assert secret.split("_")[2].encode() not in stored
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_revoked_key_fails_with_the_next_check_also_when_another_process_revoked_it(file: Path) -> None:
    keys, elsewhere = Keys(file), Keys(file)
    key, secret = keys.create("t", "laptop", ["run"])
    _, kept = keys.create("t", "desktop", ["run"])
    assert keys.check(secret)
    elsewhere.revoke(key.id, "t")
    assert keys.check(secret) is None
    assert keys.check(kept)
    assert [one.revoked is not None for one in keys.list("t")] == [True, False]


def test_another_tenants_key_cannot_be_revoked_or_listed(file: Path) -> None:
    keys = Keys(file)
    key, secret = keys.create("t", "laptop", ["run"])
    with pytest.raises(NoSuchKey):
        keys.revoke(key.id, "u")
    assert keys.check(secret)
    assert keys.list("u") == []
    assert [one.id for one in keys.list()] == [key.id]


def test_a_key_ends_when_it_expires(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, now=clock)
    _, secret = keys.create("t", "laptop", ["run"], expires_in=60)
    clock.now += 59.9
    assert keys.check(secret)
    clock.now += 0.1
    assert keys.check(secret) is None


def test_the_wall_clock_decides_on_an_expiry_and_brings_nothing_revoked_back(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, now=clock)
    (key, secret), (_, short) = keys.create("t", "n", ["run"]), keys.create("t", "n", ["run"], expires_in=60)
    clock.now += 3600
    assert (keys.check(short), keys.check(secret)) == (None, key)
    keys.revoke(key.id)
    clock.now -= 7200
    assert keys.check(short), "as long as the clock says that it is valid"
    assert keys.check(secret) is None


def test_while_another_process_holds_the_file_keys_are_known_but_none_is_made(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(file)
    key, secret = keys.create("t", "n", ["run"])
    monkeypatch.setattr(state, "BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (keys.check(secret), keys.list()) == (key, [key])
        for change in (lambda: keys.create("t", "n", ["run"]), lambda: keys.revoke(key.id)):
            with pytest.raises(HostError, match="locked"):
                change()
        other.execute("ROLLBACK")
    keys.revoke(key.id)
    assert keys.check(secret) is None


def test_a_file_that_cannot_be_read_is_a_clear_error(file: Path) -> None:
    keys = Keys(file)
    _, secret = keys.create("t", "n", ["run"])
    with closing(sqlite3.connect(file)) as other:
        other.execute("DROP TABLE secrets")
    for ask in (lambda: keys.check(secret), keys.list, lambda: keys.revoke("x")):
        with pytest.raises(HostError, match="no such table"):
            ask()


def test_a_token_is_for_one_sandbox_and_no_key_of_the_tenant(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, now=clock)
    maker, _ = keys.create("t", "n", ["run"])
    token, secret = keys.create_token("t", "box", 60, maker.id)
    assert keys.check(secret) == token
    assert (token.sandbox, token.scopes, keys.list("t")) == ("box", ("run",), [maker])
    clock.now += 61
    keys.create_token("t", "box", 60, maker.id)
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM secrets").fetchone() == (2,), "expired ones are swept"


def test_a_token_ends_with_the_key_that_made_it_or_by_itself(file: Path) -> None:
    clock = Clock()
    keys = Keys(file, now=clock)
    short, _ = keys.create("t", "n", ["run"], expires_in=10)
    long, _ = keys.create("t", "n", ["run"])
    (_, of_short), (_, of_long), (alone, single) = (
        keys.create_token("t", "box", 600, by.id) for by in (short, long, long)
    )
    assert all(keys.check(secret) for secret in (of_short, of_long, single))
    with pytest.raises(NoSuchKey):
        keys.revoke(alone.id, "another")
    keys.revoke(alone.id, "t")
    clock.now += 11
    assert [keys.check(secret) is not None for secret in (of_short, of_long, single)] == [False, True, False]
    keys.revoke(long.id)
    assert keys.check(of_long) is None


def test_a_tenant_has_so_many_keys_and_the_oldest_that_is_over_makes_room(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "MOST", {"key": 3, "token": 2})
    clock = Clock()
    keys = Keys(file, now=clock)
    made = []
    for _ in range(3):
        made.append(keys.create("t", "n", ["run"])[0].id)
        clock.now += 1
    with pytest.raises(InputError, match="3 valid keys"):
        keys.create("t", "n", ["run"])
    keys.create("another", "n", ["run"])
    for one in made[1:]:
        keys.revoke(one)
    last, _ = keys.create("t", "n", ["run"])
    assert [one.id for one in keys.list("t")] == [made[0], made[2], last.id]
    tokens = [keys.create_token("t", "box", 60, last.id)[0] for _ in range(2)]
    with pytest.raises(InputError, match="2 valid tokens"):
        keys.create_token("t", "box", 60, last.id)
    keys.revoke(tokens[0].id)
    assert keys.create_token("t", "box", 60, last.id)


@pytest.mark.parametrize(
    ("tenant", "name", "scopes", "seconds"),
    [("", "n", ["run"], None), ("t", "x" * 257, ["run"], None), ("t\n", "n", ["run"], None), ("t", "n", [], None),
     ("t", "n", ["root"], None), ("t", "n", ["run"], 0), ("t", "n", ["run"], float("nan"))],
)  # fmt: skip
def test_what_makes_no_key_is_refused(
    file: Path, tenant: str, name: str, scopes: list[str], seconds: float | None
) -> None:
    keys = Keys(file)
    with pytest.raises(InputError):
        keys.create(tenant, name, scopes, expires_in=seconds)
    assert keys.list() == []


def test_an_older_file_is_brought_up_to_date_and_a_newer_one_is_refused(file: Path, place: Path) -> None:
    open_state(file).close()
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "MIGRATIONS", (*MIGRATIONS, "ALTER TABLE secrets ADD COLUMN more TEXT"))
        Keys(file).create("t", "n", ["run"])
        assert connection.execute("SELECT more FROM secrets").fetchone() == (None,)
    with pytest.raises(HostError, match="newer dayfly"):
        Keys(file)


def test_a_file_that_is_no_database_is_a_clear_error(file: Path) -> None:
    file.parent.mkdir(mode=0o700)
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(HostError, match="cannot be used"):
        Keys(file)


def test_too_many_failures_must_wait_and_are_forgiven_with_time() -> None:
    clock = Clock()
    failures = Failures(clock)
    assert [failures.note("192.0.2.1") for _ in range(BURST)] == [0.0] * BURST
    assert failures.note("192.0.2.1") == pytest.approx(INTERVAL)
    assert failures.note("192.0.2.1") == pytest.approx(INTERVAL), "waiting does not grow by trying"
    assert failures.note("192.0.2.2") == 0.0, "another address"
    clock.now += INTERVAL
    assert failures.note("192.0.2.1") == 0.0
    assert failures.note("192.0.2.1") > 0


def test_one_ipv6_network_is_one_address() -> None:
    failures = Failures(Clock())
    assert not any(failures.note(f"2001:db8::{number:x}") for number in range(BURST))
    assert failures.note("2001:db8::ffff") > 0
    assert failures.note("2001:db8:0:1::1") == 0.0


def test_addresses_that_are_remembered_are_bounded() -> None:
    failures = Failures(Clock())
    for number in range(MAX_ADDRESSES + 100):
        failures.note(f"name{number}")
    assert len(failures._forgiven_at) == MAX_ADDRESSES
