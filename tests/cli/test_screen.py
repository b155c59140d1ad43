"""What a terminal shows of results and ends."""

from __future__ import annotations

import pytest

from dayfly import Denial, Execution, Outcome, Result
from dayfly.cli.screen import MOST_DENIALS, Screen, tell_cautions, tell_denials, tell_limits, tell_outcome
from dayfly.network import parse_network
from dayfly.spec import Enforcement, ExecutionError, LimitReport

Capture = pytest.CaptureFixture[str]

DIED = ExecutionError("KernelDied", "the kernel ended with exit code 3", "")
SYNTAX = ExecutionError("SyntaxError", "line 3: syntax error: unexpected end of file", "line 3: syntax error")


def test_text_is_shown_whether_displayed_or_the_last_value(capsys: Capture) -> None:
    screen = Screen()
    screen.result(Result({"text/plain": "a  b", "text/html": "<table>"}))
    screen.result(Result({"text/plain": "7"}, is_main=True))
    assert capsys.readouterr() == ("a  b\n7\n", "")


def test_what_is_not_seen_is_told_once_with_what_saves_it(capsys: Capture) -> None:
    screen = Screen()
    for _ in range(2):
        screen.result(Result({"image/png": b"x"}))
    assert capsys.readouterr() == ("", "[image/png: dayfly run --out DIR saves it]\n")
    screen.result(Result({"image/gif": b"x"}))
    assert capsys.readouterr().err == "[image/gif]\n"
    Screen(saving=True).result(Result({"image/png": b"x", "text/plain": "<Figure>"}))
    assert capsys.readouterr() == ("<Figure>\n", "")


@pytest.mark.parametrize(
    ("execution", "line"),
    [
        (Execution(Outcome.OK), ""),
        (Execution(Outcome.OK, exit_code=0, state_survived=False), ""),
        (Execution(Outcome.OK, exit_code=3), "exit code 3\n"),
        (Execution(Outcome.OK, exit_code=0, limit="memory"), "limit: memory\n"),
        (Execution(Outcome.KERNEL_DIED, exit_code=3, error=DIED), "the interpreter ended; exit code 3\n"),
        (
            Execution(Outcome.KERNEL_DIED, error=ExecutionError("KernelDied", "it broke the protocol", "")),
            "the interpreter ended; it broke the protocol\n",
        ),
        (
            Execution(
                Outcome.ERROR, exit_code=2, stderr="x: line 2: syntax error: unexpected end of file", error=SYNTAX
            ),
            "exit code 2\n",
        ),
        (Execution(Outcome.ERROR, exit_code=2, error=SYNTAX), "line 3: syntax error\nexit code 2\n"),
    ],
)
def test_an_end_is_told_once_and_only_if_the_output_does_not(execution: Execution, line: str, capsys: Capture) -> None:
    Screen().finish(execution)
    tell_outcome(execution)
    assert capsys.readouterr() == ("", line)


def test_a_limit_that_nobody_keeps_is_always_told(capsys: Capture) -> None:
    limits = (
        LimitReport("disk", 1, Enforcement.WATCHED, "sampled"),
        LimitReport("cpus", 1, Enforcement.UNENFORCED, "accepted"),
    )
    tell_limits(limits, watched=False)
    assert capsys.readouterr().err == "limits: cpus NOT enforced\n"
    tell_limits(limits, watched=True)
    assert capsys.readouterr().err == "limits: disk watched (may be exceeded for a moment); cpus NOT enforced\n"


def test_what_was_denied_is_told_in_one_line_each_that_commands_no_terminal(capsys: Capture) -> None:
    tell_denials(
        (
            Denial("other.example.com", 443, "not_listed", "No rule names it.", "Ask.", count=3),
            Denial("a\x1b]0;owned\x07\n", None, "not_listed", "\u202eit is\nnot listed", "", claimed=True),
        )
    )
    assert capsys.readouterr() == (
        "",
        "denied: other.example.com:443: No rule names it. (asked 3 times)\n"
        "denied: a\\x1b]0;owned\\x07 : \\u202eit is not listed\n",
    )


def test_a_name_is_not_told_alone_beside_its_ports(capsys: Capture) -> None:
    tell_denials(
        (
            Denial("a.example.com", None, "not_listed", "No.", "", claimed=True),
            Denial("b.example.com", None, "not_listed", "No.", "", claimed=True),
            Denial("a.example.com", 443, "not_listed", "No.", ""),
        )
    )
    assert capsys.readouterr().err == "denied: b.example.com: No.\ndenied: a.example.com:443: No.\n"


def test_a_run_that_tries_every_name_does_not_scroll_its_output_away(capsys: Capture) -> None:
    tell_denials(tuple(Denial(f"{number}.example.com", 443, "not_listed", "no", "") for number in range(200)))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MOST_DENIALS + 1
    assert lines[-1] == "denied: 180 more, which --json lists"


def test_cautions_are_told_once(capsys: Capture) -> None:
    rules = [{"host": "s3.amazonaws.com"}, {"host": "s3.amazonaws.com", "ports": [80]}, {"host": "api.example.com"}]
    for network in ("none", rules):
        tell_cautions(parse_network(network))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: s3.amazonaws.com: s3.amazonaws.com is an object store")
