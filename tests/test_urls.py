"""One spelling for paths."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.urls import LONGEST_PATH, BadPath, canonical_path


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("/", "/"),
        ("/v1/items", "/v1/items"),
        ("/v1/items/", "/v1/items/"),
        ("/%76%31/%7e%41", "/v1/~A"),
        ("/a%c3%a4", "/a%C3%A4"),
        ("/a%20b%25", "/a%20b%25"),
        ("/a;v=1/@b:c", "/a;v=1/@b:c"),
        ("/...", "/..."),
        ("/..a/.b;x", "/..a/.b;x"),
        ("/..%C3%A4", "/..%C3%A4"),
        ("/%252e%252e/", "/%252e%252e/"),
    ],
)
def test_one_spelling(path: str, spelled: str) -> None:
    assert canonical_path(path) == spelled


@pytest.mark.parametrize(
    "path",
    [
        "", "v1", "//", "//evil.example.net/", "/a//b", "/../x", "/a/..", "/a/./b", "/a/%2e%2E/b", "/a/.%2e/b", "/..;/x",
        "/a/%2e%2e;x=1/b", "/a%2fb", "/a%2Fb", "/a\\b", "/a%5cb", "/a%00", "/a%", "/a%2", "/a%zz", "/a b", "/ä", "/a?b", "/a#b", "/a\r\nb",
        "/..%3b/x", "/a/..%3Bx=1", "/a/.%3f", "/a/..%23/b", "/a/..%20/b", "/a/%2e%2e%09/b", "/a/..%0d", "/" + "a" * LONGEST_PATH,
    ],
)  # fmt: skip
def test_what_has_no_spelling_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        canonical_path(path)


@given(st.text("/.%;ab235BeEfFcC~ä\\", max_size=30).map(lambda text: "/" + text))
def test_whatever_comes_out_is_stable_and_climbs_nowhere(path: str) -> None:
    try:
        spelled = canonical_path(path)
    except BadPath:
        return
    assert canonical_path(spelled) == spelled
    assert not {".", ".."} & {part.split(";")[0] for part in unquote(spelled).split("/")}
    assert "//" not in unquote(spelled).rstrip("/") + "/"
