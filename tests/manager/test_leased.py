"""Directories of one process: held while it lives, cleared away when it has died, and never anybody else's."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dayfly.boundaries import forks
from dayfly.errors import HostError
from dayfly.manager import leased
from dayfly.manager.leased import LeasedDirectory, clear_abandoned


def test_what_a_killed_process_left_is_cleared_and_what_a_live_one_has_is_not(tmp_path: Path) -> None:
    for name in ("abandoned", "held", "half"):
        (tmp_path / name / "snapshot").mkdir(parents=True)
        (tmp_path / name / "snapshot" / "memory").write_bytes(b"x")
    held = os.open(tmp_path / "held", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    clear_abandoned(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["held"]
    os.close(held)
    clear_abandoned(tmp_path)
    assert not list(tmp_path.iterdir())
    clear_abandoned(tmp_path / "nothing")


def test_a_forked_child_does_not_hold_one(tmp_path: Path) -> None:
    mine = LeasedDirectory(tmp_path)
    with a_forked_child():
        forks.close(mine._lease)  # as at this process's end
        clear_abandoned(tmp_path)
        assert not mine.path.exists()


def test_it_is_removed_once_and_only_while_it_is_held(tmp_path: Path) -> None:
    mine = LeasedDirectory(tmp_path, "dayfly-")
    (mine.path / "memory").write_bytes(b"x")
    assert mine.path.stat().st_mode & 0o777 == 0o700
    clear_abandoned(tmp_path, "dayfly-")
    assert mine.path.exists()
    mine.close()
    mine.path.mkdir()
    mine.close()
    assert mine.path.exists(), "it is somebody else's now"


def test_what_has_another_name_or_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "dayfly-link").symlink_to(tmp_path / "other")
    (tmp_path / "dayfly-file").touch()
    clear_abandoned(tmp_path, "dayfly-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dayfly-file", "dayfly-link", "other"]


def test_another_users_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dayfly-theirs").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    clear_abandoned(tmp_path, "dayfly-")
    assert (tmp_path / "dayfly-theirs").exists()


def test_one_that_is_swept_away_before_it_is_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, swept = leased._hold, []

    def late(path: Path, how: int) -> int:
        if not swept:
            swept.append(path)
            path.rmdir()
        return hold(path, how)

    monkeypatch.setattr(leased, "_hold", late)
    mine = LeasedDirectory(tmp_path)
    assert mine.path.exists()
    assert [mine.path] != swept
    mine.close()


def test_a_parent_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError):
        LeasedDirectory(tmp_path / "nothing")


@contextmanager
def a_forked_child() -> Iterator[None]:
    """One that is there, past its fork, until the block ends."""
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        here.close()
        there.send(b"x")
        there.recv(1)
        os._exit(0)
    there.close()
    with here:
        here.recv(1)
        yield
    os.waitpid(child, 0)
