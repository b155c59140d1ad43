"""``dayfly images``: build, list, show and remove what sandboxes run in."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.building import build_image, derive_image
from dayfly.cli.endings import guarded, note, say
from dayfly.cli.machine import image_of, usable_paths
from dayfly.cli.tables import show_table
from dayfly.errors import InputError
from dayfly.images import ImageInfo, Store, load_recipe, recipe_names
from dayfly.limits import MIB
from dayfly.spec import Image

__all__ = ["images"]

images = typer.Typer(help="Build, list, show and remove images.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@images.command("build")
@guarded
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Recipes to build; with --add, more packages.")
    ] = None,
    base: Annotated[str | None, typer.Option("--from", metavar="NAME", help="Image or recipe to start from.")] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE", help="Python package, or apt:PACKAGE; may be given more than once."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new image (default: made from the packages').")] = None,
    recipe: Annotated[Path | None, typer.Option(help="A recipe of your own, as a TOML file.")] = None,
) -> int:
    """Build images: dayfly images build python, or: dayfly images build --from data --add polars duckdb."""
    paths = usable_paths()
    if base is not None:
        packages = [*(add or []), *(names or [])]
        _tell(derive_image(base, packages, name or default_name(base, packages), paths))
    elif add or name:
        raise InputError("--add and --name go with --from", remedy="for example: --from data --add polars")
    elif recipe is not None:
        _tell(build_image(load_recipe(recipe), paths))
    elif not names:
        raise InputError("name what to build", remedy=f"recipes: {', '.join(recipe_names())}")
    for one in (names or []) if base is None and recipe is None else []:
        _tell(build_image(one, paths))
    return 0


def default_name(base: str, packages: list[str]) -> str:
    """A readable name such as ``data-polars-duckdb``, fit to be an image's."""
    words = [
        re.sub(r"[^a-z0-9]+", "-", re.split(r"[<>=!~\[ ]", one.removeprefix("apt:").lower())[0]) for one in packages
    ]
    return "-".join([base, *words])[:64].strip("-")


def _tell(image: Image) -> None:
    note(f"image {image.name}: {image.digest[:19]}, {', '.join(image.languages)}")


@images.command("list")
@guarded
def show_all(as_json: Json = False) -> int:
    """List the images of this user on this machine."""
    found = Store(usable_paths()).list()
    if as_json:
        say(json.dumps([_facts(info) for info in found]))
        return 0
    if not found:
        note("no images yet: dayfly setup builds the default one")
    table = Table.grid(padding=(0, 2))
    for info in found:
        row = (", ".join(info.names) or "-", info.image.digest[7:19], f"{info.size / MIB:.0f} MiB", info.created[:10],
               f"{info.packages} packages", ", ".join(info.image.languages))  # fmt: skip
        table.add_row(*(Text(cell) for cell in row))
    show_table(table, "no image is built; build one with: dayfly images build data")
    return 0


@images.command("show")
@guarded
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="Name or digest.")], as_json: Json = False) -> int:
    """Show what is inside an image: every package with its version and licence."""
    store = Store(usable_paths())
    image = image_of(name)
    packages = store.contents(name)
    if as_json:
        say(json.dumps({**_image(image), "contents": [dataclasses.asdict(package) for package in packages]}))
        return 0
    say(f"{image.name} {image.digest} {image.architecture}\nlanguages: {', '.join(image.languages)}")
    table = Table.grid(padding=(0, 2))
    for package in packages:
        table.add_row(*map(Text, (package.kind, package.name, package.version, package.licence)))
    show_table(table)
    return 0


@images.command("rm")
@guarded
def remove(names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names or digests.")]) -> int:
    """Remove images; one that a sandbox uses is refused."""
    store = Store(usable_paths())
    for name in names:
        store.remove(name)
        note(f"removed {name}")
    return 0


def _facts(info: ImageInfo) -> dict[str, Any]:
    return {
        **_image(info.image),
        "names": info.names,
        "size": info.size,
        "created": info.created,
        "packages": info.packages,
    }


def _image(image: Image) -> dict[str, Any]:
    return {
        "name": image.name,
        "digest": image.digest,
        "architecture": image.architecture,
        "python": image.python_version,
        "languages": image.languages,
    }
