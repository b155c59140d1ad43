"""What an index says: read from both forms, in bounds, and nothing is made of what does not fit."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.dialling import Unreachable
from dayfly.egress.services.packages import pages
from dayfly.egress.services.packages.node import _document
from dayfly.egress.services.packages.pages import JSON, MOST_FILES, MOST_HTML, BadPage, File, files_of
from dayfly.network.entries import NodeEntry

URL = "https://index.example.com/simple/demo/"
A = "a" * 64


def page(*files: object, **more: Any) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "demo", "files": files, **more}).encode()


def of_json(*files: object, **more: Any) -> tuple[File, ...]:
    return files_of("demo", URL, f"{JSON}; charset=utf-8", page(*files, **more))


def of_html(text: str) -> tuple[File, ...]:
    return files_of("demo", URL, "text/html; charset=utf-8", text.encode())


def test_a_file_is_all_that_json_says_of_it() -> None:
    (one,) = of_json(
        {
            "filename": "demo-1.0-py3-none-any.whl",
            "url": "../../files/demo-1.0-py3-none-any.whl",
            "hashes": {"sha256": A, "md5": "a" * 32},
            "requires-python": ">=3.9",
            "yanked": "broken",
            "core-metadata": {"sha256": A},
            "size": 17,
            "upload-time": "2024-05-06T07:08:09.123456Z",
        }
    )
    assert one.url == "https://index.example.com/files/demo-1.0-py3-none-any.whl"
    assert one.digests == one.metadata == {"sha256": frozenset({bytes.fromhex(A)})}
    assert (one.requires_python, one.yanked, one.size, one.wheel) == (">=3.9", "broken", 17, True)
    assert one.uploaded == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_file_is_all_that_html_says_of_it() -> None:
    (one, two) = of_html(
        f"""<!DOCTYPE html><html><head><base href="https://files.example.com/x/"></head><body>
        <A data-requires-python="&gt;=3.9" HREF='demo-1.0-py3-none-any.whl#sha256={A}' data-yanked="broken"
           data-dist-info-metadata="sha256={A}">demo</A><a href="/y/demo-2.0.tar.gz">other text</a></body>"""
    )
    assert one.url == "https://files.example.com/x/demo-1.0-py3-none-any.whl"
    assert one.digests == one.metadata == {"sha256": frozenset({bytes.fromhex(A)})}
    assert (one.requires_python, one.yanked, one.uploaded) == (">=3.9", "broken", None)
    assert (two.url, two.wheel, two.digests) == ("https://files.example.com/y/demo-2.0.tar.gz", False, {})


@pytest.mark.parametrize(
    "name",
    [
        "other-1.0-py3-none-any.whl", "demo_more-1.0-py3-none-any.whl", "demo-1.0.exe", "demo-1.0.egg", "demo.whl", "demo-x.tar.gz",
        "../demo-1.0-py3-none-any.whl", "demo-1.0-py3-none-any.whl/", "demo-1.0-py3-none-any.whl\n", "demo-1.0 -py3-none-any.whl",
        '"><script>-1.0-py3-none-any.whl', "demo-1.0+%2e-py3-none-any.whl", "demo-" + "1" * 300 + ".tar.gz", "", None, 3, ["demo-1.0.tar.gz"],
    ],
)  # fmt: skip
def test_a_file_that_is_not_this_projects_is_left_out(name: object) -> None:
    good = {"filename": "demo-1.0.tar.gz", "url": "demo-1.0.tar.gz"}
    assert [one.name for one in of_json({"filename": name, "url": "x"}, good)] == ["demo-1.0.tar.gz"]


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ({"hashes": 3}, {"digests": {}}),
        ({"hashes": {"sha256": "zz", "sha1": "a" * 40, "sha512": 3}}, {"digests": {}}),
        ({"requires-python": ["3"]}, {"requires_python": None}),
        ({"requires-python": "3\r\nx: y"}, {"requires_python": None}),
        ({"yanked": True}, {"yanked": ""}),
        ({"yanked": {}}, {"yanked": ""}),
        ({"yanked": False}, {"yanked": None}),
        ({"size": -1}, {"size": None}),
        ({"size": True}, {"size": None}),
        ({"size": "9"}, {"size": None}),
        ({"upload-time": "yesterday"}, {"uploaded": None}),
        ({"upload-time": "2024-99-01T00:00:00Z"}, {"uploaded": None}),
        ({"upload-time": 1700000000}, {"uploaded": None}),
        ({"core-metadata": True}, {"metadata": {}}),
        ({"core-metadata": False}, {"metadata": None}),
        ({"url": "http://[::1"}, {"url": ""}),
    ],
)
def test_what_does_not_fit_is_as_if_it_were_not_there(told: dict[str, Any], left: dict[str, Any]) -> None:
    (one,) = of_json({"filename": "demo-1.0.tar.gz", "url": "x", **told})
    assert {name: getattr(one, name) for name in left} == left


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text/plain", b"x"),
        ("", b"x"),
        (JSON, b""),
        (JSON, b"[]"),
        (JSON, b"{}"),
        (JSON, b"\xff"),
        (JSON, b"[" * 1_000_000),
        (JSON, b'{"a":' * 1_000_000),
        (JSON, b"9" * 100_000),
        (JSON, page().replace(b"1.1", b"2.0")),
        (JSON, page(files=3)),
        (JSON, page(meta=3)),
        ("text/html", b" " * (MOST_HTML + 1)),
    ],
)
def test_what_lists_no_files_is_no_page(kind: str, content: bytes) -> None:
    with pytest.raises(BadPage):
        files_of("demo", URL, kind, content)


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<a <!--",
        "<a x='",
        "<a <![CDATA[ ",
        "<a &#",
        "<a =\"'>",
        "<a href='",
        "<a href=x ",
        "<base ",
        "<a\n" + "b " * 3000,
    ],
)
def test_a_hostile_page_has_no_files_and_an_end(piece: str) -> None:
    assert of_html(piece * (MOST_HTML // 4 // len(piece))) == ()


def test_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_FILES >= 20_000
    monkeypatch.setattr(pages, "MOST_FILES", 50)
    one = {"filename": "demo-1.0.tar.gz", "url": "x"}
    assert len(of_json(*[one] * 55)) == 50
    assert len(of_html('<a href="demo-1.0.tar.gz">' * 55)) == 50


@given(st.text(alphabet="<>a \"'=/&#;!-[]hrefbas\n", max_size=400))
def test_any_html_is_read(text: str) -> None:
    of_html(text)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["url", "hashes", "requires-python", "yanked", "core-metadata", "size", "upload-time"]),
            anything,
        )
    )
)
def test_any_json_is_read(files: list[dict[str, Any]]) -> None:
    for one in of_json(*[{"filename": "demo-1.0.tar.gz", **told} for told in files]):
        assert one.name == "demo-1.0.tar.gz"
        assert one.requires_python is None or one.requires_python.isprintable()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_page_or_none(content: bytes) -> None:
    with suppress(BadPage):
        files_of("demo", URL, JSON, content)


@pytest.mark.parametrize(("sets", "files"), [(1, 1), (6, 1), (38, 0)])
def test_a_wheel_of_too_many_tags_is_none(sets: int, files: int) -> None:
    """Found while its fuzzer was slow: three sets of 38 are fifty thousand tags, and each is made; a page of such files took minutes."""
    tags = ".".join("a" * sets)
    assert len(of_json({"filename": f"demo-1-{tags}-{tags}-{tags}.whl", "url": "x"})) == files


@pytest.mark.parametrize("level", [*range(960, 1000, 3), 5000])
def test_a_document_of_any_depth_is_one_or_a_sentence(level: int) -> None:
    """What could just be read is two levels deeper when it is written."""
    deep = b"[" * level + b"]" * level
    document = b'{"name": "demo", "versions": {"1.0.0": {"dist": {"tarball": "https://x/y.tgz"}, "deep": %s}}}' % deep
    with suppress(Unreachable):
        assert _document("demo", document, (NodeEntry("demo"),), None).tarballs.keys() == {"1.0.0"}
