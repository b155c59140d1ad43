"""A wrong argument, of whatever type and to whatever method, is one clear ``DayflyError``, and nothing was done."""

from __future__ import annotations

import errno
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dayfly
from dayfly import (
    CannotStart,
    DayflyError,
    EndReason,
    InputError,
    LocalFileError,
    PortClosed,
    Sandbox,
    SandboxEnded,
    SandboxFileError,
    UnknownLanguage,
)
from dayfly.client.signals import signal_number
from dayfly.errors import FileProblem
from dayfly.sandbox.call import OperationFailed
from dayfly.sandbox.failures import translate
from dayfly.wire import operations
from tests.client.room import FakePort, Landlord, embedded_only

Call = Callable[[Any], object]

WRONG: dict[str, Call] = {
    "env of no mapping": lambda box: Sandbox(env=5, opener=Landlord()),  # type: ignore[arg-type]
    "env of pairs": lambda box: Sandbox(env=[("a",)], opener=Landlord()),  # type: ignore[arg-type]
    "read limit": lambda box: box.files.read("f", limit="1"),
    "negative limit": lambda box: box.files.read("f", limit=-1),
    "stream offset": lambda box: list(box.files.stream("f", offset="x")),
    "stream length": lambda box: list(box.files.stream("f", length=1.5)),
    "encoding": lambda box: box.files.read_text("f", encoding="no-such"),
    "encoding of no text": lambda box: box.files.read_text("f", encoding="base64"),
    "encoding of a wrong type": lambda box: box.files.read_text("f", encoding=5),
    "mode": lambda box: box.files.write("new", b"", mode="rw"),
    "append mode": lambda box: box.files.append("new", b"", mode="rw"),
    "no mode": lambda box: box.files.write("new", b"", mode=None),
    "no members": lambda box: box.files.download_directory("f", "/tmp/never-made", members=None),
    "pid to connect to": lambda box: box.commands.connect(10**30),
    "pid to signal": lambda box: box.commands.send_signal("7", 9),
    "mkdir mode": lambda box: box.files.mkdir("new", mode=-1),
    "text that is no UTF-8": lambda box: box.files.write("new", "\ud800"),
    "path that is no UTF-8": lambda box: box.files.read("\ud800"),
    "rename to": lambda box: box.files.rename("f", 5),
    "upload": lambda box: box.files.upload(5),
    "upload of bytes": lambda box: box.files.upload(b"f"),
    "upload of NUL": lambda box: box.files.upload("a\0b"),
    "download": lambda box: box.files.download("f", None),
    "download to nothing": lambda box: box.files.download("f", ""),
    "download limit": lambda box: box.files.download("f", "/tmp/never-made", limit="1"),
    "download_directory": lambda box: box.files.download_directory("f", 5),
    "members": lambda box: box.files.download_directory("f", "/tmp/never-made", members="1"),
    "upload_directory": lambda box: box.files.upload_directory(5, "d"),
    "input": lambda box: box.commands.run(["cat"], input=5),
    "input that is no UTF-8": lambda box: box.commands.run(["cat"], input="\ud800"),
    "command env": lambda box: box.commands.run(["cat"], env=5),
    "command env value": lambda box: box.commands.start(["cat"], env={"A": 1}),
    "cwd": lambda box: box.commands.run(["cat"], cwd=5),
    "pty": lambda box: box.commands.start(["cat"], pty=5),
    "pty of text": lambda box: box.commands.start(["cat"], pty=("a", 1)),
    "pty of three": lambda box: box.commands.start(["cat"], pty=(1, 2, 3)),
    "pty of nothing": lambda box: box.commands.start(["cat"], pty=(None, None)),
    "resize": lambda box: box.commands.start(["cat"]).resize(0, 70_000),
    "stdin": lambda box: box.commands.start(["cat"]).write_stdin(5),
    "signal name": lambda box: box.commands.send_signal(7, "TERMINATE"),
    "signal number": lambda box: box.commands.send_signal(7, 65),
    "signal of a wrong type": lambda box: box.commands.start(["cat"]).send_signal(None),
    "port data": lambda box: box.connect_port(1).write("text"),
    "callback": lambda box: box.run_code("say a", on_stdout=5),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_an_input_error(what: str, landlord: Landlord, sandbox: Sandbox) -> None:
    sandbox.files.write("f", b"x")
    with pytest.raises(InputError):
        WRONG[what](sandbox)
    assert list(landlord.rooms[0].files) == ["f"]


def test_content_of_a_wrong_kind_says_what_would_be_right(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match=r"not dict \(json.dumps"):
        sandbox.files.write("f", {"x": 1})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pieces of a file's content must be bytes, not str"):
        sandbox.files.write("f", ["x"])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["TERM", "SIGTERM", "sigterm", 15, signal.SIGTERM])
def test_a_signal_may_be_a_name_or_a_number(landlord: Landlord, sandbox: Sandbox, name: str | int) -> None:
    sandbox.commands.send_signal(7, name)
    assert landlord.rooms[0].signals == [15]
    assert type(landlord.rooms[0].signals[0]) is int


def test_every_name_has_linuxs_number() -> None:
    for one in signal.Signals:
        assert signal_number(one) == signal_number(int(one)) == int(one)
        if one < 32:
            assert signal_number(one.name) == int(one)


# --- files of this machine ---


def test_a_local_file_that_fails_is_named_and_is_an_os_error_too(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.files.write("f", b"x")
    missing = tmp_path / "missing" / "f"
    (tmp_path / "d").mkdir()
    calls: list[tuple[Callable[[], object], Path, int]] = [
        (lambda: sandbox.files.upload(missing), missing, errno.ENOENT),
        (lambda: sandbox.files.upload(tmp_path, "x"), tmp_path, errno.EISDIR),
        (lambda: sandbox.files.upload_directory(missing, "d"), missing, errno.ENOENT),
        (lambda: sandbox.files.download("f", missing), missing, errno.ENOENT),
        (lambda: sandbox.files.download_directory("f", missing), missing, errno.ENOENT),
    ]
    for call, path, number in calls:
        with pytest.raises(OSError, match="on this machine") as caught:
            call()
        assert isinstance(caught.value, LocalFileError)
        assert isinstance(caught.value, InputError)
        assert (caught.value.errno, caught.value.filename) == (number, str(path))
        assert str(path) in str(caught.value)


def test_a_local_place_that_may_not_be_looked_at_is_named(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    sandbox.files.write("f", b"x")
    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(LocalFileError, match="Permission denied"):
        sandbox.files.download("f", tmp_path / "f")


# --- what errors say ---


@pytest.mark.parametrize("reason", EndReason)
def test_an_end_says_what_to_do(reason: EndReason) -> None:
    error = SandboxEnded(reason.value)
    assert (error.remedy or "").startswith("resume it" if reason is EndReason.PAUSED else "open a new Sandbox")
    limits = {"idle_timeout": "idle_seconds", "max_lifetime": "lifetime_seconds", "memory_limit": "memory"}
    assert limits.get(reason.value, "") in (error.remedy or "")


def test_an_unknown_language_says_which_there_are(landlord: Landlord, sandbox: Sandbox) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise UnknownLanguage("this image has no kernel for 'cobol'")

    landlord.rooms[0].execute = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(UnknownLanguage) as caught:
        sandbox.run_code("1", language="cobol")
    assert caught.value.remedy == "this image has python"


REFUSALS = {
    operations.NO_SUCH_PROCESS: dayfly.NoSuchProcess,
    operations.BUSY: dayfly.BusyError,
    operations.CANNOT_START: dayfly.CannotStart,
    operations.REFUSED: dayfly.PortRefused,
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_from_inside_is_a_public_error_with_a_remedy(code: str) -> None:
    error = translate(OperationFailed(code, "no"))
    assert type(error) is REFUSALS[code]
    assert error.remedy


def test_a_file_error_does_not_repeat_itself() -> None:
    assert str(SandboxFileError(FileProblem.NOT_FOUND, "nope", "not found")) == "not found: 'nope'"
    assert str(SandboxFileError(FileProblem.DENIED, "f", "read-only")) == "denied: 'f' (read-only)"


@embedded_only
def test_a_port_that_was_closed_inside_is_a_public_error(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(self: FakePort, data: bytes) -> None:
        raise ConnectionResetError("gone")

    monkeypatch.setattr(FakePort, "write", gone)
    with sandbox.connect_port(1) as port, pytest.raises(PortClosed):
        port.write(b"x")


def test_errors_go_to_another_process_whole() -> None:
    for error in (
        CannotStart("no", remedy="yes"),
        SandboxEnded("crashed", "why"),
        SandboxFileError(FileProblem.DENIED, "f"),
        LocalFileError("f", OSError(errno.ENOENT, "No such file")),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert isinstance(again, DayflyError)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
