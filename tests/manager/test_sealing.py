"""A sealed directory comes back whole or not at all, whoever had the file meanwhile."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayfly.errors import HostError, OutOfSpace
from dayfly.manager import sealing
from dayfly.manager.sealing import CHUNK, TAG, Sealed, seal, unseal

MUCH = 1 << 40


def make(directory: Path, **files: bytes) -> Path:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def content_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    """Five chunks."""
    plain = make(tmp_path / "plain", a=b"secret" * 700_000, b=b"more")
    return seal(plain, tmp_path / "file", MUCH)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 512, CHUNK, 3 * CHUNK + 17])
def test_all_of_it_comes_back(tmp_path: Path, size: int) -> None:
    files = {"pages": secrets.token_bytes(size), "life": b"{}", "empty": b""}
    sealed = seal(make(tmp_path / "plain", **files), tmp_path / "file", MUCH)
    unseal(sealed, tmp_path / "back")
    assert content_of(tmp_path / "back") == files
    assert sealed.size == sealed.file.stat().st_size
    assert {path.stat().st_mode & 0o777 for path in (sealed.file, *(tmp_path / "back").iterdir())} == {0o600}


def test_nothing_of_it_can_be_read_in_the_file_and_the_key_is_in_no_text(sealed: Sealed) -> None:
    content = sealed.file.read_bytes()
    assert b"secret" not in content
    assert bytes.fromhex(sealed.key) not in content
    assert sealed.key not in repr(sealed)


def test_each_is_under_another_key(sealed: Sealed, tmp_path: Path) -> None:
    other = seal(tmp_path / "plain", tmp_path / "other", MUCH)
    assert other.key != sealed.key
    assert other.file.read_bytes()[: CHUNK // 2] != sealed.file.read_bytes()[: CHUNK // 2]
    with pytest.raises(HostError, match="damaged"):
        unseal(replace(sealed, key=other.key), tmp_path / "back")


def flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


WHOLE = CHUNK + TAG
TAMPERING: dict[str, Callable[[bytes], bytes]] = {
    "a bit": flipped,
    "its last chunk": lambda data: data[: len(data) // WHOLE * WHOLE],
    "all but its first chunk": lambda data: data[:WHOLE],
    "a byte of its end": lambda data: data[:-1],
    "everything": lambda data: b"",
    "its first chunk": lambda data: data[WHOLE:],
    "the order of two": lambda data: data[WHOLE : 2 * WHOLE] + data[:WHOLE] + data[2 * WHOLE :],
    "one twice": lambda data: data[:WHOLE] + data,
    "more at its end": lambda data: data + b"x",
    "two files in one": lambda data: data + data,
}


@pytest.mark.parametrize("what", TAMPERING)
def test_whatever_is_changed_is_found(sealed: Sealed, tmp_path: Path, what: str) -> None:
    unseal(sealed, tmp_path / "before")
    sealed.file.write_bytes(TAMPERING[what](sealed.file.read_bytes()))
    with pytest.raises(HostError, match="damaged"):
        unseal(sealed, tmp_path / "back")


@given(place=st.integers(0), bit=st.integers(0, 7))
@settings(max_examples=50, deadline=None)
def test_any_bit_counts(tmp_path_factory: pytest.TempPathFactory, place: int, bit: int) -> None:
    directory = tmp_path_factory.mktemp("bits")
    sealed = seal(make(directory / "plain", a=b"x" * 100), directory / "file", MUCH)
    data = bytearray(sealed.file.read_bytes())
    data[place % len(data)] ^= 1 << bit
    sealed.file.write_bytes(data)
    with pytest.raises(HostError, match="damaged"):
        unseal(sealed, directory / "back")


@pytest.mark.parametrize("name", ["../out", "a/b", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Who has the key could have sealed anything; it is still only a few plain files."""
    add = sealing.tarfile.TarFile.add
    monkeypatch.setattr(
        sealing.tarfile.TarFile, "add", lambda tar, path, arcname, recursive: add(tar, path, name, recursive=recursive)
    )
    sealed = seal(make(tmp_path / "plain", a=b"x"), tmp_path / "file", MUCH)
    with pytest.raises(HostError, match="damaged"):
        unseal(sealed, tmp_path / "back")
    assert not (tmp_path / "out").exists()


def test_a_cap_is_kept_and_leaves_nothing(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", a=secrets.token_bytes(2 * CHUNK))
    needed = seal(plain, tmp_path / "file", MUCH).size
    (tmp_path / "file").unlink()
    with pytest.raises(OutOfSpace):
        seal(plain, tmp_path / "file", needed - 1)
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]
    assert seal(plain, tmp_path / "file", needed).size == needed


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sealing.os, "fsync", full)
    with pytest.raises(OutOfSpace):
        seal(make(tmp_path / "plain", a=b"x"), tmp_path / "file", MUCH)
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_what_is_not_there_any_more_is_an_error(sealed: Sealed, tmp_path: Path) -> None:
    sealed.discard()
    sealed.discard()
    with pytest.raises(HostError):
        unseal(sealed, tmp_path / "back")
