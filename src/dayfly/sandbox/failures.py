"""From the agent's ``Fail`` to the error that the caller sees. Claims of the agent become bounded, escaped text."""

from __future__ import annotations

from dayfly.errors import DayflyError, FileProblem, InputError, SandboxFileError, UnknownLanguage
from dayfly.sandbox.link import OperationFailed
from dayfly.wire import operations

__all__ = ["BusyError", "CannotStart", "NoSuchProcess", "PortRefused", "translate"]

_FILE_CODES = {problem.value for problem in FileProblem}
_MESSAGE_CHARS = 500


class BusyError(InputError):
    """Too many calls are under way on this sandbox; try again when one has ended."""

    retryable = True
    http_status = 429


class CannotStart(InputError):
    """The program does not exist inside, may not be run, or a limit forbids another process."""


class NoSuchProcess(InputError):
    """No process of that number was started through ``commands``, or it is forgotten."""

    http_status = 404


class PortRefused(InputError):
    """Nobody listens on that port inside."""

    retryable = True


_BY_CODE: dict[str, type[InputError]] = {
    operations.UNKNOWN_LANGUAGE: UnknownLanguage,
    operations.NO_SUCH_PROCESS: NoSuchProcess,
    operations.NO_SUCH_CONTEXT: InputError,
    operations.BAD_REQUEST: InputError,
    operations.BUSY: BusyError,
    operations.CANNOT_START: CannotStart,
    operations.REFUSED: PortRefused,
}


def translate(failed: OperationFailed, path: str = "") -> DayflyError:
    """The public error for a refusal; ``path`` is what a file operation was about."""
    message = _plain(failed.message)
    if failed.code in _FILE_CODES:
        return SandboxFileError(FileProblem(failed.code), path, message)
    kind = _BY_CODE.get(failed.code)
    if kind is not None:
        return kind(message)
    return DayflyError(f"the agent could not do it: {_plain(failed.code)}: {message}")


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text[:_MESSAGE_CHARS])
