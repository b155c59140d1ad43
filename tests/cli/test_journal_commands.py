"""``dayfly journal``, ``ps`` and ``logs`` over a journal that was really written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from dayfly.journal import Journal, Signer
from dayfly.policy import Policy
from tests.cli.leftovers import Dayfly

ANNA, BERT = "a" * 32, "b" * 32


@pytest.fixture
def home(data: Path) -> Path:
    """The server's directory, with two sandboxes in its journal: one that lives, one that has ended."""
    directory = data / "server"
    directory.mkdir(mode=0o700)
    with closing(Journal(directory / "journal.db", Signer.load(directory / "journal.key"))) as journal:
        for chain, tenant in ((ANNA, "anna"), (BERT, "bert")):
            facts = {"conversation": "c\x1b[31m", "template": None, "policy": {"image": "data"}}
            journal.append(chain, "sandbox.opened", facts, tenant=tenant)
        journal.append(
            ANNA, "execution.started", {"number": 1}, tenant="anna", contents={"code": b"print(1)\n# \x1b[2J"}
        )
        journal.append(ANNA, "execution.ended", {"outcome": "ok"}, tenant="anna", contents={"stdout": b"1\n"})
        journal.append(BERT, "sandbox.ended", {"reason": "stopped"}, tenant="bert").result(5)
    return directory


def tamper(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "journal.db")) as connection, connection:
        for trigger in ("entries_stay", "entries_remain"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement)


def test_what_was_written_is_verified(home: Path, dayfly: Dayfly) -> None:
    done = dayfly("journal", "verify")
    assert (done.returncode, done.stdout) == (0, "")
    assert "7 entries in 3 chains" in done.stderr


def test_a_change_is_found_and_told_with_its_place(home: Path, dayfly: Dayfly) -> None:
    tamper(home, f"UPDATE entries SET kind = 'harmless' WHERE chain = '{ANNA}' AND number = 2")
    done = dayfly("journal", "verify")
    assert done.returncode == 1
    assert f"{ANNA} 2:" in done.stdout


def test_an_end_that_was_cut_off_with_its_heads_shows_against_exported_ones(
    home: Path, dayfly: Dayfly, tmp_path: Path
) -> None:
    kept = tmp_path / "heads.jsonl"
    kept.write_text(dayfly("journal", "heads").stdout)
    assert dayfly("journal", "verify", "--heads", kept).returncode == 0
    with closing(Journal(home / "journal.db", Signer.load(home / "journal.key"))) as journal:
        journal.append(ANNA, "sandbox.ended", {"reason": "stopped"}).result(5)
    later = tmp_path / "later.jsonl"
    later.write_text(dayfly("journal", "heads").stdout)
    assert dayfly("journal", "verify", "--heads", kept).returncode == 0, "it has grown since"
    tamper(home, f"DELETE FROM entries WHERE chain = '{ANNA}' AND number = 4")
    done = dayfly("journal", "verify", "--heads", later)
    assert done.returncode == 1
    assert ANNA in done.stdout


def test_heads_that_another_key_signed_are_refused(home: Path, dayfly: Dayfly, tmp_path: Path) -> None:
    kept = tmp_path / "heads.jsonl"
    kept.write_text(dayfly("journal", "heads").stdout)
    (home / "journal.key").write_bytes(os.urandom(32))
    done = dayfly("journal", "verify", "--heads", kept)
    assert done.returncode == 2
    assert "not the one that signed" in done.stderr


@pytest.mark.parametrize("text", ["", "nothing", '{"public_key": "00"}', '{"public_key": 1}\n', "\x00"])
def test_a_file_that_holds_no_heads_is_refused(home: Path, dayfly: Dayfly, tmp_path: Path, text: str) -> None:
    other = tmp_path / "other"
    other.write_text(text)
    done = dayfly("journal", "verify", "--heads", other)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_what_lives_is_listed_and_nothing_of_it_is_obeyed_by_a_terminal(home: Path, dayfly: Dayfly) -> None:
    listed = dayfly("ps").stdout
    assert ANNA in listed
    assert BERT not in listed
    assert "\x1b" not in listed
    (row,) = [json.loads(line) for line in dayfly("ps", "--json").stdout.splitlines()]
    assert (row["sandbox"], row["state"]) == (ANNA, "ready")
    assert (row["chain"], row["tenant"], row["facts"]["policy"]["image"]) == (ANNA, "anna", "data")


def test_logs_show_code_and_output_safely(home: Path, dayfly: Dayfly) -> None:
    shown = dayfly("logs", ANNA).stdout
    assert "  code| print(1)" in shown
    assert "  stdout| 1" in shown
    assert "execution.ended outcome=ok" in shown
    assert "\x1b" not in shown


def test_entries_are_shown_and_exported(home: Path, dayfly: Dayfly) -> None:
    assert "sandbox.ended" in dayfly("journal", "show", BERT).stdout
    assert len(dayfly("journal", "tail", "-n", 2).stdout.splitlines()) == 3, "a line of titles"
    rows = [json.loads(line) for line in dayfly("journal", "export").stdout.splitlines()]
    assert [row["kind"] for row in rows if row["chain"] == ANNA] == [
        "sandbox.opened",
        "execution.started",
        "execution.ended",
    ]
    assert rows == sorted(rows, key=lambda row: row["id"])


def test_what_is_not_there_is_a_clear_error(home: Path, dayfly: Dayfly) -> None:
    for command in (("journal", "show", "nobody"), ("logs", "nobody")):
        done = dayfly(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert "knows of no" in done.stderr
    os.remove(home / "journal.db")
    done = dayfly("ps")
    assert done.returncode == 2
    assert "dayfly serve" in done.stderr


def test_a_tenants_contents_are_erased_and_all_still_verifies(home: Path, dayfly: Dayfly) -> None:
    assert "print(1)" in dayfly("logs", ANNA).stdout
    done = dayfly("journal", "erase", "anna")
    assert (done.returncode, "erased 2 pieces" in done.stderr) == (0, True)
    assert "print(1)" not in dayfly("logs", ANNA).stdout
    assert dayfly("journal", "verify").returncode == 0
    assert b"print(1)" not in (home / "journal.db").read_bytes()


def test_old_entries_are_retired_and_the_rest_still_verifies(home: Path, dayfly: Dayfly) -> None:
    assert "removed 0 entries" in dayfly("journal", "retire", "--days", "1").stderr
    done = dayfly("journal", "retire", "--days", "0")
    assert (done.returncode, "removed 8 entries" in done.stderr) == (0, True)
    assert dayfly("journal", "verify").returncode == 0
    assert dayfly("journal", "show", ANNA).returncode == 2


def test_nothing_is_erased_behind_a_running_servers_back(home: Path, dayfly: Dayfly) -> None:
    with closing(Journal(home / "journal.db", Signer.load(home / "journal.key"))):
        done = dayfly("journal", "erase", "anna")
    assert done.returncode == 4
    assert "DELETE /v1/journal/contents" in done.stderr


def test_a_backup_is_a_directory_that_can_stand_in_its_place(home: Path, dayfly: Dayfly, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with closing(Journal(home / "journal.db", Signer.load(home / "journal.key"))) as running:
        running.append("server", "tick", {}).result(5)
        assert dayfly("backup", str(target)).returncode == 0, "a running server is no hindrance"
    assert {path.stat().st_mode & 0o077 for path in (target, *target.rglob("*"))} == {0}
    assert dayfly("backup", str(target)).returncode == 2, "it is there already"
    before = dayfly("journal", "export").stdout
    for path in home.iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)
    for path in target.iterdir():
        path.rename(home / path.name)
    assert dayfly("journal", "export").stdout == before
    assert dayfly("journal", "verify").returncode == 0


def test_a_backup_that_cannot_be_written_leaves_nothing(home: Path, dayfly: Dayfly, tmp_path: Path) -> None:
    (home / "journal.db").write_bytes(b"no database " * 1000)
    assert dayfly("backup", str(tmp_path / "backup")).returncode == 4
    assert not (tmp_path / "backup").exists()
    assert dayfly("backup", str(tmp_path / "nothing" / "backup")).returncode == 4


def append_egress(home: Path) -> None:
    denied = {
        "host": "api.example.com",
        "port": 443,
        "code": "not_listed",
        "claimed": False,
        "began": "tls",
        "count": 3,
    }
    hostile = {"host": "\x1b[2J\u202e\n[[network]]", "port": 443, "code": "not_listed", "claimed": True, "count": 1}
    used = {
        "host": "web.example.com",
        "port": 80,
        "rule": 1,
        "address": "93.184.216.34",
        "why": "done",
        "count": 1,
        "sent": 5,
        "received": 7,
    }
    with closing(Journal(home / "journal.db", Signer.load(home / "journal.key"))) as journal:
        for facts in (denied, denied | {"count": 1}, hostile):
            journal.append(ANNA, "egress.denied", facts, tenant="anna")
        for _ in range(2):
            journal.append(ANNA, "egress.used", used, tenant="anna")
        journal.append(ANNA, "egress.more", {"count": 9}, tenant="anna")
        other = denied | {"host": "other.example.com"}
        journal.append(BERT, "egress.denied", other, tenant="bert").result(5)


def test_what_was_asked_of_the_network_is_summed_up(home: Path, dayfly: Dayfly) -> None:
    append_egress(home)
    done = dayfly("journal", "egress", ANNA)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [ANNA, "anna", "api.example.com", "443", "-", "denied:", "not_listed", "0", "0", "4"] in rows
    assert [ANNA, "anna", "web.example.com", "80", "1", "used:", "done", "10", "14", "2"] in rows
    assert "other.example.com" not in done.stdout
    assert done.stdout.replace("\n", "").isprintable()
    assert "9 more" in done.stderr
    found = [json.loads(line) for line in dayfly("journal", "egress", "--json", "--tenant", "bert").stdout.splitlines()]
    assert [(one["sandbox"], one["host"], one["denied"], one["count"]) for one in found] == [
        (BERT, "other.example.com", True, 3)
    ]
    assert dayfly("journal", "egress", "--days", "0").stdout == "", "all of it is older"
    assert len(dayfly("journal", "egress", "--days", "1").stdout.splitlines()) == 5
    assert dayfly("journal", "egress", "c" * 32).returncode == 2


def test_the_rules_that_would_have_allowed_it_are_ready_to_paste(home: Path, dayfly: Dayfly) -> None:
    append_egress(home)
    done = dayfly("journal", "egress", "--suggest")
    assert done.returncode == 0
    assert done.stdout.replace("\n", "").isprintable()
    found = tomllib.loads(done.stdout)["network"]
    assert found == [{"host": f"{name}.example.com", "ports": [443], "protocol": "tls"} for name in ("api", "other")]
    assert Policy.model_validate({"network": found})
    assert "[[network]]" in done.stdout.splitlines(), "in lines of its own"
    alone = tomllib.loads(dayfly("journal", "egress", ANNA, "--suggest").stdout)["network"]
    assert [rule["host"] for rule in alone] == ["api.example.com"]


def test_a_flood_in_the_journal_is_a_bounded_list(home: Path, dayfly: Dayfly) -> None:
    with closing(Journal(home / "journal.db", Signer.load(home / "journal.key"))) as journal:
        for number in range(2500):
            facts = {"host": f"n{number}.example.com", "port": 443, "code": "not_listed", "claimed": False, "count": 1}
            done = journal.append(ANNA, "egress.denied", facts, tenant="anna")
        done.result(30)
    listed = dayfly("journal", "egress")
    assert len(listed.stdout.splitlines()) == 2001
    assert "500 more" in listed.stderr
    assert len(tomllib.loads(dayfly("journal", "egress", "--suggest").stdout)["network"]) == 256
