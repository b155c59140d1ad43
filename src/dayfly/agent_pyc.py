"""Compiles the agent's sources for the interpreter that runs this file.

Imported by ``dayfly.agent_bundle``, or run as a script (Python 3.9+) by an interpreter of the image's version:
``python3.X agent_pyc.py DIRECTORY`` puts a ``.pyc`` beside every ``.py``.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
from pathlib import Path

UNCHECKED_HASH = 0b01  # PEP 552: the file is valid whatever the source; nothing is compared at import
MARSHAL_VERSION = 2  # without back references, which depend on the interpreter's momentary state: same bytes each time


def compiled(source: bytes, name: str) -> bytes:
    """The ``.pyc`` of ``source``; tracebacks call it ``name``."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    flags = UNCHECKED_HASH.to_bytes(4, "little")
    return (
        importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code, MARSHAL_VERSION)
    )


def compile_tree(directory: Path) -> None:
    for path in sorted(directory.rglob("*.py")):
        path.with_suffix(".pyc").write_bytes(compiled(path.read_bytes(), path.relative_to(directory).as_posix()))


if __name__ == "__main__":
    compile_tree(Path(sys.argv[1]))
