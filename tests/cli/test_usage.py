"""Mistakes on the command line itself, and the name that advice is given by."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dayfly.cli.called import command, typeable

MISTAKES = {
    ("run", "--timeot", "3"): "no such option: --timeot\n  did you mean --timeout? (dayfly run --help)",
    ("run", "--xyz"): "no such option: --xyz\n  dayfly run --help",
    ("rnu",): "no such command 'rnu'\n  did you mean run? (dayfly --help)",
    ("images", "shwo", "x"): "no such command 'shwo'\n  did you mean show? (dayfly images --help)",
    ("run", "a", "b"): "got unexpected extra argument (b)\n  dayfly run --help",
    ("shell", "x"): "got unexpected extra argument (x)\n  dayfly shell --help",
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A ``dayfly`` as an installer writes it."""
    file = tmp_path / "bin" / "dayfly"
    file.parent.mkdir()
    file.write_text(f"#!{sys.executable}\nfrom dayfly.cli import main\nmain()\n")
    file.chmod(0o755)
    return file


def call(*argv: str, path: Path | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join([str(path), "/usr/bin", "/bin"] if path else ["/usr/bin", "/bin"])
    environment = {**os.environ, "PATH": search}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=cwd, timeout=60, check=False)


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_two_lines(script: Path, arguments: tuple[str, ...]) -> None:
    done = call("dayfly", *arguments, path=script.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"dayfly: {MISTAKES[arguments]}\n"


@pytest.mark.parametrize(
    "arguments", [("run", "-c"), ("run", "--timeout", "x"), ("images", "show"), ("images", "rm"), ("run", "--cpus")]
)
def test_what_is_missing_or_no_number_is_two_lines_too(script: Path, arguments: tuple[str, ...]) -> None:
    done = call("dayfly", *arguments, path=script.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert [line[:8] for line in done.stderr.splitlines()] == ["dayfly: ", "  dayfly"]


@pytest.mark.parametrize("arguments", [(), ("run",), ("images",), ("images", "show")])
def test_both_options_give_the_help(script: Path, arguments: tuple[str, ...]) -> None:
    short, long = (call("dayfly", *arguments, option, path=script.parent) for option in ("-h", "--help"))
    assert (short.returncode, short.stderr) == (0, "")
    assert short.stdout == long.stdout
    assert "Usage: dayfly" in short.stdout


USAGES = {
    ("run",): "[FILE|-]",
    ("images", "build"): "[NAME]...",
    ("images", "rm"): "{NAME}...",
    ("stop",): "{ID}...",
    ("keys", "create"): "{TENANT}",
    ("secrets", "set"): "{NAME}",
    ("journal", "egress"): "[ID]",
}


@pytest.mark.parametrize(("arguments", "usage"), USAGES.items())
def test_arguments_are_named_as_in_the_pages_and_marked_once(
    script: Path, arguments: tuple[str, ...], usage: str
) -> None:
    told = call("dayfly", *arguments, "--help", path=script.parent).stdout
    assert f"Usage: dayfly {' '.join(arguments)} [OPTIONS] {usage}\n" in re.sub(r" *\n", "\n", told)


@pytest.mark.parametrize("arguments", [(), ("images",)])
def test_no_command_gives_the_help(script: Path, arguments: tuple[str, ...]) -> None:
    done = call("dayfly", *arguments, path=script.parent)
    assert done.returncode == 2
    assert "Usage: dayfly" in done.stdout + done.stderr


def test_advice_names_the_path_that_was_typed(script: Path) -> None:
    place = script.parent.parent
    advice = [call(*argv, "run", "--xyz", cwd=place).stderr.splitlines()[1] for argv in (
        ("bin/dayfly",), (str(script),), (sys.executable, "-m", "dayfly"),
    )]  # fmt: skip
    assert advice == ["  bin/dayfly run --help", f"  {script} run --help", f"  {sys.executable} -m dayfly run --help"]


def test_advice_is_rewritten_only_where_it_is_to_be_typed(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["my dir/dayfly", "run"])
    assert command() == "'my dir/dayfly'"
    assert typeable("run: dayfly setup --from go, or dayfly images build x") == (
        "run: 'my dir/dayfly' setup --from go, or 'my dir/dayfly' images build x"
    )
    assert typeable("run: dayfly prove") == "run: 'my dir/dayfly' prove"
    for text in ("dayfly never uses it", "x/dayfly run", "dayfly runs", "python -m dayfly run"):
        assert typeable(text) == text
    monkeypatch.setattr(sys, "argv", ["a-program-that-uses-it"])
    assert command() == "dayfly"


def test_the_pip_that_is_advised_installs_where_dayfly_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("dayfly", "python", "pip"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    text = "pip install 'dayfly[objects]', or leave them out"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/dayfly"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert typeable(text) == "bin/python -m pip install 'dayfly[objects]', or leave them out"
    assert typeable("pip install six") == "pip install six"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert typeable(text) == text
