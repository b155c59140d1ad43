"""Recipes: what an image is made of. Data in small TOML files; unknown keys are errors."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dayfly.errors import ImageNotFound, InputError

__all__ = ["DIGEST", "NAME", "Recipe", "derive", "load_recipe", "parse_recipe", "recipe_names", "shipped_recipe"]

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,63}$")
DIGEST = re.compile(r"^(?:sha256:)?([0-9a-f]{12,64})$")
"""A digest or the beginning of one. 12 digits: enough for a person to write; names may not look like it."""

_DEB_NAME = re.compile(r"^[a-z0-9][a-z0-9+.-]{1,99}$")
_GLOB = re.compile(r"^[A-Za-z0-9_.*-]+(?:/[A-Za-z0-9_.*-]+)*$")
# A recipe is a page of text; more is a mistake.
_FILE_CAP = 64 * 1024


class Recipe(BaseModel):
    """What an image is made of.

    ``suite`` is a codename of the distribution (``None``: the host's own). ``wheels`` are PEP 508 requirements without
    URLs, extras allowed. ``prune`` are globs below the wheels' directory that are left out. ``warm`` is Python that is run
    once in a throw-away sandbox, so that what it caches in the home is there in every other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = Field("", max_length=200)
    suite: str | None = Field(None, pattern=r"^[a-z]{3,20}$")
    apt: tuple[str, ...] = Field(("python3",), max_length=500)
    wheels: tuple[str, ...] = Field((), max_length=500)
    languages: tuple[Literal["python", "bash", "javascript"], ...] = ("python", "bash")
    prune: tuple[str, ...] = ()
    warm: str = Field("", max_length=1000)
    environment: dict[str, str] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not NAME.match(name) or DIGEST.match(name):
            raise ValueError(f"not a name for an image (lower-case letters, digits, '.', '_', '-'): {name!r}")
        return name

    @field_validator("apt")
    @classmethod
    def _package_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _DEB_NAME.match(name):
                raise ValueError(f"not a package name: {name!r}")
        if "python3" not in names:
            raise ValueError("python3 is missing: the agent inside is a Python program")
        return tuple(dict.fromkeys(names))

    @field_validator("wheels")
    @classmethod
    def _requirements(cls, items: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(_normal_requirement, items)))

    @field_validator("prune")
    @classmethod
    def _globs(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if not _GLOB.match(glob) or ".." in glob.split("/"):
                raise ValueError(f"not a glob below the wheels' directory: {glob!r}")
        return globs

    @field_validator("environment")
    @classmethod
    def _variables(cls, variables: dict[str, str]) -> dict[str, str]:
        for key, value in variables.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", key) or "\0" in value:
                raise ValueError(f"not an environment variable: {key!r}")
        return variables

    @property
    def digest(self) -> str:
        """SHA-256 over what the recipe asks for (not over its name and description), in hex."""
        content = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _normal_requirement(text: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"not a package name with an optional version range: {text!r}") from error
    if requirement.url or requirement.marker:
        raise ValueError(f"only a name with an optional version range is accepted, no URL and no marker: {text!r}")
    return str(requirement)


def parse_recipe(data: dict[str, Any]) -> Recipe:
    """A ``Recipe`` from parsed TOML or JSON. Raises ``InputError`` with one line per mistake."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        raise InputError("unusable recipe: " + "; ".join(lines)) from error


def load_recipe(path: Path) -> Recipe:
    """Read a recipe from a TOML file. Raises ``InputError``."""
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_CAP + 1)
        if len(content) > _FILE_CAP:
            raise InputError(f"{path} is too large for a recipe")
        return parse_recipe(tomllib.loads(content.decode("utf-8")))
    except OSError as error:
        raise InputError(f"cannot read the recipe {path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, not TOML
        raise InputError(f"{path} is not a recipe: {error}") from error


def recipe_names() -> list[str]:
    """Names of the recipes that come with dayfly."""
    return sorted(entry.name.removesuffix(".toml") for entry in _shipped().iterdir() if entry.name.endswith(".toml"))


def shipped_recipe(name: str) -> Recipe:
    """A recipe that comes with dayfly. Raises ``ImageNotFound``."""
    if name not in recipe_names():
        raise ImageNotFound(f"no recipe is called {name!r}", remedy=f"recipes are: {', '.join(recipe_names())}")
    return parse_recipe(tomllib.loads((_shipped() / f"{name}.toml").read_text("utf-8")))


def _shipped() -> Any:
    return resources.files("dayfly.images") / "recipes"


def derive(base: Recipe, add: list[str] | tuple[str, ...], name: str) -> Recipe:
    """``base`` plus more packages: ``NAME`` with an optional version range is a wheel, ``apt:NAME`` the distribution's.

    Raises ``InputError``.
    """
    debs = [item.removeprefix("apt:") for item in add if item.startswith("apt:")]
    wheels = [item for item in add if not item.startswith("apt:")]
    if not add:
        raise InputError("nothing to add was named", remedy="--add NAME, or --add apt:NAME")
    more = {"name": name, "description": f"{base.name} with {', '.join(add)}"[:200]}
    return parse_recipe({**base.model_dump(), **more, "apt": (*base.apt, *debs), "wheels": (*base.wheels, *wheels)})
