"""A disposable machine for a target that may have no wall: namespaces of users, mounts, processes, network, IPC and names.

In it everything runs as one ordinary user, who on this machine is nobody (or whoever started it); its files are this machine's, read-only, but
for empty directories in memory; its only link leads to where every packet is heard and no one answers. Nothing of it is left afterwards.
The judge is the first process in it, so nobody in there can end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dayfly
from dayfly.errors import HostError
from dayfly.prove.probe import Probe
from dayfly.prove.proof import Proof, Row
from dayfly.prove.targets.choice import asked
from dayfly.prove.targets.running import GONE_SECONDS
from dayfly.prove.targets.target import Place, Target
from dayfly.prove.targets.trial import VERSION_SECONDS

__all__ = ["ASKED", "HOME", "judged_in_a_box", "plan_of"]

NOBODY = 65534
"""Who root is in a box: it owns nothing on this machine."""

HOME = "/home/agent"
"""Of its user."""

ASKED = Path("/run/box/asked.json")

TOOLS = {"ip": "iproute2", "unshare": "util-linux", "setpriv": "util-linux"}
"""Programs, and the distribution's packages that have them."""

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

_BOXED = Path(__file__).with_name("boxed.py")

_SPACES = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--net",
    "--uts",
    "--ipc",
    "--",
]

MOST_LINE = 4 * 1024 * 1024
"""Bytes of one line of the judge's: the report of all probes has some hundred kilobytes."""

END_SECONDS = 5.0
"""For the kernel to clear a box away whose judge has ended."""

BOX_SECONDS = 60.0
"""For the box to be made, and its judge to be loaded."""

CONTROLS = ("before", "after")
"""When the target is asked for a sign of life."""

MOST_ERRORS = 16 * 1024
"""Bytes of what the judge says besides, of which one line is shown."""

BAITS = {
    f"{HOME}/.aws/credentials": "[default]\naws_access_key_id = {nonce}\n",
    f"{HOME}/.ssh/id_ed25519": "{nonce}\n",
    f"{HOME}/.netrc": "machine example.com password {nonce}\n",
    f"{HOME}/.docker/config.json": '{{"auths": {{"example.com": {{"auth": "{nonce}"}}}}}}\n',
    f"{HOME}/.bash_history": "export TOKEN={nonce}\n",
}
"""What an ordinary user has lying about, worth nothing here."""


async def judged_in_a_box(target: Target, probes: Sequence[Probe], tell: Callable[[Row], None]) -> Proof:
    """Raises ``HostError`` where no box can be made, or its judge says nothing that can be read."""
    missing = [package for program, package in TOOLS.items() if shutil.which(program, path=_PATH) is None]
    if missing:
        raise HostError(
            f"a box needs what is not installed: {', '.join(missing)}", remedy=f"apt-get install {' '.join(missing)}"
        )
    with tempfile.TemporaryDirectory(prefix="dayfly-box-") as name:
        command, places = _entered(target, Path(name))
        plan = json.dumps(_plan(target, probes, places)) + "\n"
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MOST_LINE, cwd="/"
        )
        try:
            async with asyncio.timeout(longest(target, probes)):
                return await _heard(process, plan, tell)
        except TimeoutError:
            raise HostError(
                "the judge in the box does not come to its end", remedy="see what loads this machine"
            ) from None
        finally:
            await _end(process)


def longest(target: Target, probes: Sequence[Probe]) -> float:
    """Seconds that all runs together may take: each attempt's, its version's, and those of the controls around them."""
    runs = [*(probe.seconds for probe in probes), VERSION_SECONDS, *(0.0 for _ in CONTROLS)]
    return BOX_SECONDS + sum(one + target.start_seconds + GONE_SECONDS for one in runs)


async def _end(process: asyncio.subprocess.Process) -> None:
    """It and all in it. Its output is its judge's, so whoever has heard its end need not wait; nobody else does."""
    at_its_end = process.stdout is not None and process.stdout.at_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS if at_its_end else 0):
            await process.wait()
            return
    process.kill()
    await process.wait()


async def _heard(process: asyncio.subprocess.Process, plan: str, tell: Callable[[Row], None]) -> Proof:
    assert process.stdin is not None  # all three were asked for
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(plan.encode())
    process.stdin.close()
    errors = asyncio.create_task(_tail(process.stderr))
    last = b""
    try:
        async for line in process.stdout:
            if last:
                tell(Row.model_validate_json(last))
            last = line
        return Proof.model_validate_json(last)
    except ValueError as error:
        said = (await errors).strip().splitlines()[-1:]
        raise HostError(
            f"the judge in the box said nothing that can be read: {''.join(said) or 'it ended'}",
            remedy="a box needs user namespaces, and files that an ordinary user may read",
        ) from error


async def _tail(stream: asyncio.StreamReader) -> str:
    """The last of what it said, once it has ended."""
    said = b""
    while piece := await stream.read(MOST_ERRORS):
        said = (said + piece)[-MOST_ERRORS:]
    return said.decode("utf-8", "replace")


def _entered(target: Target, scratch: Path) -> tuple[list[str], Mapping[str, str]]:
    """How a box is entered, and where in it the target's ``binds`` are. Root becomes nobody first: what only root may enter is bound before
    that, in a mount namespace of its own."""
    inner = [*_SPACES, sys.executable, "-I", str(_BOXED)]
    if os.geteuid():
        return inner, dict(target.binds)
    scratch.chmod(0o755)
    places, lines = {}, []
    for number, path in enumerate(target.binds):
        places[path] = str(scratch / str(number))
        Path(places[path]).mkdir()
        lines.append(f'mount --bind "${2 * number + 1}" "${2 * number + 2}"')
    words = [word for path, source in target.binds.items() for word in (source, places[path])]
    script = "; ".join(["set -e", *lines, f"shift {len(words)}", 'exec "$@"'])
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return ["unshare", "--mount", "--", "sh", "-c", script, "box", *words, *drop, *inner], places


def _plan(target: Target, probes: Sequence[Probe], places: Mapping[str, str]) -> Mapping[str, Any]:
    nonce = secrets.token_hex(8)
    source = Path(dayfly.__file__).resolve().parent
    question = {"target": dataclasses.asdict(target), "probes": [probe.id for probe in probes]}
    return {
        "hostname": f"box-{nonce}",
        "keep": [
            sys.prefix,
            sys.base_prefix,
            str(source.parent),
            *target.needs,
            *places.values(),
            *target.copies.values(),
        ],
        "copies": dict(target.copies),
        "links": {**target.links, **places},
        "files": {
            **{path: text.format(nonce=nonce) for path, text in BAITS.items()},
            **target.files,
            "/run/box/resolv.conf": "nameserver 192.0.2.53\nsearch corp.example\n",
            "/run/box/hosts": "127.0.0.1 localhost\n10.1.2.3 wiki.inside.example\n",
            str(ASKED): json.dumps(question),
        },
        "over": {"/etc/resolv.conf": "/run/box/resolv.conf", "/etc/hosts": "/run/box/hosts"},
        "environment": {"HOME": HOME, "PATH": _PATH, "LANG": "C.UTF-8", "USER": "agent"},
        "command": [sys.executable, "-I", "-m", "dayfly.prove.targets", "{wire}"],
    }


def plan_of(question: Mapping[str, Any]) -> tuple[Target, tuple[Probe, ...]]:
    """The way back, in the box."""
    told = dict(question["target"])
    told["place"] = Place(told["place"])
    wanted = set(question["probes"])
    return Target(**told), tuple(probe for probe in asked() if probe.id in wanted)
