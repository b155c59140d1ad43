"""The public surface: what is there, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dayfly
from dayfly.spec import EndReason, Enforcement, Execution, ExecutionError, LimitReport, Outcome, ProcessResult, Result


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
    nouns = {"denial", "errors", "hosts", "limits", "network", "policy", "saved", "shared_hosts", "spec", "urls"}
    assert {name.split(".")[1] for name in ours} == {"client", *nouns}
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


def test_a_result_shows_types_and_sizes_and_no_content() -> None:
    assert (
        repr(Result({"text/plain": "<Figure>", "image/png": b"x" * 6100})) == "Result(text/plain 8 B, image/png 6.1 kB)"
    )
    assert repr(Result({"application/json": {"a": 1}, "text/html": "x" * 2_500_000})).endswith("text/html 2.5 MB)")
    hostile = repr(Result({f"{number}\x1b[2J{'x' * 1000}": "" for number in range(1000)}))
    assert len(hostile) < 500
    assert "\x1b" not in hostile


def test_a_command_shows_itself_in_one_bounded_line() -> None:
    shown = repr(ProcessResult(Outcome.ERROR, b"x" * 10_000, b"\x1b[2J", exit_code=3))
    assert len(shown) < 300
    assert "\x1b" not in shown
    assert "exit_code=3" in shown


def test_an_error_prints_as_its_traceback() -> None:
    error = ExecutionError("ZeroDivisionError", "division by zero", "Traceback:\n\tline 1\nZeroDivisionError\x1b[2J\n")
    assert str(error) == "Traceback:\n\tline 1\nZeroDivisionError\\x1b[2J"
    assert repr(error) == "ExecutionError('ZeroDivisionError: division by zero')"
    assert str(ExecutionError("KernelDied", "the kernel was killed", "")) == "KernelDied: the kernel was killed"


LIMITS = (
    LimitReport("memory", 2.0**30, Enforcement.ENFORCED, ""),
    LimitReport("run_cpu_seconds", 60.0, Enforcement.WATCHED, ""),
)
DIED = ExecutionError("KernelDied", "the kernel was killed by signal 9", "")
EXPLAINED = [
    (Execution(Outcome.OK, dropped=5), ""),
    (
        Execution(Outcome.TIMEOUT, duration=30.001, limit="run_seconds"),
        "stopped after 30 s, when its time was over (timeout= or limits.run_seconds); variables are kept",
    ),
    (
        Execution(Outcome.TIMEOUT, duration=0.5, state_survived=False, end_reason=EndReason.UNRESPONSIVE),
        "stopped after 0.5 s, when its time was over (timeout= or limits.run_seconds); "
        "the sandbox has ended: unresponsive; variables are lost",
    ),
    (
        Execution(Outcome.CPU_LIMIT, limit="run_cpu_seconds", limits=LIMITS),
        "stopped for its CPU time: limits.run_cpu_seconds is 60 s; variables are kept",
    ),
    (Execution(Outcome.INTERRUPTED), "interrupted by the caller; variables are kept"),
    (
        Execution(Outcome.KERNEL_DIED, error=DIED, signal=9, limit="memory", limits=LIMITS, state_survived=False),
        "the interpreter was killed for memory: limits.memory is 1 GiB; variables are lost",
    ),
    (
        Execution(Outcome.KERNEL_DIED, error=DIED, signal=11, state_survived=False),
        "the interpreter was ended by signal 11 (SIGSEGV); variables are lost",
    ),
    (
        Execution(Outcome.KERNEL_DIED, exit_code=7, state_survived=False),
        "the interpreter ended with exit code 7; variables are lost",
    ),
    (
        Execution(Outcome.KERNEL_DIED, error=DIED, state_survived=False),
        "the kernel was killed by signal 9; variables are lost",
    ),
    (
        Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.MEMORY_LIMIT, limit="memory", state_survived=False),
        "the sandbox has ended: memory_limit (limits.memory); variables are lost",
    ),
    (Execution(Outcome.ERROR, error=ExecutionError("KeyError", "'a\x1b\n'", "...")), "raised KeyError: 'a  '"),
    (
        Execution(Outcome.ERROR, error=ExecutionError("MemoryError", "", "..."), limit="memory", limits=LIMITS),
        "raised MemoryError (limits.memory is 1 GiB)",
    ),
    (Execution(Outcome.ERROR, exit_code=3), "ended with exit code 3"),
    (ProcessResult(Outcome.ERROR, exit_code=3), "ended with exit code 3"),
    (ProcessResult(Outcome.ERROR, signal=15), "was ended by signal 15 (SIGTERM)"),
    (ProcessResult(Outcome.CPU_LIMIT, limit="run_cpu_seconds"), "stopped for its CPU time: limits.run_cpu_seconds"),
    (ProcessResult(Outcome.OK, exit_code=0), ""),
]


@pytest.mark.parametrize(("ended", "sentence"), EXPLAINED)
def test_how_it_ended_is_one_sentence(ended: Execution | ProcessResult, sentence: str) -> None:
    assert ended.explanation == sentence


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_every_outcome_but_ok_is_explained(outcome: Outcome) -> None:
    assert Execution(outcome).explanation
    assert ProcessResult(outcome).explanation


def test_the_documentation_names_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for shell in (dayfly.Files, dayfly.Commands, dayfly.Process, dayfly.Contexts, dayfly.Sandbox, dayfly.Port):
        for method in {name for name in vars(shell) if not name.startswith("_")}:
            assert re.search(rf"\b{method}\b", page), f"{shell.__name__}.{method}"
