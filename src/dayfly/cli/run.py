"""``dayfly run``: one run of one piece of code, from files in to files out."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from dayfly import Sandbox
from dayfly.cli.endings import Ending, ending_of, guarded, note, say
from dayfly.cli.inputs import checked_inputs
from dayfly.cli.keeping import Keeping
from dayfly.cli.machine import image_of, language_in
from dayfly.cli.options import (
    Allow,
    Cpus,
    Env,
    ImageName,
    Learn,
    Memory,
    PolicyFile,
    Timeout,
    Verbose,
    environment_of,
    policy_of,
)
from dayfly.cli.saving import Saved, Saver, checked_directory
from dayfly.cli.screen import Screen, tell_cautions, tell_denials, tell_limits, tell_outcome, tell_suggestion
from dayfly.errors import InputError
from dayfly.limits import MIB
from dayfly.policy import Policy
from dayfly.spec import Execution, Result

__all__ = ["run"]

MAX_CODE = 16 * MIB
"""Bytes of code: more is a file that was meant for --in."""

_LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".sh": "bash", ".bash": "bash"}


@guarded
def run(
    file: Annotated[str | None, typer.Argument(metavar="FILE|-", help="File with the code; - reads stdin.")] = None,
    code: Annotated[str | None, typer.Option("-c", metavar="CODE", help="The code itself.")] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--in", metavar="PATH", help="File or directory to copy into the working directory."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put new and changed files and rich results.")
    ] = None,
    env: Env = None,
    language: Annotated[
        str | None, typer.Option(help="python, bash or javascript (default: by the file's name).")
    ] = None,
    timeout: Timeout = None,
    memory: Memory = None,
    cpus: Cpus = None,
    image: ImageName = None,
    policy: PolicyFile = None,
    allow: Allow = None,
    learn: Learn = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of the output.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be generated for the boundary, and run nothing.")
    ] = False,
) -> int:
    """Run code in a sandbox of its own, which is thrown away afterwards.

    Hidden files are not brought back, nor anything but regular files.
    """
    rules = policy_of(policy, image=image, timeout=timeout, memory=memory, cpus=cpus, allow=allow, learn=learn)
    if explain:
        return _explain(rules)
    source = _source(file, code, language)
    source = _Source(source.code, language_in(image_of(rules.image), source.language))
    variables = environment_of(env)
    job = _Job(source, checked_inputs(inputs, rules.limits.disk), checked_directory(out), variables)
    tell_cautions(rules.network)
    keeping = Keeping(rules)
    with keeping.around(), Sandbox(rules, env=job.env) as sandbox:
        execution, saved = job.do(sandbox, Screen(saving=out is not None) if not as_json else None)
        keeping.save(sandbox)
    if as_json:
        say(json.dumps(_as_json(execution, saved) | {"outputs": keeping.as_json}))
    else:
        _tell(execution, saved, out, verbose)
        if rules.network == "learn":
            tell_suggestion(execution.denied)
    keeping.tell()
    return ending_of(execution)


@dataclass(frozen=True)
class _Source:
    code: str
    language: str


@dataclass(frozen=True)
class _Job:
    """Everything that is checked before a sandbox is opened."""

    source: _Source
    inputs: list[Path]
    out: Path | None
    env: dict[str, str]

    def do(self, sandbox: Sandbox, screen: Screen | None) -> tuple[Execution, list[Saved]]:
        for path in self.inputs:
            if path.is_dir():
                sandbox.files.upload_directory(path, path.name)
            else:
                sandbox.files.upload(path)
        saver = Saver(sandbox, self.out) if self.out is not None else None
        execution = sandbox.run_code(
            self.source.code,
            language=self.source.language,
            on_stdout=screen.stdout if screen else None,
            on_stderr=screen.stderr if screen else None,
            on_result=screen.result if screen else None,
        )
        if screen:
            screen.finish(execution)
        return execution, saver.collect(execution) if saver else []


def _source(file: str | None, code: str | None, language: str | None) -> _Source:
    if (file is None) == (code is None):
        raise InputError("name one file, or - for stdin, or give the code with -c", remedy="dayfly run --help")
    if code is not None:
        return _Source(code, language or "python")
    assert file is not None
    return _Source(_read(file), language or _LANGUAGES.get(Path(file).suffix, "python"))


def _read(file: str) -> str:
    try:
        if file == "-":
            return _text(sys.stdin.buffer, "stdin")
        with Path(file).open("rb") as opened:
            return _text(opened, file)
    except IsADirectoryError as error:
        raise InputError(
            f"{file} is a directory", remedy=f"name the file with the code; --in {file} takes data"
        ) from error
    except OSError as error:
        remedy = "give the name of a file with code, - for stdin, or the code itself with -c"
        raise InputError(f"cannot read {file}: {error.strerror}", remedy=remedy) from error


def _text(opened: IO[bytes], name: str) -> str:
    content = opened.read(MAX_CODE + 1)
    if len(content) > MAX_CODE:
        raise InputError(f"{name} has more than {MAX_CODE} bytes", remedy="give data with --in")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text", remedy="give data with --in") from error


def _explain(rules: Policy) -> int:
    import asyncio

    from dayfly.manager import embedded

    say(json.dumps(asyncio.run(embedded().explain(rules)), indent=2, default=str))
    return 0


def _tell(execution: Execution, saved: list[Saved], out: Path | None, verbose: bool) -> None:
    tell_outcome(execution)
    tell_denials(execution.denied)
    for one in saved:
        note(f"saved {out}/{one.name} ({one.size} bytes)")
    tell_limits(execution.limits, watched=verbose or ending_of(execution) is Ending.LIMIT)


def _as_json(execution: Execution, saved: list[Saved]) -> dict[str, Any]:
    found = {field.name: getattr(execution, field.name) for field in dataclasses.fields(execution)}
    found["results"] = [_result(result) for result in execution.results]
    found["error"] = dataclasses.asdict(execution.error) if execution.error else None
    found["limits"] = [dataclasses.asdict(limit) for limit in execution.limits]
    found["denied"] = [dataclasses.asdict(one) for one in execution.denied]
    found["files"] = [dataclasses.asdict(one) for one in saved]
    return found


def _result(result: Result) -> dict[str, Any]:
    """As Jupyter writes it: bytes are base64."""
    data = {
        mime: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for mime, value in result.data.items()
    }
    return {"data": data, "metadata": dict(result.metadata), "is_main": result.is_main}
