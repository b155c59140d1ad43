"""From the agent's ``Fail`` to the error that the caller sees. Claims of the agent become bounded, escaped text."""

from __future__ import annotations

from dayfly.errors import (
    BusyError,
    CannotStart,
    DayflyError,
    FileProblem,
    InputError,
    NoSuchProcess,
    PortRefused,
    SandboxFileError,
    UnknownLanguage,
)
from dayfly.sandbox.call import OperationFailed
from dayfly.wire import operations

__all__ = ["translate"]

_FILE_CODES = {problem.value for problem in FileProblem}
_MESSAGE_CHARS = 500


_BY_CODE: dict[str, type[InputError]] = {
    operations.UNKNOWN_LANGUAGE: UnknownLanguage,
    operations.NO_SUCH_PROCESS: NoSuchProcess,
    operations.NO_SUCH_CONTEXT: InputError,
    operations.BAD_REQUEST: InputError,
    operations.BUSY: BusyError,
    operations.CANNOT_START: CannotStart,
    operations.REFUSED: PortRefused,
}

_REMEDIES = {
    operations.NO_SUCH_PROCESS: "commands.list() shows those that are there",
    operations.NO_SUCH_CONTEXT: "contexts.list() shows those that are there",
    operations.BUSY: "try again when one of them has ended",
    operations.CANNOT_START: "look for its name, the image's programs, and the limits of memory and processes",
    operations.REFUSED: "start a server on it first, and wait until it listens",
}


def translate(failed: OperationFailed, path: str = "") -> DayflyError:
    """The public error for a refusal; ``path`` is what a file operation was about."""
    message = _plain(failed.message)
    if failed.code in _FILE_CODES:
        return SandboxFileError(FileProblem(failed.code), path, message)
    kind = _BY_CODE.get(failed.code)
    if kind is not None:
        return kind(message, remedy=_REMEDIES.get(failed.code))
    return DayflyError(
        f"the agent could not do it: {_plain(failed.code)}: {message}", remedy="try again, or open another sandbox"
    )


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text[:_MESSAGE_CHARS])
