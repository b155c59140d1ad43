"""Images: recipes, the builder, and the content-addressed store."""

from __future__ import annotations

from dayfly.images.builder import build, build_derived
from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.recipe import Recipe, derive, load_recipe, parse_recipe, recipe_names, shipped_recipe
from dayfly.images.store import ImageInfo, Lease, Package, Store
from dayfly.images.warm import RunInside

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
