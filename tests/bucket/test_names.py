"""Keys that become files, and files that become keys: one spelling each, or none."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.bucket.names import BadName, file_below, key_for, refuse_clashes, shown

PREFIX = "in/2026/"

FILES = {
    "in/2026/a.csv": "a.csv",
    "in/2026/sub/b c+é.txt": "sub/b c+é.txt",
    "in/2026/sub/": "sub/",
    "in/2026/100%": "100%",
    "in/2026/...": "...",
    "in/2026/-rf": "-rf",
    "in/2026/.hidden": ".hidden",
    "in/2026/": "",
    "in/2026/" + "n" * 255: "n" * 255,
}


@pytest.mark.parametrize("key", FILES)
def test_a_key_is_the_path_behind_its_prefix(key: str) -> None:
    assert file_below(PREFIX, key) == FILES[key]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("in/2025/a", "not below"),
        ("in/2026", "not below"),
        ("", "not below"),
        ("in/2026//a", "empty segment"),
        ("in/2026/a//b", "empty segment"),
        ("in/2026/a//", "empty segment"),
        ("in/2026//", "empty segment"),
        ("in/2026/..", "dots"),
        ("in/2026/a/../../b", "dots"),
        ("in/2026/./a", "dots"),
        ("in/2026/%2e%2e/a", "dots"),
        ("in/2026/%252e%252e/a", "dots"),
        ("in/2026/a%2f%2fb", "empty segment"),
        ("in/2026/a\nb", "control"),
        ("in/2026/a\0", "control"),
        ("in/2026/a\x7f", "control"),
        ("in/2026/a\\b", "backslash"),
        ("in/2026/a%5cb", "backslash"),
        ("in/2026/\udc80", "control"),
        ("in/2026/" + "n" * 256, "255 bytes"),
        ("in/2026/" + "é" * 128, "255 bytes"),
        ("in/2026/" + "n/" * 600, "1024 bytes"),
    ],
)
def test_what_is_no_file_is_refused(key: str, why: str) -> None:
    with pytest.raises(BadName, match=why):
        file_below(PREFIX, key)


@given(st.text(max_size=40).map(lambda text: PREFIX + text) | st.text(max_size=60))
def test_whatever_is_no_refusal_stays_below_and_comes_back_as_it_was(key: str) -> None:
    try:
        path = file_below(PREFIX, key)
    except BadName:
        return
    assert key == PREFIX + path
    whole = posixpath.normpath(posixpath.join("/out", path))
    assert whole == "/out" or whole.startswith("/out/")
    assert path.removesuffix("/") in ("", posixpath.relpath(whole, "/out"))
    assert path.isascii() or path.encode()
    if path and not path.endswith("/"):
        assert key_for(PREFIX, path) == key


@given(st.text(max_size=40))
def test_a_file_is_a_key_of_its_own_prefix_or_none(path: str) -> None:
    try:
        key = key_for(PREFIX, path)
    except BadName:
        return
    assert key.startswith(PREFIX)
    assert "/../" not in key
    assert "//" not in key
    assert all(character.isprintable() or character > "\x7f" for character in key)


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "../a", "a/..", "a\nb", "a\\b", "raw\udcff", "n/" * 600 + "n"]
)
def test_what_is_no_key_is_refused(path: str) -> None:
    with pytest.raises(BadName):
        key_for(PREFIX, path)


def test_whole_buckets_are_a_prefix_too() -> None:
    assert file_below("", "a/b") == "a/b"
    assert key_for("", "a/b") == "a/b"


@pytest.mark.parametrize(
    ("files", "which"),
    [
        (["a", "a"], "a"),
        (["a", "a/b"], "a"),
        (["a/b/c", "a/b"], "a/b"),
        (["a/", "a"], "a"),
        (["a/", "a/"], "a/"),
    ],
)
def test_what_cannot_be_beside_each_other_is_refused_by_name(files: list[str], which: str) -> None:
    with pytest.raises(BadName) as caught:
        refuse_clashes(files)
    assert caught.value.args[0] == which


def test_what_can_be_beside_each_other_is_let_be() -> None:
    refuse_clashes(["a", "b/", "b/c", "b/d/e", "b/d/f", "aa/b"])


def test_what_is_shown_of_a_name_is_ascii_and_bounded() -> None:
    assert shown("a\n\x1b[2Jé") == r"'a\n\x1b[2J\xe9'"
    assert len(shown("\U0001f600" * 5000)) < 2100
