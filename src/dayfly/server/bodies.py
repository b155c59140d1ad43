"""What comes in as JSON: typed, bounded, without unknown keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from dayfly.limits import LONGEST_LIFE, LONGEST_PAUSE, MOST_FORKS
from dayfly.names import MAX_NAME
from dayfly.server.keys import MAX_SECONDS

__all__ = [
    "Argv", "Environment", "EnvironmentBody", "ExecutionBody", "ExtendBody", "ForkBody", "KeyBody", "MkdirBody", "NetworkBody", "OpeningBody", "OutputsBody",
    "PathText", "PauseBody", "ProcessBody", "QuarantineBody", "RemoveBody", "RenameBody", "ResizeBody", "SignalBody", "TokenBody",
]  # fmt: skip

MAX_TEXT = 4096
"""Characters of what is a name or a reason and not content."""

MAX_ARGUMENTS = 4096
"""Words of a command line. All of them together still have to fit into one frame of the wire."""

MAX_INTEGER = 2**53
"""What JSON of every language carries exactly."""


def _path_text(value: object) -> str:
    """A path as it travels in JSON: undecodable bytes are lone surrogates, which a plain ``str`` here would refuse."""
    if not isinstance(value, str):
        raise ValueError("a path is text")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("a path has a lone surrogate that stands for no byte") from None
    return value


def _environment(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"not an environment variable: {name!a:.80}")
    return env


PathText = Annotated[str, PlainValidator(_path_text), WithJsonSchema({"type": "string", "minLength": 1})]
Argv = Annotated[list[PathText], Field(min_length=1, max_length=MAX_ARGUMENTS)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_LIFE, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Cells = Annotated[int, Field(ge=1, le=65535)]


class Body(BaseModel):
    """Strict: the text "5" is no number of seconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class OpeningBody(Body):
    """A new sandbox: from a policy, or from a template of the server; from neither, with the default policy."""

    policy: dict[str, Any] | None = None
    template: Text | None = None
    env: Environment = {}


class ExtendBody(Body):
    seconds: Seconds


class PauseBody(Body):
    """``seconds``: how long it is kept at most."""

    seconds: Seconds = LONGEST_PAUSE


class ForkBody(Body):
    count: Annotated[int, Field(ge=1, le=MOST_FORKS)] = 1


class OutputsBody(Body):
    """``last``: when this is done, they are not saved again at the sandbox's end."""

    last: bool = False


class TokenBody(Body):
    seconds: Seconds


class EnvironmentBody(Body):
    env: Environment


class NetworkBody(Body):
    """``network``: as in a policy."""

    network: Literal["none", "learn"] | list[dict[str, Any]]


class QuarantineBody(Body):
    reason: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class ExecutionBody(Body):
    code: str
    language: Text = "python"
    context: Text | None = None
    timeout: Seconds | None = None
    output: Bytes | None = None
    on_disconnect: Literal["interrupt", "keep"] = "interrupt"


class ProcessBody(Body):
    argv: Argv
    env: Environment = {}
    cwd: PathText | None = None
    pty: Annotated[tuple[Cells, Cells], Field(strict=False)] | None = None
    stdin: bool = False
    detached: bool = False
    timeout: Seconds | None = None
    output: Bytes | None = None


class SignalBody(Body):
    signal: Annotated[int, Field(ge=1, le=64)]


class ResizeBody(Body):
    rows: Cells
    columns: Cells


class MkdirBody(Body):
    path: PathText
    parents: bool = True
    mode: Annotated[int, Field(ge=0, le=0o777)] = 0o755


class RenameBody(Body):
    path: PathText
    to: PathText
    replace: bool = True


class RemoveBody(Body):
    path: PathText
    recursive: bool = False


class KeyBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    scopes: Annotated[list[Literal["read", "run", "admin"]], Field(min_length=1, max_length=3)]
    expires_in: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None
