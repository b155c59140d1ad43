"""Where a statement ends: judged from its text, or by the interpreter inside."""

from __future__ import annotations

import codeop
import json
import warnings
from collections.abc import Iterator

from dayfly import Sandbox
from dayfly.errors import DayflyError, InputError

__all__ = ["MAX_STATEMENT", "check_size", "is_complete", "is_leaving", "is_whole", "statements"]

MAX_STATEMENT = 16 * 1024 * 1024
"""Characters of one statement: a pipe without an end must not fill memory."""

_ASKING_SECONDS = 5.0

_LEAVING = {"exit", "quit", "exit()", "quit()"}

_UNFINISHED = {  # what an interpreter says when the text ends too early
    "bash": ("unexpected end of file", "unexpected EOF", "delimited by end-of-file"),
    "javascript": ("Unexpected end of input", "Unterminated template", "missing )"),
}


def is_leaving(language: str, statement: str) -> bool:
    """Whether it is one of the words that leave a shell, alone on its line."""
    word = statement.strip().removesuffix(";").rstrip()
    return word in _LEAVING or (language == "javascript" and word == ".exit")


def statements(language: str, lines: Iterator[str]) -> Iterator[str]:
    """Cut a program that comes on a pipe, so that each statement runs as soon as it is surely whole.

    Empty lines do not end a block here, as they do at a prompt: a line that is not indented does. Where nothing is known
    of a language's statements, all of it is one.
    """
    block: list[str] = []
    size = 0
    for line in lines:
        if block and language == "python" and _begins(line) and is_complete(language, [*block, ""]):
            yield "\n".join(block)
            block, size = [], 0
        if block or line.strip():
            size += len(line)
            check_size(size)
            block.append(line)
        if block and language == "python" and line.strip() and is_complete(language, block):
            yield "\n".join(block)
            block, size = [], 0
    if block:
        yield "\n".join(block)


def _begins(line: str) -> bool:
    """Whether a line begins a statement at the outermost level."""
    return line[:1].strip() != "" and not line.startswith(("else", "elif", "except", "finally", ")", "]", "}", "#"))


def check_size(size: int) -> None:
    if size > MAX_STATEMENT:
        remedy = "a file is for what is long: dayfly run FILE, and --in for data"
        raise InputError(f"a statement of more than {MAX_STATEMENT} characters", remedy=remedy)


def is_whole(sandbox: Sandbox, language: str, lines: list[str]) -> bool:
    """``is_complete``, and for languages that nobody knows here the interpreter inside is asked. Nothing is run."""
    if not is_complete(language, lines):
        return False
    asked = _ASKING.get(language)
    if asked is None:
        return True
    try:
        complaint = asked(sandbox, "\n".join(lines) + "\n")
    except DayflyError:  # gone, or too large to ask: running it will tell
        return True
    return not any(sign in complaint for sign in _UNFINISHED[language])


def _ask_bash(sandbox: Sandbox, text: str) -> str:
    asking = sandbox.commands.run(["bash", "-n"], input=text, env={"LC_ALL": "C"}, timeout=_ASKING_SECONDS)
    return asking.stderr.decode("utf-8", "replace")


def _ask_javascript(sandbox: Sandbox, text: str) -> str:
    """Parsed by the kernel of the session: another node would take as long to start as the statement to run."""
    complaint = _parse_javascript(sandbox, text)
    if not complaint.startswith("await is only valid"):
        return complaint
    wrapped = _parse_javascript(sandbox, f"(async () => {{{text}}})")
    met_the_wrapping = wrapped in ("Unexpected token ')'", "Unexpected token '}'")
    return "missing )" if met_the_wrapping else wrapped


def _parse_javascript(sandbox: Sandbox, text: str) -> str:
    code = f"void new (require('node:vm').Script)({json.dumps(text)})"
    execution = sandbox.run_code(code, language="javascript", timeout=_ASKING_SECONDS)
    return execution.error.value if execution.error is not None and execution.error.name == "SyntaxError" else ""


_ASKING = {"bash": _ask_bash, "javascript": _ask_javascript}


def is_complete(language: str, lines: list[str]) -> bool:
    """Whether to run what was typed so far. Only a guess: what is wrong or foreign counts as complete."""
    if lines[-1].endswith("\\"):
        return False
    if language != "python" or lines[0].startswith(("!", "%")):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command("\n".join(lines), symbol="exec" if _one_line(lines) else "single") is not None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return True  # the interpreter inside says what is wrong with it


def _one_line(lines: list[str]) -> bool:
    """``single`` refuses a second statement; a line such as ``a = 1; b = 2`` is one all the same."""
    return len(lines) == 1
