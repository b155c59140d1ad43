"""Recipes: what can be asked for, and that nothing else can."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from dayfly.errors import ImageNotFound, InputError
from dayfly.images import Recipe, derive, load_recipe, parse_recipe, recipe_names, shipped_recipe
from dayfly.policy import DEFAULT_IMAGE


def test_the_shipped_recipes_are_valid_and_hold_what_the_documentation_promises() -> None:
    assert recipe_names() == ["data", "python"]
    assert DEFAULT_IMAGE in recipe_names()
    data = shipped_recipe("data")
    wheels = {Requirement(text).name for text in data.wheels}
    assert wheels >= {"numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "seaborn", "sympy", "pyarrow"}
    assert wheels >= {"openpyxl", "pillow", "requests", "httpx", "ipython", "matplotlib-inline"}
    assert set(data.apt) >= {"python3", "nodejs", "git", "curl", "ca-certificates"}
    assert data.languages == ("python", "bash", "javascript")
    assert {Requirement(text).name for text in shipped_recipe("python").wheels} >= {"ipython"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "colour"),
        ({"name": "../x"}, "name"),
        ({"name": "A"}, "name"),
        ({"name": "deadbeefcafe"}, "not a name for an image"),
        ({"suite": "bookworm main; rm"}, "suite"),
        ({"apt": ["bash"]}, "python3 is missing"),
        ({"apt": ["python3", "--purge"]}, "not a package name"),
        ({"apt": ["python3", "-o=Dir=/"]}, "not a package name"),
        ({"apt": ["python3", "vim="]}, "not a package name"),
        ({"apt": ["python3", "?essential"]}, "not a package name"),
        ({"wheels": ["--index-url=http://evil"]}, "not a package name"),
        ({"wheels": ["-r/etc/passwd"]}, "not a package name"),
        ({"wheels": ["x @ http://evil/x.whl"]}, "no URL"),
        ({"wheels": ["x @ file:///etc/x.whl"]}, "no URL"),
        ({"wheels": ["x; python_version < '3'"]}, "no marker"),
        ({"wheels": ["./here"]}, "not a package name"),
        ({"wheels": ["x\n--pre"]}, "not a package name"),
        ({"languages": ["cobol"]}, "languages"),
        ({"prune": ["../../etc"]}, "not a glob"),
        ({"prune": ["/etc"]}, "not a glob"),
        ({"environment": {"A=B": "c"}}, "not an environment variable"),
        ({"environment": {"A": "c\0d"}}, "not an environment variable"),
    ],
)
def test_what_a_recipe_may_not_say_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_recipe({"name": "x", **change})


@given(st.text(max_size=60))
def test_a_wheel_that_is_accepted_is_never_an_option_a_path_or_a_second_line(text: str) -> None:
    try:
        [wheel] = parse_recipe({"name": "x", "wheels": [text]}).wheels
    except InputError:
        return
    assert wheel[0].isalnum()
    assert not set(wheel) & set("\n\r@/\\ ;")


def test_a_recipe_is_read_from_a_file_and_mistakes_name_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nwheels = ["six>=1"]\n')
    assert load_recipe(path).wheels == ("six>=1",)
    path.write_text("name = \n")
    with pytest.raises(InputError, match=r"mine\.toml is not a recipe"):
        load_recipe(path)
    path.write_bytes(b"#" * 100_000)
    with pytest.raises(InputError, match="too large"):
        load_recipe(path)
    with pytest.raises(InputError, match="cannot read"):
        load_recipe(tmp_path / "absent.toml")


def test_an_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(ImageNotFound, match="data, python"):
        shipped_recipe("../python")


def test_adding_to_a_recipe_keeps_what_it_had() -> None:
    base = shipped_recipe("python")
    mine = derive(base, ["polars>=1", "apt:jq"], "mine")
    assert mine.apt == (*base.apt, "jq")
    assert mine.wheels == (*base.wheels, "polars>=1")
    assert (mine.name, mine.languages, mine.environment) == ("mine", base.languages, base.environment)


@pytest.mark.parametrize("item", ["-e", "apt:-y", "apt:", "", "http://x/y.whl", "x @ http://y"])
def test_what_cannot_be_added_is_refused(item: str) -> None:
    with pytest.raises(InputError):
        derive(shipped_recipe("python"), [item], "mine")


def test_adding_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to add"):
        derive(shipped_recipe("python"), [], "mine")


def test_the_digest_follows_the_content_and_not_the_name() -> None:
    one, two = Recipe(name="one"), Recipe(name="two", description="same")
    assert one.digest == two.digest
    assert one.digest != Recipe(name="one", wheels=("six",)).digest
