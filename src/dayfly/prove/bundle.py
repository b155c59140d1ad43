"""What runs inside, as one file: a zip that Python runs. Read as files, never imported here."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

__all__ = ["bundle"]

_HOME = Path(__file__).parent / "inside"
_MAIN = """import importlib
import sys

importlib.import_module({"flood": "floods", "neighbour": "neighbour"}.get(sys.argv[1] if len(sys.argv) > 1 else "", "run")).main()
"""


@cache
def bundle() -> bytes:
    """The archive; its modules are at its top."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("__main__.py", _MAIN)
        for path in sorted(_HOME.glob("*.py")):
            if path.stem != "__init__":
                archive.writestr(path.name, path.read_bytes())
    return target.getvalue()
