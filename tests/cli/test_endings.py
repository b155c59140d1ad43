"""Exit codes and the one clear line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import typer

from dayfly import (
    BoundaryUnusable,
    EndReason,
    Execution,
    FileProblem,
    InputError,
    Outcome,
    SandboxEnded,
    SandboxFileError,
    UnsafeTree,
)
from dayfly.cli.endings import Ending, complain, ending_of, guarded, polite_signals

EXECUTIONS = [
    (Execution(Outcome.OK), Ending.OK),
    (Execution(Outcome.OK, limit="output", dropped=9), Ending.OK),
    (Execution(Outcome.OK, exit_code=0, state_survived=False), Ending.OK),
    (Execution(Outcome.OK, exit_code=3), Ending.CODE_FAILED),
    (Execution(Outcome.OK, exit_code=0, limit="memory"), Ending.LIMIT),
    (Execution(Outcome.OK, exit_code=137, limit="memory"), Ending.LIMIT),
    (Execution(Outcome.ERROR), Ending.CODE_FAILED),
    (Execution(Outcome.ERROR, limit="output"), Ending.CODE_FAILED),
    (Execution(Outcome.ERROR, limit="memory"), Ending.LIMIT),
    (Execution(Outcome.KERNEL_DIED, exit_code=3), Ending.CODE_FAILED),
    (Execution(Outcome.KERNEL_DIED, signal=9, limit="memory"), Ending.LIMIT),
    (Execution(Outcome.TIMEOUT), Ending.LIMIT),
    (Execution(Outcome.CPU_LIMIT), Ending.LIMIT),
    (Execution(Outcome.INTERRUPTED), Ending.INTERRUPTED),
    (Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.MEMORY_LIMIT), Ending.LIMIT),
    (Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.MAX_LIFETIME), Ending.LIMIT),
    (Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.CRASHED), Ending.CODE_FAILED),
    (Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.PROTOCOL_VIOLATION), Ending.CODE_FAILED),
    (Execution(Outcome.SANDBOX_ENDED, end_reason=EndReason.BOUNDARY_LOST), Ending.FAILED),
]


@pytest.mark.parametrize(("execution", "ending"), EXECUTIONS)
def test_the_codes_own_failure_a_limit_and_dayflys_failure_differ(execution: Execution, ending: Ending) -> None:
    assert ending_of(execution) is ending


def test_every_outcome_has_an_ending() -> None:
    for outcome in Outcome:
        assert ending_of(Execution(outcome)) in set(Ending)


ERRORS: list[tuple[BaseException, int, str]] = [
    (InputError("no such thing", remedy="try another"), 2, "dayfly: no such thing\n  try another\n"),
    (BoundaryUnusable("no runsc", remedy="run: dayfly setup"), 4, "dayfly: no runsc\n  run: dayfly setup\n"),
    (SandboxEnded("memory_limit"), 3, "memory_limit"),
    (SandboxEnded("crashed"), 1, "crashed"),
    (SandboxEnded("no reason that exists"), 4, "no reason"),
    (SandboxFileError(FileProblem.DENIED, "f"), 1, "denied"),
    (UnsafeTree("evil"), 1, "evil"),
    (PermissionError(13, "Permission denied", "/x"), 4, "Permission denied: /x"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (RuntimeError("what\x1b[2J\nis this"), 4, "internal error: RuntimeError: what\\x1b[2J is this"),
]


def ending(action: Callable[[], int | None]) -> int:
    with pytest.raises(typer.Exit) as caught:
        guarded(action)()
    return caught.value.exit_code


@pytest.mark.parametrize(("error", "code", "line"), ERRORS)
def test_an_error_is_one_clear_line_and_its_exit_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYFLY_DEBUG", raising=False)

    def fail() -> None:
        raise error

    assert ending(fail) == code
    shown = capsys.readouterr()
    assert line in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_the_traceback_is_shown_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYFLY_DEBUG", "1")

    def fail() -> None:
        raise InputError("no such thing")

    assert ending(fail) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_command_without_a_complaint_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending(lambda: None) == 0
    assert ending(lambda: Ending.LIMIT) == 3
    assert capsys.readouterr().err == ""


Handling = Callable[[signal.Signals, signal.Handlers], None]


@pytest.fixture
def handling() -> Iterator[Handling]:
    """Sets what a signal does, for one test: whoever runs the tests may have had a wish of their own."""
    before: dict[signal.Signals, object] = {}

    def handle(number: signal.Signals, handler: signal.Handlers) -> None:
        before[number] = signal.signal(number, handler)

    yield handle
    for number, handler in before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_signal_unwinds_like_ctrl_c(number: signal.Signals, handling: Handling) -> None:
    handling(number, signal.SIG_DFL)
    unwound: list[bool] = []

    def wait() -> None:
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 5)
        finally:
            unwound.append(True)

    with pytest.raises(SystemExit) as caught:
        guarded(wait)()
    assert caught.value.code == 128 + number
    assert unwound == [True]
    assert signal.getsignal(number) == signal.SIG_DFL


def test_an_ignored_hangup_stays_ignored(handling: Handling) -> None:
    """As ``nohup`` has it."""
    handling(signal.SIGHUP, signal.SIG_IGN)
    assert polite_signals() == [signal.SIGTERM]

    def hang_up() -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    assert ending(hang_up) == 0


def test_a_complaint_is_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    complain("a\nb\x1b[0m", "c\nd")
    assert capsys.readouterr().err == "dayfly: a b\\x1b[0m\n  c d\n"
