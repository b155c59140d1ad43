"""Places for builds that share this user's download cache, and one tiny image built once."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dayfly.images import Recipe, build, load_recipe
from dayfly.paths import Paths, default_paths, make_directory
from dayfly.spec import Image

RECIPES = Path(__file__).parent.parent / "recipes"


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
    return load_recipe(RECIPES / "tiny.toml")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, tiny_recipe: Recipe) -> tuple[Paths, Image]:
    """The store and the image. Tests only read it."""
    where = places(tmp_path_factory.mktemp("built") / "data")
    return where, build(tiny_recipe, paths=where)


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
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
