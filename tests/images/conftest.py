"""Places for builds that share this user's download cache, and one tiny image built once, by two builders at once."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dayfly.images import Recipe, Store, load_recipe
from dayfly.paths import Paths, default_paths, make_directory
from dayfly.spec import Image

TINY = Path(__file__).parent.parent / "recipes/tiny.toml"
BUILDING = Path(__file__).parent / "building.py"


def places(directory: Path) -> Paths:
    """A store of its own in ``directory`` over the shared cache: only what changed is downloaded again."""
    cache = default_paths().cache
    make_directory(cache.parent)
    make_directory(cache)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cache").symlink_to(cache)
    return Paths(directory, directory / "run")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return places(tmp_path / "data")


@pytest.fixture(scope="session")
def tiny_recipe() -> Recipe:
    return load_recipe(TINY)


def start_builder(paths: Paths) -> subprocess.Popen[str]:
    """Another process that builds the tiny image; see ``building``."""
    argv = [sys.executable, str(BUILDING), str(TINY), str(paths.data)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture(scope="session")
def builders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Paths, list[list[str]]]:
    """A store, and what two builders said that made the tiny image in it at once."""
    where = places(tmp_path_factory.mktemp("built") / "data")
    both = [start_builder(where), start_builder(where)]
    told = [builder.communicate()[0].split("\n") for builder in both]
    assert [builder.returncode for builder in both] == [0, 0]
    return where, told


@pytest.fixture(scope="session")
def built(builders: tuple[Paths, list[list[str]]]) -> tuple[Paths, Image]:
    """The store and the image, which was not warmed. Tests only read it."""
    where, _ = builders
    return where, Store(where).resolve("tiny")


MakeWheel = Callable[..., Path]


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Write a wheel ``name-1.0-py3-none-any.whl`` with the given members beside its METADATA."""

    def make(name: str = "sample", members: Mapping[str, bytes] | None = None, requires: tuple[str, ...] = ()) -> Path:
        path = tmp_path / f"{name}-1.0-py3-none-any.whl"
        metadata = [
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            *(f"Requires-Dist: {one}\n" for one in requires),
        ]
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in (members or {f"{name}/__init__.py": b"x = 1\n"}).items():
                archive.writestr(member, content)
            archive.writestr(f"{name}-1.0.dist-info/METADATA", "".join(metadata))
            archive.writestr(
                f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
        return path

    return make
