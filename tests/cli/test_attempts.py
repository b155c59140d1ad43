"""The attempts of the demonstration tell a wall from a mistake of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCE = (Path(__file__).parents[2] / "examples" / "attempts.py").read_text()


def test_only_what_a_wall_refuses_counts_as_denied(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(SOURCE.partition("\n\nattempt(")[0], names)
    attempt = names["attempt"]
    assert callable(attempt)
    attempt("a missing file", lambda: Path("/no/such/file").read_text())
    attempt("a mistake", lambda: 1 / 0)
    attempt("a success", lambda: "reached")
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["denied", "FAULT", "REACHED"]
