"""Names, versions and hashes of packages: one spelling, and nothing that could be read in two ways."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from dayfly.errors import PolicyError
from dayfly.limits import Unfit
from dayfly.network import PackagesRule, parse_network
from dayfly.network.entries import LONGEST_ENTRY, NodeEntry, node_entry, python_entry, python_name, semver
from dayfly.network.packages import MOST_OF_ONE, MOST_PACKAGES

SHA256 = "--hash=sha256:" + "a" * 64
INTEGRITY = "sha512-" + base64.b64encode(bytes(64)).decode()


def rule(**packages: object) -> PackagesRule:
    (made,) = parse_network([{"packages": packages}])
    assert isinstance(made, PackagesRule)
    return made


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("NumPy", "numpy"),
        ("zope.interface", "zope-interface"),
        ("Foo__Bar.-baz", "foo-bar-baz"),
        ("numpy >= 2 , < 3", "numpy<3,>=2"),
        ("numpy==2.0.0", "numpy==2.0.0"),
        ("numpy (>=2)", "numpy>=2"),
        (f"ruff==0.9.1  {SHA256.replace('a', 'A', 0)}", f"ruff==0.9.1 {SHA256}"),
    ],
)
def test_a_python_package_has_one_spelling(given: str, kept: str) -> None:
    assert rule(python=[given]).packages.python == (kept,)
    assert str(python_entry(kept)) == kept


@pytest.mark.parametrize(
    "given",
    [
        "", " ", "-", "-e .", "--index-url=https://x.example/", "a b", "a[extra]", "a; python_version>'3'", "a @ https://x.example/a.whl",
        "https://x.example/a.whl", "./a.whl", "../a", "a/b", "a%2fb", "a\nb", "a\0", "ä", "a==", "a==1==2", "a===1", "a>>1", f"a{SHA256}x",
        f"{SHA256} a", f"a {SHA256} b", "a --hash=md5:" + "a" * 32, "a --hash=sha256:abc", "a" * 215, "a==" + "1" * 300, " " * (LONGEST_ENTRY + 1),
    ],
)  # fmt: skip
def test_what_is_no_python_package_is_refused(given: str) -> None:
    with pytest.raises(PolicyError) as caught:
        rule(python=[given])
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("left-pad", "left-pad"),
        ("JSONStream", "JSONStream"),
        ("@scope/name", "@scope/name"),
        ("@scope/name@^1.2.3", "@scope/name@^1.2.3"),
        ("react@=19.0.0", "react@19.0.0"),
        ("react@19.0.0-rc.1", "react@19.0.0-rc.1"),
        (f"react@19.0.0   {INTEGRITY}", f"react@19.0.0 {INTEGRITY}"),
    ],
)
def test_an_npm_package_has_one_spelling(given: str, kept: str) -> None:
    assert rule(node=[given]).packages.node == (kept,)
    assert str(node_entry(kept)) == kept


@pytest.mark.parametrize(
    "given",
    [
        "", " ", "-", "../x", "@a", "@a/", "@/b", "@a/@b", "a/b", "@a/b/c", "a@", "a@1", "a@1.2", "a@*", "a@latest", "a@>=1.0.0", "a@^1.0.0-rc.1",
        "a@npm:b@1.0.0", "a@https://x.example/a.tgz", "a@1.0.0 || 2.0.0", "node_modules", "a%2fb", "a\0", "ä", "a@01.0.0", "a@1.0.0 sha512-AAAA",
        "a@1.0.0 sha1-" + base64.b64encode(bytes(20)).decode(), "a" * 215,
    ],
)  # fmt: skip
def test_what_is_no_npm_package_is_refused(given: str) -> None:
    with pytest.raises(PolicyError) as caught:
        rule(node=[given])
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        ("a", ["0.0.1", "9.9.9", "1.0.0-rc.1"], []),
        ("a@1.2.3", ["1.2.3"], ["1.2.4", "1.2.3-rc.1", "01.2.3"]),
        ("a@^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0", "1.3.0-rc.1", "x"]),
        ("a@^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "1.0.0"]),
        ("a@^0.0.3", ["0.0.3"], ["0.0.4", "0.1.0"]),
        ("a@~1.2.3", ["1.2.3", "1.2.9"], ["1.3.0", "1.2.2"]),
    ],
)
def test_a_range_of_npm_is_what_npm_makes_of_it(entry: str, inside: list[str], outside: list[str]) -> None:
    one = node_entry(entry)
    assert [version for version in [*inside, *outside] if one.has(version)] == inside


def test_versions_of_python_are_those_of_pep_440() -> None:
    one = python_entry("a>=1,<2")
    assert [text for text in ("0.9", "1", "1.5rc1", "2.0rc1", "2") if one.has(Version(text))] == ["1", "1.5rc1"]


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ({}, "names none"),
        ({"python": []}, "names none"),
        ({"python": "numpy"}, "not a list"),
        ({"python": [1]}, "not a list of names"),
        ({"python": ["*"]}, "a star stands for no packages"),
        ({"python": [{"lock": "requirements.txt"}]}, "a lock file is read where a policy's file is"),
        ({"python": [{"lock": "/etc/passwd"}]}, "a lock file is read where a policy's file is"),
        ({"node": ["a"] * (MOST_PACKAGES + 1)}, "not a list of at most"),
        ({"python": [f"p{number} " + " ".join([SHA256[:-4] + f"{digit:04x}" for digit in range(300)]) for number in range(30)]}, "characters"),
        ({"python": ["a"], "min_age": -1}, "at least"),
        ({"python": ["a"], "min_age": 4000}, "at most"),
        ({"python": ["a"], "index": "https://x.example/"}, "there is no key"),
    ],
)  # fmt: skip
def test_a_list_is_bounded_and_plain(packages: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        parse_network([{"packages": packages}])


@pytest.mark.parametrize("kind", ["python", "node"])
def test_a_name_is_there_a_bounded_number_of_times(kind: str) -> None:
    mark = {"python": "==", "node": "@"}[kind]
    ones = [f"a{mark}1.0.{number}" for number in range(MOST_OF_ONE)]
    assert getattr(rule(**{kind: [*ones, ones[0], "b"]}).packages, kind) == (*ones, "b")
    with pytest.raises(PolicyError, match=f"a is there {MOST_OF_ONE + 1} times"):
        rule(**{kind: [*ones, "a", "b"]})


def test_what_is_listed_twice_is_kept_once_and_a_second_rule_is_refused() -> None:
    assert rule(python=["A", "a", "a==1", "a==1.5"]).packages.python == ("a", "a==1", "a==1.5")
    with pytest.raises(PolicyError, match="a second one for packages"):
        parse_network([{"packages": {"python": ["a"]}}, {"packages": {"python": ["b"]}}])


def test_private_is_a_private_range() -> None:
    (made,) = parse_network([{"packages": {"python": ["a"]}, "private": "10.1.0.0/16"}])
    assert str(made.private) == "10.1.0.0/16"
    with pytest.raises(PolicyError, match="not inside a private range"):
        parse_network([{"packages": {"python": ["a"]}, "private": "8.8.8.0/24"}])


@given(st.text(max_size=60))
def test_any_text_is_an_entry_with_one_spelling_or_refused(text: str) -> None:
    for read in (python_entry, node_entry):
        try:
            once = str(read(text))
        except Unfit:
            continue
        assert once.isascii()
        assert once.isprintable()
        assert str(read(once)) == once


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,30}[A-Za-z0-9])?", fullmatch=True))
def test_a_normal_name_is_its_own(name: str) -> None:
    normal = python_name(name)
    assert python_name(normal) == normal
    assert not set(normal) - set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(st.tuples(*[st.integers(0, 9)] * 3), st.sampled_from("^~"), st.tuples(*[st.integers(0, 9)] * 3))
def test_a_range_begins_at_its_version_and_ends(
    least: tuple[int, int, int], kind: str, other: tuple[int, int, int]
) -> None:
    entry = NodeEntry("a", kind, ".".join(map(str, least)))
    asked = ".".join(map(str, other))
    assert semver(asked) == other
    assert entry.has(".".join(map(str, least)))
    if entry.has(asked):
        assert other >= least
        assert other[0] == least[0]
