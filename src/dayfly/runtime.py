"""Finding a ``runsc`` (gVisor's runtime) on this machine and learning what it can do.

Abilities are detected from the program's own help, never assumed from a version; ``/dev/kvm`` is never touched.
"""

from __future__ import annotations

import datetime
import json
import mmap
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dayfly.errors import BoundaryUnusable, HostError, RuntimeMissing, RuntimeTooOld
from dayfly.paths import Paths, default_paths, make_directory, write_atomically

__all__ = ["FLOOR", "Feature", "Runsc", "date_of", "explain_age", "find_runsc", "inspect_runsc"]

FLOOR = datetime.date(2024, 7, 29)
"""The oldest build that is accepted: systrap as the default platform, checkpoints without compression."""

PROBE_SECONDS = 5.0
"""For all questions to one runsc together. Each takes some 10 ms; a loaded machine gets a lot more."""

SETUP_REMEDY = "run: dayfly setup"
_CACHE_VERSION = 1  # of the record format; another one is asked anew
_CACHE_RECORDS = 16  # builds remembered; a machine has a few


class Feature(StrEnum):
    """What not every accepted runsc can do."""

    OVERLAY_SIZE = "overlay2 size="  # a cap on the writable layer, kept by the sentry
    RESTORE_BACKGROUND = "restore --background"  # memory is loaded after restore returned
    CHECKPOINT_EXEC = "checkpoint --save-restore-exec-argv"  # a program inside is told of save and restore
    FSCHECKPOINT = "fscheckpoint"
    UPDATE = "update"  # resource limits of a live container
    GOFER_NETWORK_NAMESPACE = "--gofer-network-namespace"
    HOST_SETTINGS = "--host-settings"  # may be told not to look at sysctls
    SIDECAR_POLICY = "--sidecar-usage-policy"
    RESTORE_VALIDATION = "--restore-spec-validation"  # compares specifications at a restore, unless told not to


@dataclass(frozen=True)
class Runsc:
    """One usable runsc. ``date`` is ``None`` only for a build that hides its version and was accepted by its abilities.

    ``flags`` are the names of all top-level flags, without dashes.
    """

    path: Path
    version: str
    date: datetime.date | None
    features: frozenset[Feature]
    flags: frozenset[str] = field(repr=False)

    def has(self, feature: Feature) -> bool:
        return feature in self.features


def find_runsc(paths: Paths | None = None, environment: Mapping[str, str] | None = None) -> Runsc:
    """The runsc to use: ``DAYFLY_RUNSC`` if set (and then no other), else the one of ``dayfly setup``, else PATH.

    Raises ``RuntimeMissing``, ``RuntimeTooOld``, or ``BoundaryUnusable`` if it does not answer or others may write it.
    """
    env = os.environ if environment is None else environment
    places = paths or default_paths(env)
    wanted = env.get("DAYFLY_RUNSC")
    if wanted:
        if not Path(wanted).is_absolute() or not Path(wanted).is_file():
            raise RuntimeMissing(
                f"DAYFLY_RUNSC names no file: {wanted!r}", remedy="set it to an absolute path, or unset it"
            )
        return inspect_runsc(Path(wanted), places)
    return _first_usable(_candidates(places, env), places)


def _candidates(paths: Paths, env: Mapping[str, str]) -> list[Path]:
    own = paths.bin / "runsc"
    on_path = shutil.which("runsc", path=env.get("PATH", os.defpath))
    found = [own] if own.is_file() else []
    if on_path and Path(on_path).is_absolute():  # a relative PATH entry would run whatever the working directory holds
        found.append(Path(on_path))
    return found


def _first_usable(candidates: list[Path], paths: Paths) -> Runsc:
    failure: BoundaryUnusable | None = None
    for path in candidates:
        try:
            return inspect_runsc(path, paths)
        except BoundaryUnusable as error:
            failure = failure or error
    raise failure or RuntimeMissing("no runsc (gVisor) was found on this machine", remedy=SETUP_REMEDY)


def inspect_runsc(path: Path, paths: Paths | None = None) -> Runsc:
    """Ask the program at ``path`` what it is. With ``paths``, the answer is remembered by path, time and size.

    Raises ``RuntimeTooOld`` or ``BoundaryUnusable``.
    """
    real = path.resolve()
    _refuse_writable(real)
    key = _identity(real)
    known = _recall(paths, key) if paths else None
    answer = known or _interrogate(real)
    if known is None and paths:
        _remember(paths, key, answer)
    return _judge(real, answer)


@dataclass(frozen=True)
class _Answers:
    """What a runsc said about itself, before any judgement."""

    version: str
    flags: dict[str, str]  # name -> its help
    commands: tuple[str, ...]
    restore: tuple[str, ...]  # names of flags
    checkpoint: tuple[str, ...]


def _interrogate(path: Path) -> _Answers:
    deadline = time.monotonic() + PROBE_SECONDS
    version = _ask(path, deadline, "--version")
    match = re.search(r"^runsc version (\S+)", version, re.MULTILINE)
    if match is None:
        raise BoundaryUnusable(f"{path} is not a runsc: it does not tell its version", remedy=SETUP_REMEDY)
    name = match[1] if match[1] != "VERSION_MISSING" else _module_version(path) or match[1]
    return _Answers(
        version=name,
        flags=_flags(_ask(path, deadline, "flags")),
        commands=tuple(re.findall(r"^\t(\S+) ", _ask(path, deadline, "help"), re.MULTILINE)),
        restore=tuple(_flags(_ask(path, deadline, "help", "restore"))),
        checkpoint=tuple(_flags(_ask(path, deadline, "help", "checkpoint"))),
    )


def _ask(path: Path, deadline: float, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [str(path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.defpath},
            timeout=max(0.1, deadline - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BoundaryUnusable(f"{path} did not answer within {PROBE_SECONDS:g} s", remedy=SETUP_REMEDY) from error
    except OSError as error:
        raise BoundaryUnusable(f"{path} cannot be run: {error.strerror}", remedy=SETUP_REMEDY) from error
    return done.stdout.decode("utf-8", "replace")


def _flags(text: str) -> dict[str, str]:
    """Names and explanations from the help that Go's flag package prints."""
    parts = re.split(r"^  -([\w-]+)", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def _module_version(path: Path) -> str | None:
    """The version of gVisor's Go module in the build information that Go's linker leaves in every program."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        match = re.search(rb"\t(?:dep|mod)?\t?gvisor\.dev/gvisor\t(v[0-9A-Za-z.+-]{5,80})\t", content)
        return match[1].decode("ascii") if match else None


def _judge(path: Path, answers: _Answers) -> Runsc:
    date = date_of(answers.version)
    able = "systrap" in answers.flags.get("platform", "") and "compression" in answers.checkpoint
    if (date is not None and date < FLOOR) or not able:
        raise RuntimeTooOld(
            f"{path} is runsc {answers.version}, older than {FLOOR:%Y%m%d}",
            remedy=f"{SETUP_REMEDY} (it obtains a newer one)",
        )
    return Runsc(path, answers.version, date, _features(answers), frozenset(answers.flags))


def date_of(version: str) -> datetime.date | None:
    """The day in ``0.0~20240729.0``, ``release-20260901.0`` or ``v0.0.0-20260905035102-...``."""
    match = re.search(r"(?<!\d)(20\d\d)(\d\d)(\d\d)(?:\d{6})?(?!\d)", version)
    try:
        return datetime.date(*map(int, match.groups())) if match else None
    except ValueError:  # digits that are no day: an unknown version, judged by its abilities
        return None


def _features(answers: _Answers) -> frozenset[Feature]:
    present = {
        Feature.OVERLAY_SIZE: "size=" in answers.flags.get("overlay2", ""),
        Feature.RESTORE_BACKGROUND: "background" in answers.restore,
        Feature.CHECKPOINT_EXEC: "save-restore-exec-argv" in answers.checkpoint,
        Feature.FSCHECKPOINT: "fscheckpoint" in answers.commands,
        Feature.UPDATE: "update" in answers.commands,
        Feature.GOFER_NETWORK_NAMESPACE: "gofer-network-namespace" in answers.flags,
        Feature.HOST_SETTINGS: "host-settings" in answers.flags,
        Feature.SIDECAR_POLICY: "sidecar-usage-policy" in answers.flags,
        Feature.RESTORE_VALIDATION: "restore-spec-validation" in answers.flags,
    }
    return frozenset(feature for feature, there in present.items() if there)


def _refuse_writable(path: Path) -> None:
    """Whoever can write the program can become the user that runs it."""
    for part in (path, path.parent):
        try:
            found = part.stat()
        except OSError as error:
            raise BoundaryUnusable(f"{part} cannot be read: {error.strerror}", remedy=SETUP_REMEDY) from error
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BoundaryUnusable(f"{part} belongs to or can be written by others", remedy=f"chmod go-w {part}")


def _identity(path: Path) -> str:
    found = path.stat()
    return f"{_CACHE_VERSION} {path} {found.st_mtime_ns} {found.st_size} {found.st_ino}"


def _cache_file(paths: Paths) -> Path:
    return paths.cache / "runsc.json"


def _records(paths: Paths) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(_cache_file(paths).read_text("utf-8"))
    except (OSError, ValueError):  # absent or damaged: the programs are asked again
        return {}
    return found if isinstance(found, dict) else {}


def _recall(paths: Paths, key: str) -> _Answers | None:
    record = _records(paths).get(key)
    try:
        return _Answers(**record) if record else None  # type: ignore[arg-type]
    except TypeError:  # written by another version
        return None


def _remember(paths: Paths, key: str, answers: _Answers) -> None:
    records = dict([*_records(paths).items(), (key, vars(answers))][-_CACHE_RECORDS:])
    with suppress(HostError):  # only a convenience: a directory that cannot be written costs 50 ms a start
        make_directory(paths.data)
        make_directory(paths.cache)
        write_atomically(_cache_file(paths), json.dumps(records))


def explain_age(runsc: Runsc, today: datetime.date | None = None) -> str:
    """One or two sentences for a person: how old this runsc is, and how to get a newer one."""
    newer = "a newer one: dayfly setup --from release, or --from go where a Go toolchain is installed"
    if runsc.date is None:
        return f"this runsc does not tell its version; {newer}"
    days = ((today or datetime.datetime.now(datetime.UTC).date()) - runsc.date).days
    if days < 90:
        return f"runsc of {runsc.date:%Y-%m-%d}, {max(days, 0)} days old"
    return f"runsc of {runsc.date:%Y-%m-%d}, {days // 30} months old: security fixes since then are missing; {newer}"
