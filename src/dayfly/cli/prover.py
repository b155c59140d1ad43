"""Proofs for a server: by ``dayfly prove`` in a process of its own, so that whatever an attack does to who judges it, it does not do
it to the server; ended with the server."""

from __future__ import annotations

import asyncio
import platform
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dayfly import __version__
from dayfly.cli.printable import printable
from dayfly.errors import DayflyError, HostError
from dayfly.limits import MIB
from dayfly.paths import Paths
from dayfly.runtime import find_runsc

if TYPE_CHECKING:
    from dayfly.prove import Proof
    from dayfly.server import Places
    from dayfly.server.proven import Proven, Subject

__all__ = ["Child", "check_recordable", "digest_of", "proven", "record"]

MOST_SECONDS = 600.0
"""For one proof. It takes half a minute, on a busy machine some."""

END_SECONDS = 10.0
"""For one that is stopped to end its sandboxes."""

MOST_REPORT = 16 * MIB
"""Bytes. One has some hundred kilobytes."""

MOST_WORDS = 500
"""Characters of why there is no report."""

DYING = tuple(shlex.split("setpriv --pdeathsig TERM --"))
"""Of util-linux: it ends with its parent."""


_ANEW = "start the server anew"


@dataclass(frozen=True)
class Child:
    """A ``dayfly.server.proven.Prover``. ``file`` is the server's configuration, if it has one: its policies and places are those of the proof."""

    paths: Paths
    file: Path | None = None

    def stands_on(self, subject: Subject) -> Mapping[str, str]:
        """Raises ``HostError`` where runsc or the image is not there."""
        from dayfly.images import Store

        try:
            runsc = find_runsc(self.paths)
            made, image = runsc.path.stat().st_mtime_ns, Store(self.paths).resolve(subject.policy.image)
        except OSError as error:
            raise HostError(f"runsc or the image cannot be looked at: {error}", remedy="run: dayfly doctor") from error
        return {
            "dayfly": __version__,
            "runsc": f"{runsc.version}, {runsc.path}, of {made}",
            "kernel": platform.release(),
            "image": image.digest,
            "policy": digest_of(subject),
            "preload": " ".join(subject.preload),
        }

    async def prove(self, subject: Subject) -> Proven:
        """Raises ``HostError`` where there is no report, or none of this."""
        self._check_file(subject)
        code, out, err = await _ran(self._command(subject))
        found = _read(out)
        if found is None:
            raise HostError(f"dayfly prove ended with {code} and no report: {_tail(err)}", remedy="run: dayfly prove")
        if found.policy_digest != digest_of(subject):
            raise HostError("the configuration has changed since this server read it", remedy=_ANEW)
        if all(one.value != __version__ for one in found.conditions if one.name == "dayfly"):
            raise HostError("dayfly has changed since this server was started", remedy=_ANEW)
        return proven(found)

    def _check_file(self, subject: Subject) -> None:
        """The child reads it anew. Raises ``HostError`` where it says something else by now, or nothing."""
        if self.file is None:
            return
        from dayfly.server import load_configuration

        try:
            templates = load_configuration(self.file).templates
        except DayflyError as error:
            raise HostError(f"the configuration cannot be read any more: {error.message}", remedy=_ANEW) from error
        entry = templates.get(subject.template)
        if subject.template and (entry is None or (entry.policy, entry.preload) != (subject.policy, subject.preload)):
            raise HostError("the configuration has changed since this server read it", remedy=_ANEW)

    def _command(self, subject: Subject) -> Sequence[str]:
        options = ["--quick", "--json"]
        if self.file is not None:
            options += ["--config", str(self.file)]
        if subject.template:
            options += ["--template", subject.template]
        return (*DYING, sys.executable, "-m", "dayfly", "prove", *options)


def digest_of(subject: Subject) -> str:
    from dayfly.prove.proof import policy_digest

    return policy_digest(subject.policy)


def proven(proof: Proof) -> Proven:
    """What a server keeps of it."""
    from dayfly.server.proven import Proven

    return Proven(
        green=proof.green,
        at=proof.at.timestamp(),
        seconds=proof.seconds,
        chosen=proof.set,
        counts={verdict.value: number for verdict, number in proof.count().items()},
        red=[row.id for row in proof.red] + [one.name for one in proof.red_conditions],
        report=proof.model_dump_json().encode(),
    )


def check_recordable(places: Places) -> None:
    """Before a proof that is to be signed is made. Raises ``HostError``."""
    from dayfly.journal import Journal, Signer

    Journal(places.journal, Signer.load(places.journal_key)).close()


def record(places: Places, proof: Proof, subject: Subject) -> None:
    """Sign a proof into the server's journal. Raises ``HostError``, also while a server has it: that makes its own."""
    from dayfly.journal import SERVER, Journal, Signer
    from dayfly.server.proven import PROOF_MADE, Made

    made = Made(
        secrets.token_hex(8), subject, Child(places.paths).stands_on(subject), proof.at.timestamp(), proven(proof)
    )
    with closing(Journal(places.journal, Signer.load(places.journal_key))) as journal:
        journal.append(SERVER, PROOF_MADE, made.facts(), contents=made.contents()).result()


async def _ran(command: Sequence[str]) -> tuple[int | None, bytes, bytes]:
    """Its exit code, and what it said. It is ended when this is cancelled, and after ``MOST_SECONDS``. Raises ``HostError``."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True, limit=MIB
        )
    except OSError as error:
        raise HostError(f"no proof can be started: {error}", remedy="util-linux has what is missing") from error
    assert process.stdout
    assert process.stderr
    try:
        async with asyncio.timeout(MOST_SECONDS):
            out, err = await asyncio.gather(_all(process.stdout), _all(process.stderr))
            return await process.wait(), out, err
    except TimeoutError:
        raise HostError(
            f"a proof has not ended within {MOST_SECONDS:g} s", remedy="see what the machine is busy with"
        ) from None
    finally:
        await asyncio.shield(_ended(process))


async def _all(stream: asyncio.StreamReader) -> bytes:
    """To its end; what is too much is dropped, and then it is no report."""
    kept = b""
    while piece := await stream.read(MIB):
        kept = (kept + piece)[:MOST_REPORT]
    return kept


async def _ended(process: asyncio.subprocess.Process) -> None:
    from dayfly.prove.ended import gone

    for stop in (process.terminate, process.kill):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                stop()
            await gone(process, END_SECONDS)


def _read(out: bytes) -> Proof | None:
    from dayfly.prove import Proof

    try:
        return Proof.model_validate_json(out)
    except ValueError:
        return None


def _tail(err: bytes) -> str:
    said = " ".join(printable(err[-MOST_WORDS:].decode("utf-8", "replace")).split())
    return said or "it said nothing"
