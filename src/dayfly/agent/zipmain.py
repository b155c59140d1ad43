"""The zipapp's main module (``__main__.py`` there): takes the code of all modules from one record of the archive.

Importing some forty modules from a zip one by one takes 20-25 ms inside gVisor, and from one record a third of that. The
record exists if the bundle was made for this very Python; without it, or for a module that is not in it, the zip's own
files are used as ever.

The record is the archive's first member and stored, so that nobody has to look for it: ``HEADER`` bytes of the zip, then
the interpreter's magic number, then three parts with their size before each (4 bytes, little endian): the code of this
module, which boot.py starts; a marshalled {module: (is a package, file, where its code begins, where it ends)}; and the
code of the modules, as it is in a .pyc, one after the other.
"""

from __future__ import annotations

import sys
from marshal import loads
from posix import O_CLOEXEC, O_RDONLY, close, open, read
from zipimport import zipimporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Index = Mapping[str, tuple[bool, str, int, int]]

RECORD = b"preloaded"
"""The member's name."""

HEADER = 30 + len(RECORD)
"""Bytes of a zip before the first member's content (APPNOTE.TXT of PKWARE, 4.3.7): there is no extra field."""


class Preloaded:
    """Finds modules in the record, each once: code of the user's that imports the same name later gets its own."""

    def __init__(self, archive: str, index: Index, codes: memoryview) -> None:
        self.archive = archive
        self.index = dict(index)
        self.codes = codes
        self.found: dict[str, tuple[int, int]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None and not any(entry.startswith(self.archive) for entry in path):
            return None
        found = self.index.pop(name, None)
        if found is None:
            return None
        is_package, file, begin, end = found
        self.found[name] = begin, end
        make_spec = type(sys.__spec__)
        spec: ModuleSpec = make_spec(name, self, origin=f"{self.archive}/{file}", is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(f"{self.archive}/{file.rpartition('/')[0]}")
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        begin, end = self.found.pop(module.__name__)
        exec(loads(self.codes[begin:end]), module.__dict__)

    def get_data(self, path: str) -> bytes:
        return zipimporter(self.archive).get_data(path)


def preload(archive: str) -> None:
    parts = record(archive)
    if parts is not None:
        _, index, codes = parts
        sys.meta_path.insert(0, Preloaded(archive, loads(index), codes))


def record(archive: str) -> list[memoryview] | None:
    """The three parts of the archive's record, or ``None`` if there is none for this interpreter."""
    magic: bytes = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    fd = open(archive, O_RDONLY | O_CLOEXEC)
    try:
        head = read(fd, HEADER + len(magic))
        if not head.endswith(RECORD + magic):
            return None
        size = int.from_bytes(head[22:26], "little") - len(magic)
        content = memoryview(read(fd, size))
    finally:
        close(fd)
    parts = []
    while content:
        end = 4 + int.from_bytes(content[:4], "little")
        parts.append(content[4:end])
        content = content[end:]
    return parts


if __name__ == "__main__":
    preload(sys.path[0])

    from dayfly.agent.__main__ import main

    main()
