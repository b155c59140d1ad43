"""The public surface: what is there, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import dayfly
from dayfly.spec import Execution, Outcome, Result


def test_every_public_name_is_there_and_documented() -> None:
    for name in dayfly.__all__:
        assert getattr(dayfly, name) is not None
        assert name == "__version__" or getattr(dayfly, name).__doc__
    assert dir(dayfly) == sorted(dayfly.__all__)


def test_the_types_that_checkers_see_are_those_that_are_loaded() -> None:
    tree = ast.parse(Path(dayfly.__file__).read_text())
    seen = {
        alias.name: node.module.removeprefix("dayfly.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dayfly.")
        for alias in node.names
    }
    assert seen == dayfly._HOME
    assert sorted([*seen, "__version__"]) == sorted(dayfly.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dayfly, "Sandboxx")


def imported_by(statement: str) -> set[str]:
    script = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_dayfly_loads_nothing_heavy() -> None:
    assert {name for name in imported_by("import dayfly") if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "dayfly"
    }


def test_importing_the_client_needs_no_linux_and_no_manager() -> None:
    ours = {name for name in imported_by("import dayfly; dayfly.Sandbox") if name.startswith("dayfly.")}
    assert {name.split(".")[1] for name in ours} == {"client", "errors", "limits", "policy", "spec"}
    for name in ours - {"dayfly.client"}:
        for node in ast.parse(Path(importlib.import_module(name).__file__ or "").read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {"fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog"} & set(names), name


def test_an_execution_shows_itself_in_one_bounded_line() -> None:
    shown = repr(Execution(Outcome.OK, stdout="x" * 10_000 + "\x1b[2J", results=(Result({"text/plain": "1"}),)))
    assert len(shown) < 500
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert "ok" in shown


def test_the_documentation_names_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for shell in (dayfly.Files, dayfly.Commands, dayfly.Process, dayfly.Contexts, dayfly.Sandbox, dayfly.Port):
        for method in {name for name in vars(shell) if not name.startswith("_")}:
            assert re.search(rf"\b{method}\b", page), f"{shell.__name__}.{method}"
