"""Images: recipes, the builder, and the content-addressed store. The builder is loaded by who builds: a run need not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.recipe import Recipe, derive, load_recipe, parse_recipe, recipe_names, shipped_recipe
from dayfly.images.store import ImageInfo, Lease, Package, Store
from dayfly.images.warm import RunInside

if TYPE_CHECKING:
    from dayfly.images.builder import build, build_derived

__all__ = [
    "ImageInfo",
    "Lease",
    "Package",
    "Progress",
    "Recipe",
    "RunInside",
    "Stage",
    "Step",
    "Store",
    "build",
    "build_derived",
    "derive",
    "load_recipe",
    "parse_recipe",
    "recipe_names",
    "shipped_recipe",
    "silent",
]


def __getattr__(name: str) -> Any:
    if name not in ("build", "build_derived"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dayfly.images import builder

    return getattr(builder, name)
