"""The public surface is what docs/api.md says: the same names, with the same parameters."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import dayfly

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8")
CALL = re.compile(r"`((?:\w+\.)*)(\w+)\((.*?)\)(?: ->[^`]*)?`")
TYPES = [value for name in dayfly.__all__ if inspect.isclass(value := getattr(dayfly, name))]


def documented_calls() -> list[tuple[str, list[str]]]:
    """Each ``name(parameters)`` on the page; what has an ellipsis is told elsewhere."""
    calls = [(owner, name, inner) for owner, name, inner in CALL.findall(PAGE) if owner != "os."]
    return [(name, _names(inner)) for _, name, inner in calls if "..." not in inner.split(", ")]


def _names(inner: str) -> list[str]:
    while nested := re.search(r"\([^()]*\)", inner):  # defaults such as Limits() and frozenset()
        inner = inner[: nested.start()] + inner[nested.end() :]
    return [part.split("=")[0].strip() for part in inner.split(",") if part.strip() not in ("", "*")]


def _candidates(name: str) -> list[inspect.Signature]:
    """The public class of that name, or all public methods of that name."""
    if name in dayfly.__all__:
        return [inspect.signature(getattr(dayfly, name))]
    methods = [getattr(one, name, None) for one in TYPES]
    return [inspect.signature(method) for method in methods if inspect.isroutine(method)]


def _fits(documented: list[str], signature: inspect.Signature) -> bool:
    """All that is documented is there in this order; what is not mentioned may be left out in a call."""
    public = {name: one for name, one in signature.parameters.items() if name != "self" and not name.startswith("_")}
    optional = {name for name, one in public.items() if one.default is not one.empty}
    return [name for name in public if name in documented] == documented and set(public) - set(documented) <= optional


def test_the_page_lists_exactly_the_public_names() -> None:
    section = PAGE.partition("## All public names\n")[2].partition("\n## ")[0]
    assert re.findall(r"`(\w+)`", section) == dayfly.__all__
    assert dayfly.__all__ == sorted(dayfly.__all__)


@pytest.mark.parametrize(("name", "parameters"), documented_calls())
def test_what_the_page_calls_can_be_called_so(name: str, parameters: list[str]) -> None:
    found = _candidates(name)
    assert any(_fits(parameters, one) for one in found), f"the page has {name}({', '.join(parameters)}), not: {found}"


def test_the_page_tells_of_every_method() -> None:
    said = {name for _, name, _ in CALL.findall(PAGE)} | set(re.findall(r"(?:`|^### )(\w+)", PAGE, re.MULTILINE))
    missing = {
        f"{one.__name__}.{name}"
        for one in (dayfly.Sandbox, dayfly.Files, dayfly.Commands, dayfly.Contexts, dayfly.Process, dayfly.Port)
        for name in dir(one)
        if not name.startswith("_") and name not in said
    }
    assert not missing


def test_every_error_is_on_the_page_and_under_one_root() -> None:
    errors = [one for one in TYPES if issubclass(one, Exception)]
    assert len(errors) > 10
    for error in errors:
        assert issubclass(error, dayfly.DayflyError)
        assert f"`{error.__name__}`" in PAGE.partition("## All public names")[0]


def test_every_end_reason_is_on_the_page() -> None:
    section = PAGE.partition("## End reasons\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    told = [word for row in rows for word in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted({"EndReason", *dayfly.EndReason})
