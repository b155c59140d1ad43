"""Writing the journal, and finding whatever was done to it since."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import HostError, InputError, OutOfSpace
from dayfly.journal import (
    ENDED,
    OPENED,
    SERVER,
    Journal,
    Problem,
    Reader,
    Signer,
    audit,
    dump_heads,
    load_heads,
    writer,
)
from dayfly.journal.store import SignedHead

SECRET = bytes(range(32))
SIGNER = Signer(SECRET)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with closing(Journal(path, SIGNER)) as opened:
        yield opened


@pytest.fixture
def written(path: Path) -> Path:
    """Two sandboxes of two tenants, with three entries each."""
    with closing(Journal(path, SIGNER)) as journal:
        for chain, tenant in (("s1", "anna"), ("s2", "bert")):
            for number in range(3):
                contents = {"code": f"print({number})".encode()}
                journal.append(chain, "execution", {"n": number}, tenant=tenant, contents=contents).result(5)
    return path


def tamper(path: Path, *statements: str) -> None:
    """With the file's own guards taken away, as somebody with the disk in hand would, and put back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in guards:
            connection.execute(sql)


def problems(path: Path, exported: list[SignedHead] | None = None) -> list[Problem]:
    return audit(path, SIGNER.verifier, exported or [])


def test_what_is_appended_is_there_in_order_and_verifies(written: Path) -> None:
    found = [
        (row.entry.chain, row.entry.number, row.entry.tenant, row.entry.facts) for row in Reader(written).entries()
    ]
    assert [one[:3] for one in found if one[0] != SERVER] == [
        *(("s1", number, "anna") for number in (1, 2, 3)),
        *(("s2", number, "bert") for number in (1, 2, 3)),
    ]
    assert [row.entry.kind for row in Reader(written).entries(SERVER)] == ["chain.begun", "chain.begun"]
    assert [one.data for one in Reader(written).contents(2)] == [b"print(0)"]
    assert problems(written) == []


def test_it_goes_on_where_it_ended(written: Path) -> None:
    with closing(Journal(written, SIGNER)) as journal:
        assert journal.append("s1", "end", {}).result(5).number == 4
    assert problems(written) == []


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("UPDATE entries SET facts = '{}' WHERE chain = 's1' AND number = 2", ("s1", 2)),
        ("UPDATE entries SET at = at + 1 WHERE chain = 's1' AND number = 3", ("s1", 3)),
        ("UPDATE entries SET tenant = 'bert' WHERE chain = 's1' AND number = 1", ("s1", 1)),
        ("DELETE FROM entries WHERE chain = 's1' AND number = 2", ("s1", 2)),
        ("DELETE FROM entries WHERE chain = 's1' AND number = 1", ("s1", 1)),
        ("DELETE FROM entries WHERE chain = 's1' AND number = 3", ("s1", 3)),
        ("UPDATE entries SET number = CASE number WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE 3 END + 10 WHERE chain = 's1'", ("s1", 1)),
        ("DELETE FROM heads WHERE chain = 's1'", ("s1", 0)),
        ("UPDATE contents SET data = x'00' WHERE entry = 2", ("s1", 1)),
        ("INSERT INTO contents VALUES (99, 'x', x'', x'')", ("", 0)),
        ("INSERT INTO beginnings SELECT chain, number, hash, signature FROM heads WHERE chain = 's1'", ("s1", 3)),
        ("DELETE FROM contents WHERE entry = 2", ("s1", 1)),
        ("UPDATE contents SET name = 'kode' WHERE entry = 2", ("s1", 1)),
        ("UPDATE entries SET facts = CAST(x'ff' AS TEXT) WHERE chain = 's1' AND number = 2", ("s1", 2)),
    ],
)  # fmt: skip
def test_any_change_is_found(written: Path, statement: str, where: tuple[str, int]) -> None:
    tamper(written, statement)
    assert where in {(one.chain, one.number) for one in problems(written)}


def test_what_was_put_elsewhere_in_the_list_is_found(written: Path) -> None:
    """No hash holds an entry's id, and every list is in the order of ids."""
    with closing(Journal(written, SIGNER)) as journal:  # without contents, whose rows would tell as well
        for number in range(3):
            journal.append("s3", "note", {"n": number}).result(5)
    first, second, _ = (row.id for row in Reader(written).entries("s3"))
    assert problems(written) == [], "the control"
    tamper(written, f"UPDATE entries SET id = 1000 WHERE id = {first}")
    assert [row.entry.number for row in Reader(written).entries("s3")] == [2, 3, 1]
    assert [(one.chain, one.number) for one in problems(written)] == [("s3", 2)]
    tamper(written, f"UPDATE entries SET id = -1 WHERE id IN (1000, {second}) AND number = 1")
    assert 1 not in [row.entry.number for row in Reader(written).entries("s3")], "lists begin above 0"
    assert {(one.chain, one.number) for one in problems(written)} == {("s3", 0), ("s3", 1)}


def test_a_chain_that_vanished_as_a_whole_is_missed(written: Path) -> None:
    tamper(written, "DELETE FROM entries WHERE chain = 's2'", "DELETE FROM heads WHERE chain = 's2'")
    assert [(one.chain, one.number) for one in problems(written)][:1] == [("s2", 0)]


def recompute(path: Path, signer: Signer) -> None:
    """Everything an attacker can do who has the file, but not the key: change, and make all hashes right again."""
    tamper(path, "UPDATE entries SET kind = 'harmless' WHERE chain = 's1' AND number = 2")
    last = bytes(32)
    changes = []
    for row in list(Reader(path).entries("s1")):
        entry = type(row.entry)(*[*vars(row.entry).values()][:-1], last)
        last = entry.hash
        changes.append(
            f"UPDATE entries SET previous = x'{entry.previous.hex()}', hash = x'{last.hex()}' WHERE id = {row.id}"
        )
    head = entry.head
    signature = signer.sign(head).hex()
    tamper(
        path, *changes, f"UPDATE heads SET hash = x'{head.hash.hex()}', signature = x'{signature}' WHERE chain = 's1'"
    )


def test_a_chain_that_was_computed_anew_is_found_by_its_signature(written: Path) -> None:
    recompute(written, Signer(bytes(32)))
    assert [one.what for one in problems(written)] == ["the signature of its head is not this server's"]


def test_the_control_with_the_key_it_is_only_found_with_an_exported_head(written: Path) -> None:
    exported = Reader(written).heads()
    recompute(written, SIGNER)
    assert problems(written) == []
    assert [(one.chain, one.number) for one in problems(written, exported)] == [("s1", 3)]


def test_an_end_that_was_cut_off_with_its_heads_shows_against_an_exported_head(written: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(written)) as connection:
        old = "\n".join(connection.iterdump())
    with closing(Journal(written, SIGNER)) as journal:
        journal.append("s1", "end", {}).result(5)
    exported = Reader(written).heads()
    rolled_back = tmp_path / "old.db"
    with closing(sqlite3.connect(rolled_back)) as connection:
        connection.executescript(old)
    assert problems(rolled_back) == []
    assert {(one.chain, one.number) for one in problems(rolled_back, exported)} == {("s1", 4)}


def test_the_file_itself_refuses_changes(written: Path) -> None:
    with closing(sqlite3.connect(written)) as connection:
        for statement in ("UPDATE entries SET at = 0", "DELETE FROM entries WHERE id = 1"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def test_a_tenants_content_can_be_erased_and_the_chain_still_verifies(written: Path) -> None:
    with closing(Journal(written, SIGNER)) as journal:
        assert journal.erase("anna").result(5) == 3
    assert problems(written) == []
    left = {row.entry.tenant for row in Reader(written).entries() if Reader(written).contents(row.id)}
    assert left == {"bert"}
    with closing(sqlite3.connect(written)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"print(0)" in written.read_bytes(), "the control: bert's is still there"
    assert written.read_bytes().count(b"print(0)") == 1


def test_old_entries_can_be_retired_and_the_rest_still_verifies(path: Path) -> None:
    clock = iter(range(1000, 9000, 1000))
    with closing(Journal(path, SIGNER, now=lambda: next(clock))) as journal:
        for number in range(3):  # at 2000 (after the server's at 1000), 3000, 4000
            journal.append("s1", "execution", {"n": number}, contents={"code": b"x"}).result(5)
        assert journal.retire(3500).result(5) == 3
    assert [row.entry.number for row in Reader(path).entries("s1")] == [3]
    assert problems(path) == []
    tamper(path, "DELETE FROM entries WHERE chain = 's1'")
    assert problems(path) != []


def test_many_threads_at_once_lose_nothing_and_share_commits(journal: Journal, path: Path) -> None:
    def write(chain: str) -> None:
        for future in [journal.append(chain, "tick", {"n": number}) for number in range(50)]:
            future.result(30)

    threads = [threading.Thread(target=write, args=(f"s{number % 3}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(Reader(path).entries())) == 8 * 50 + 3
    assert problems(path) == []


def test_what_comes_within_a_moment_is_one_commit_and_closing_waits_for_no_more(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    journal._connection.set_trace_callback(commits.append)
    monkeypatch.setattr(writer, "GATHER_SECONDS", 60.0)  # more than this test may take: closing ends it
    both = [journal.append("s1", "execution.started", {}), journal.append("s1", "execution.ended", {})]
    journal.close()
    assert [future.result(0).number for future in both] == [1, 2]
    assert commits.count("COMMIT") == 1
    assert problems(path) == []


def test_ends_that_are_not_in_memory_any_more_are_read_again(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_HEADS", 2)
    for number in range(20):
        assert journal.append(f"s{number % 5}", "tick", {}).result(5).number == number // 5 + 1
        assert len(journal._heads) <= 4, "the cap, and what one commit touches: a chain and the server's"
    assert problems(path) == []


def test_a_waiter_that_gave_up_harms_nobody_else(journal: Journal, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the thread waits with the first
        journal.append("s1", "first", {})
        given_up = [journal.append("s1", "second", {}), journal.erase("anna"), journal.append("s1", "third", {})]
        assert [future.cancel() for future in given_up] == [True, True, True]
        other.execute("ROLLBACK")
    assert journal.append("s1", "fourth", {}).result(10).number == 2
    assert problems(path) == []


@pytest.mark.parametrize("bad", ["\udc80", "a\nb", "x" * 257])
def test_names_are_printable_text(journal: Journal, bad: str) -> None:
    for arguments in ({"chain": bad}, {"kind": bad}, {"tenant": bad}):
        with pytest.raises(InputError):
            journal.append(**{"chain": "s1", "kind": "k", "facts": {}, **arguments})
    assert journal.append("s1", "good", {}).result(5).number == 1


def test_a_server_entry_that_is_no_json_any_more_is_a_problem_and_no_crash(written: Path) -> None:
    tamper(written, "UPDATE entries SET facts = '{' WHERE chain = 'server' AND number = 1")
    assert ("server", 1) in {(one.chain, one.number) for one in problems(written)}


# --- the file itself ------------------------------------------------------------------------------------------------------

HIDDEN = "ALTER TABLE entries RENAME TO hidden; CREATE VIEW entries AS SELECT * FROM hidden WHERE number < 3"
"""Another table's rows under the name: whatever a reader asks, somebody else decides."""


def untyped(table: str, change: str) -> str:
    return f"CREATE TABLE t AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE t RENAME TO {table}; {change}"


SCHEMES = {
    "no guard": "DROP TRIGGER entries_stay",
    "another guard": "DROP TRIGGER entries_stay; CREATE TRIGGER entries_stay BEFORE UPDATE ON entries WHEN 0 BEGIN SELECT 1; END",
    "what eats": "CREATE TRIGGER eat AFTER INSERT ON entries BEGIN DELETE FROM contents; END",
    "what eats, on contents": "CREATE TRIGGER eat BEFORE INSERT ON Contents BEGIN SELECT RAISE(IGNORE); END",
    "a view": HIDDEN,
    "an index": "CREATE UNIQUE INDEX one_of_a_kind ON entries (hash)",
    "no index": "DROP INDEX entries_by_tenant",
    "no table": "DROP TABLE beginnings",
    "entries of any type": untyped("entries", "UPDATE entries SET previous = 'zz', chain = NULL WHERE id = 3"),
    "heads of any type": untyped("heads", "UPDATE heads SET signature = NULL"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_file_that_is_not_as_it_was_made_is_found_and_not_written(written: Path, scheme: str) -> None:
    with closing(Journal(written, SIGNER)) as journal:
        assert journal.append("s1", "end", {}).result(5), "the control"
    with closing(sqlite3.connect(written)) as connection:
        connection.executescript(SCHEMES[scheme])
    assert any(one.what.startswith("the journal's file is not as dayfly made it: ") for one in problems(written))
    if scheme != "no index":  # files of former versions have none, and it is made
        with pytest.raises(HostError, match=r"not as dayfly made it|no such table|views"):
            Journal(written, SIGNER)


def test_tables_of_others_are_their_own(written: Path) -> None:
    """Such as those of a program that copies the file elsewhere."""
    with closing(sqlite3.connect(written)) as connection:
        connection.executescript("CREATE TABLE _copied (id INTEGER PRIMARY KEY, seq INTEGER); ANALYZE")
    assert problems(written) == []
    Journal(written, SIGNER).close()


def hide(path: Path) -> None:
    """An entry that is in the table, and not in the index by which chains are read."""
    index, table = "name LIKE 'sqlite_autoindex_entries%'", "name = 'entries'"
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute(f"SELECT rowid, * FROM sqlite_schema WHERE {index}").fetchone()
        (sql,) = connection.execute(f"SELECT sql FROM sqlite_schema WHERE {table}").fetchone()
    describe(path, f"DELETE FROM sqlite_schema WHERE {index}", ())
    describe(path, f"UPDATE sqlite_schema SET sql = ? WHERE {table}", (sql.replace(", UNIQUE (chain, number)", ""),))
    tamper(
        path,
        "INSERT INTO entries SELECT 99, chain, 1, at, tenant, 'forged', facts, previous, hash FROM entries WHERE id = 2",
    )
    describe(path, f"UPDATE sqlite_schema SET sql = ? WHERE {table}", (sql,))
    describe(
        path, "INSERT INTO sqlite_schema (rowid, type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, ?, ?, ?)", row
    )


def describe(path: Path, statement: str, values: Sequence[object]) -> None:
    """Change how the file describes itself, which whoever opens it next believes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement, values)
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {version + 1}")


def test_an_entry_that_only_some_readers_see_is_found(written: Path) -> None:
    hide(written)
    assert Reader(written).last(1)[0].entry.kind == "forged"
    assert [row.id for row in Reader(written).entries("s1")].count(99) <= 1
    assert any("damaged" in one.what for one in problems(written))


def test_no_nested_text_ends_the_one_who_verifies(written: Path) -> None:
    deep = "[" * 200_000
    tamper(written, f"UPDATE entries SET facts = '{deep}'")
    assert ("server", 1) in {(one.chain, one.number) for one in problems(written)}
    with pytest.raises(InputError, match="no exported heads"):
        load_heads(deep)


def test_what_sqlite_finds_damaged_is_a_clear_error(written: Path) -> None:
    tamper(written, "UPDATE entries SET facts = CAST(x'ff' AS TEXT) WHERE id = 2")
    for read in (Reader(written).entries, lambda: Reader(written).last(100)):
        with pytest.raises(HostError, match="cannot be used"):
            list(read())


def test_what_was_erased_before_all_that_is_left_of_the_servers_entries_is_no_problem(path: Path) -> None:
    times = iter([10, 9000, 10, 20, 9000, 9001, 9002, *range(9003, 9020)])
    with closing(Journal(path, SIGNER, now=lambda: next(times))) as journal:
        journal.append("s1", "note", {}, tenant="anna").result(5)
        journal.append("s1", "execution", {}, tenant="anna", contents={"code": b"x"}).result(5)  # its clock is set back
        assert journal.erase("anna").result(5) == 1
        journal.append("s1", "execution", {}, tenant="anna", contents={"code": b"y"}).result(5)
        assert journal.retire(5000).result(5) == 2, "the server's entries, that of the erasing among them"
    assert problems(path) == []
    tamper(path, "DELETE FROM contents")
    assert [(one.chain, one.number) for one in problems(path)] == [("s1", 3)], "the control"


def test_a_journal_has_one_writer(journal: Journal, path: Path) -> None:
    with pytest.raises(HostError, match="another dayfly"):
        Journal(path, SIGNER)


def test_what_cannot_be_written_is_an_error_and_harms_nobody_else(journal: Journal, path: Path) -> None:
    for facts in ({"x": float("nan")}, {"x": object()}, {"x": "y" * 100_000}):
        with pytest.raises(InputError):
            journal.append("s1", "bad", facts)
    assert journal.append("s1", "good", {}).result(5).number == 1


def failed(journal: Journal) -> HostError:
    """Once a try to write has failed."""
    while journal.failure is None:
        pass
    return journal.failure


def test_while_another_process_holds_the_file_entries_wait_in_their_order(journal: Journal, path: Path) -> None:
    journal.append("s1", "first", {}).result(5)
    journal._connection.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [journal.append("s1", f"waits {number}", {}) for number in range(3)]
        assert "locked" in str(failed(journal))
        waiting.append(journal.append("s1", "waits 3", {}))
        assert not any(one.done() for one in waiting)
        other.execute("ROLLBACK")
    assert [one.result(10).number for one in waiting] == [2, 3, 4, 5]
    assert [row.entry.kind for row in Reader(path).entries("s1")][1:] == [f"waits {number}" for number in range(4)]
    assert (journal.failure, problems(path)) == (None, [])


def test_while_the_disk_is_full_entries_wait_and_the_chain_stays_whole(journal: Journal, path: Path) -> None:
    journal.append("s1", "first", {}).result(5)
    journal._connection.execute("PRAGMA max_page_count = 1")  # what SQLite says is the same as for a full disk
    waiting = journal.append("s1", "second", {"x": "y" * 60_000})
    failure = failed(journal)
    assert isinstance(failure, OutOfSpace)
    assert "full" in failure.message
    assert not waiting.done()
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    assert waiting.result(10).number == 2
    assert journal.append("s1", "third", {}).result(5).number == 3
    assert (journal.failure, problems(path)) == (None, [])


def test_a_journal_that_is_closed_meanwhile_says_how_much_is_lost(path: Path) -> None:
    journal = Journal(path, SIGNER)
    journal.append("s1", "first", {}).result(5)
    journal._connection.execute("PRAGMA query_only = ON")
    lost = [journal.append("s1", f"lost {number}", {}) for number in range(2 * writer.MAX_BATCH)]
    failed(journal)
    with pytest.raises(HostError, match=f"{2 * writer.MAX_BATCH} journal entries could not be written: .*readonly"):
        journal.close()
    assert all(isinstance(one.exception(0), HostError) for one in lost)
    journal.close()
    with closing(Journal(path, SIGNER)) as again:
        assert again.append("s1", "second", {}).result(5).number == 2
    assert problems(path) == []


def test_an_entry_that_can_never_be_written_keeps_no_other_from_it(journal: Journal, path: Path) -> None:
    journal.append("s1", "first", {}).result(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE heads SET hash = zeroblob(32) WHERE chain = 's1'")
        other.execute("BEGIN IMMEDIATE")  # until they are in one commit
        journal._heads.clear()
        journal.append("s2", "before", {})
        bad, good = journal.append("s1", "second", {}), journal.append("s2", "after", {})
        other.execute("ROLLBACK")
    assert good.result(10).number == 2
    with pytest.raises(HostError, match="does not end as this server wrote it"):
        bad.result(10)
    assert journal.failure is None


def test_after_close_there_is_a_clear_error(path: Path) -> None:
    journal = Journal(path, SIGNER)
    pending = journal.append("s1", "first", {})
    journal.close()
    journal.close()
    assert pending.result(0).number == 1
    with pytest.raises(HostError, match="closed"):
        journal.append("s1", "second", {})


WRITER = """
import sys
from pathlib import Path
from dayfly.journal import Journal, Signer
journal = Journal(Path(sys.argv[1]), Signer(bytes(range(32))))
number = 0
while True:
    batch = [journal.append(f"s{n}", "tick", {"n": number}, contents={"x": b"y" * 500}) for n in range(20)]
    for future in batch:
        future.result()
    number += 1
    print(number, flush=True)
"""


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(path: Path) -> None:
    for rounds in range(1, 6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout
        before = len(list(Reader(path).entries("s7"))) if path.exists() else 0
        acknowledged = [writer.stdout.readline() for _ in range(rounds * 3)][-1]
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(10)
        writer.stdout.close()
        assert problems(path) == []
        assert len(list(Reader(path).entries("s7"))) >= before + int(acknowledged)


def test_the_key_is_made_once_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    key = tmp_path / "key"
    first = Signer.load(key).verifier.public
    assert Signer.load(key).verifier.public == first
    assert key.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["key"]
    key.chmod(0o644)
    with pytest.raises(HostError, match="others may read"):
        Signer.load(key)


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33])
def test_a_key_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    key = tmp_path / "key"
    key.write_bytes(content)
    key.chmod(0o600)
    with pytest.raises(HostError, match="not a key"):
        Signer.load(key)


def test_a_chain_whose_head_is_not_ours_is_not_continued(written: Path) -> None:
    tamper(written, "UPDATE heads SET number = 2 WHERE chain = 's1'")
    with closing(Journal(written, SIGNER)) as journal:
        with pytest.raises(HostError, match="verify"):
            journal.append("s1", "end", {}).result(5)
        assert journal.append("s2", "end", {}).result(5).number == 4


def test_a_newer_file_is_refused(written: Path) -> None:
    with closing(sqlite3.connect(written)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(HostError, match="newer dayfly"):
        Journal(written, SIGNER)


# --- exported heads, and what has not ended ------------------------------------------------------------------------------


def test_exported_heads_come_back_as_they_were(written: Path) -> None:
    heads = Reader(written).heads()
    verifier, found = load_heads(dump_heads(SIGNER.verifier, heads))
    assert (verifier.public, found) == (SIGNER.verifier.public, heads)


def test_a_head_that_was_changed_on_the_way_is_refused(written: Path) -> None:
    text = dump_heads(SIGNER.verifier, Reader(written).heads())
    assert '"number": 3' in text
    with pytest.raises(InputError, match="was not signed"):
        load_heads(text.replace('"number": 3', '"number": 2'))


@given(st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_no_other_text_is_taken_for_heads(text: str) -> None:
    with pytest.raises(InputError):
        load_heads(text)


def test_what_has_not_ended_is_known_with_its_tenant(journal: Journal, path: Path) -> None:
    for chain in ("s1", "s2", "s3"):
        journal.append(chain, OPENED, {}, tenant=f"t{chain}")
    journal.append("s2", ENDED, {}).result(5)
    assert [(row.entry.chain, row.entry.tenant) for row in Reader(path).unended()] == [("s1", "ts1"), ("s3", "ts3")]


def test_the_last_entries_come_in_their_order(written: Path) -> None:
    everything = list(Reader(written).entries())
    assert Reader(written).last(3) == everything[-3:]
    assert Reader(written).last(1000) == everything
