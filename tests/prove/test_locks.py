"""Locks of another sandbox are seen where files are shared, or the probe could never turn red."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dayfly.prove.inside import neighbour


def test_what_is_locked_is_found_and_what_is_not_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(tmp_path / name) for name in ("one", "other")]
    for path in paths:
        Path(path).touch()
    monkeypatch.setattr(neighbour, "SHARED", paths)
    assert neighbour.locked() == (2, [])
    for held in neighbour.locked_all():
        assert neighbour.locked()[1]
        os.close(held)
    assert neighbour.locked() == (2, [])
