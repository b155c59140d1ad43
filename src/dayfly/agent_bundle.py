"""The agent as one file: a zipapp from the same source tree, with compiled code for the image's Python where possible.

Same inputs, same bytes; kept under the digest of the inputs, so that any number of dayfly processes may share it.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dayfly import agent_pyc
from dayfly.errors import HostError, OutOfSpace
from dayfly.paths import make_directory
from dayfly.spec import Image

__all__ = ["agent_for", "bundle"]

_FORMAT = b"dayfly agent 3"  # of the bundle; a change makes new files
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the zip format's first moment
_KEPT_SECONDS = 30 * 86400.0  # an old bundle is a megabyte, and making it again takes a tenth of a second
_COMPILE_SECONDS = 30.0  # for another interpreter to compile some forty small files
_MAIN = "dayfly/agent/zipmain.py"  # becomes the archive's __main__.py
_RECORD = "preloaded"  # see zipmain.py
_MAGIC_BYTES, _HEADER_BYTES = 4, 16  # of a .pyc (PEP 552)
_PACKAGES = ("wire", "agent")
_SUFFIXES = frozenset((".py", ".js", ".sh"))


def agent_for(image: Image, directory: Path) -> Path:
    """The zipapp for ``image`` in ``directory`` (made if it is not there): a file that everybody may read.

    Without an interpreter of the image's Python version at hand it holds sources only, and a sandbox starts a little
    later. Raises ``HostError`` or ``OutOfSpace``.
    """
    interpreter = _interpreter(image.python_version)
    sources = _sources()
    path = directory / f"{_digest(sources, image.python_version if interpreter else 'source')}.pyz"
    if path.is_file():
        _keep(path)
        return path
    make_directory(directory)
    _put(path, bundle(sources, interpreter))
    _clear(directory)
    return path


def bundle(sources: Mapping[str, bytes], interpreter: str | None) -> bytes:
    """A zip of ``sources`` (path to content), with ``.pyc`` beside each if there is an ``interpreter`` to make them.

    Stored, not compressed: reading is then all there is to do inside.
    """
    compiled = _compiled(sources, interpreter) if interpreter else {}
    files = {**({_RECORD: _record(compiled)} if compiled else {}), **dict(sorted({**sources, **compiled}.items()))}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in files:  # the record first: zipmain.py expects it there
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, wherever it is made
            archive.writestr(entry, files[name])
    return target.getvalue()


def _sources() -> dict[str, bytes]:
    """What goes in. ``dayfly/__init__.py`` is empty inside: the real one is the host's public API."""
    home = Path(__file__).parent
    found = {"__main__.py": (home.parent / _MAIN).read_bytes(), "dayfly/__init__.py": b""}
    for package in _PACKAGES:
        for path in sorted((home / package).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                found[f"dayfly/{path.relative_to(home).as_posix()}"] = path.read_bytes()
    return found


def _digest(sources: Mapping[str, bytes], python: str) -> str:
    total = hashlib.sha256(_FORMAT + b"\0" + python.encode())
    for name in sorted(sources):
        total.update(f"\0{name}\0{len(sources[name])}\0".encode() + sources[name])
    return total.hexdigest()


def _interpreter(version: str) -> str | None:
    """A Python of ``version`` ("3.11"): this one, or one on PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return shutil.which(f"python{version}")


def _compiled(sources: Mapping[str, bytes], interpreter: str) -> dict[str, bytes]:
    modules = {name: content for name, content in sources.items() if name.endswith(".py")}
    if interpreter == sys.executable:
        return {f"{name}c": agent_pyc.compiled(content, name) for name, content in modules.items()}
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        return _compiled_by(interpreter, modules, Path(scratch))


def _compiled_by(interpreter: str, modules: Mapping[str, bytes], scratch: Path) -> dict[str, bytes]:
    for name, content in modules.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(content)
    command = [interpreter, "-I", "-S", agent_pyc.__file__, str(scratch)]
    try:
        subprocess.run(command, check=True, timeout=_COMPILE_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
        return {f"{name}c": (scratch / f"{name}c").read_bytes() for name in modules}
    except (OSError, subprocess.SubprocessError):
        return {}  # a broken interpreter: the sources alone work too


def _record(compiled: Mapping[str, bytes]) -> bytes:
    """The code of all modules in one piece, as zipmain.py says."""
    magic = next(iter(compiled.values()))[:_MAGIC_BYTES]
    index, codes = {}, b""
    for name in sorted(name for name in compiled if "/" in name):
        path = name.removesuffix(".pyc")
        module = path.removesuffix("/__init__").replace("/", ".")
        code = compiled[name][_HEADER_BYTES:]
        index[module] = (path.endswith("/__init__"), f"{path}.py", len(codes), len(codes) + len(code))
        codes += code
    main = compiled["__main__.pyc"][_HEADER_BYTES:]
    parts = (main, marshal.dumps(index, agent_pyc.MARSHAL_VERSION), codes)
    return magic + b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all; whoever comes second replaces it by the same bytes."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".agent-")
    except OSError as error:
        raise _translated(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, path)  # noqa: PTH105 - a name from mkstemp
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise _translated(path, error) from error


def _keep(path: Path) -> None:
    """In use: not to be cleared away. Once in a while is enough; who may not write there clears nothing either."""
    with suppress(OSError):
        if path.stat().st_mtime < time.time() - _KEPT_SECONDS / 2:
            os.utime(path)


def _clear(directory: Path) -> None:
    """Remove bundles of versions long gone. A sandbox that still runs one has it mounted, and loses nothing."""
    limit = time.time() - _KEPT_SECONDS
    for path in directory.glob("*.pyz"):
        with suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()


def _translated(path: Path, error: OSError) -> HostError:
    if error.errno in (28, 122):  # ENOSPC, EDQUOT
        return OutOfSpace(f"no space left for {path}", remedy="free some space, or set DAYFLY_DATA to another disk")
    return HostError(f"cannot write {path}: {error.strerror}", remedy="set DAYFLY_DATA to a directory of yours")
