"""The download cache hands out exactly what was asked for, or nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dayfly.errors import HostError
from dayfly.images.cache import Cache


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file(directory: Path, content: bytes) -> Path:
    path = directory / "new"
    path.write_bytes(content)
    return path


def test_a_file_is_kept_under_its_digest_and_moved_away_from_where_it_was(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    new = file(tmp_path, b"abc")
    assert cache.find(digest(b"abc")) is None
    kept = cache.add(new, digest(b"abc"))
    assert kept.read_bytes() == b"abc"
    assert cache.get(digest(b"abc")) == kept
    assert not new.exists()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [digest(b"abc")]


def test_a_file_with_other_content_than_promised_is_refused_and_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    with pytest.raises(HostError, match="not the file that the index describes"):
        cache.add(file(tmp_path, b"evil"), digest(b"good"))
    assert not list((tmp_path / "cache").iterdir())


def test_a_damaged_entry_is_never_handed_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.add(file(tmp_path, b"abc"), digest(b"abc")).write_bytes(b"abd")
    assert cache.find(digest(b"abc")) is None
    with pytest.raises(HostError, match="vanished"):
        cache.get(digest(b"abc"))


def test_a_download_that_did_not_happen_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="was not downloaded"):
        Cache(tmp_path / "cache").add(tmp_path / "absent", digest(b""))
