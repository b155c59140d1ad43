"""The zipapp's main module (``__main__.py`` there): takes the code of a usual start from one record of the archive.

Importing some forty modules from a zip one by one takes 20-25 ms inside gVisor, and from one record half of that. The
record exists if the bundle was made for this very Python; without it, or for a module that is not in it, the zip's own
files are used as ever.
"""

from __future__ import annotations

import sys
from marshal import loads
from zipimport import zipimporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

RECORD = "preloaded"
"""Member of the archive: the interpreter's magic number, then, marshalled, {module: (is a package, file, its code as it is
in a .pyc)}. So only the code of what is imported is taken up."""


class Preloaded:
    """Finds modules in the record, each once: code of the user's that imports the same name later gets its own."""

    def __init__(self, archive: str, modules: dict[str, tuple[bool, str, bytes]]) -> None:
        self.archive = archive
        self.modules = modules
        self.codes: dict[str, bytes] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None and not any(entry.startswith(self.archive) for entry in path):
            return None
        found = self.modules.pop(name, None)
        if found is None:
            return None
        is_package, file, self.codes[name] = found
        make_spec = type(sys.__spec__)
        spec: ModuleSpec = make_spec(name, self, origin=f"{self.archive}/{file}", is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(f"{self.archive}/{file.rpartition('/')[0]}")
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        exec(loads(self.codes.pop(module.__name__)), module.__dict__)

    def get_data(self, path: str) -> bytes:
        return zipimporter(self.archive).get_data(path)


def preload(archive: str) -> None:
    try:
        record = zipimporter(archive).get_data(RECORD)
    except OSError:  # made without an interpreter of this version
        return
    magic: bytes = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    if record.startswith(magic):
        sys.meta_path.insert(0, Preloaded(archive, loads(memoryview(record)[len(magic) :])))


if __name__ == "__main__":
    preload(sys.path[0])

    from dayfly.agent.__main__ import main

    main()
