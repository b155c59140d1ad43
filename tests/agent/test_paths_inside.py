"""The rule about links, step by step, on a tree of this machine that nobody else touches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.paths import MAX_TURNS, Finder, open_directory
from dayfly.agent.session import Refused


class House:
    """A home with a finder for its owner: the tests' user, or, for root, a uid that owns the home alone."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir()
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        self.finder = Finder(os.geteuid(), os.getegid(), str(self.home))

    def find(self, path: str, **options: bool) -> str:
        """The real path that is found; or the problem."""
        try:
            with self.finder.find(path, **options) as place:
                return os.fsdecode(place.path).removeprefix(f"{self.home}/")
        except Refused as error:
            return error.code
        except FileNotFoundError:
            return "not_found"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    before = len(os.listdir("/proc/self/fd"))
    yield House(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor was left open"


def test_plain_paths_lead_where_they_say(house: House) -> None:
    (house.home / "a/b").mkdir(parents=True)
    for path in ("a/b", "./a//b/", f"{house.home}/a/b", "a/./b"):
        assert house.find(path) == "a/b"
    assert house.find("a/new") == "a/new"
    assert house.find("nothing/new") == "not_found"


def test_parents_are_made_when_asked_for(house: House) -> None:
    assert house.find("x/y/z", make_parents=True) == "x/y/z"
    assert (house.home / "x/y").is_dir()
    assert not (house.home / "x/y/z").exists()


def test_links_within_the_home_are_followed(house: House) -> None:
    (house.home / "real/deep").mkdir(parents=True)
    for name, target in {
        "plain": "real",
        "chain": "plain",
        "absolute": str(house.home / "real"),
        "real/up": "..",
        "real/deep/out": "../../real",
        "dots": "real/deep/..",
    }.items():
        (house.home / name).symlink_to(target)
    for path in ("plain/f", "chain/f", "absolute/f", "real/up/real/f", "real/deep/out/f", "dots/f"):
        assert house.find(path) == "real/f"


def test_links_out_of_the_home_are_refused_however_they_are_written(house: House) -> None:
    (house.home / "d").mkdir()
    for number, target in enumerate((
        str(house.outside), "../outside", "d/../../outside", f"{house.home}/../outside", "../home/../outside", "/", "/etc", "..",
    )):  # fmt: skip
        (house.home / f"l{number}").symlink_to(target)
        assert house.find(f"l{number}/secret") == "unsafe_path", target
        assert house.find(f"l{number}") == "unsafe_path", target


def test_a_link_inside_may_not_lead_out_through_another_one(house: House) -> None:
    (house.home / "out").symlink_to("../outside")
    (house.home / "to-out").symlink_to("out/secret")
    (house.home / "back").symlink_to("out/../home")
    assert house.find("to-out") == "unsafe_path"
    assert house.find("back") == "unsafe_path"


def test_the_last_link_is_named_itself_when_not_followed(house: House) -> None:
    (house.home / "out").symlink_to("/etc/passwd")
    assert house.find("out", follow=False) == "out"


def test_loops_and_long_chains_of_links_end(house: House) -> None:
    (house.home / "a").symlink_to("b")
    (house.home / "b").symlink_to("a")
    assert house.find("a") == "unsafe_path"
    (house.home / "0").write_text("x")
    for number in range(1, MAX_TURNS + 5):
        (house.home / str(number)).symlink_to(str(number - 1))
    assert house.find(str(MAX_TURNS // 2)) == "0"
    assert house.find(str(MAX_TURNS + 4)) == "unsafe_path"


def test_a_file_on_the_way_is_no_directory(house: House) -> None:
    (house.home / "file").write_text("x")
    assert house.find("file/x") == "not_directory"


def test_links_of_the_image_lead_anywhere(house: House) -> None:
    """Above the user's tree: /proc/self is one on every machine, in a directory that only root could write to."""
    assert house.find("/proc/self/status") == f"/proc/{os.getpid()}/status"


def test_a_directory_is_opened_but_never_a_link_to_one(house: House) -> None:
    (house.home / "link").symlink_to(".")
    directory = os.open(house.home, os.O_RDONLY)
    try:
        with pytest.raises(NotADirectoryError):
            open_directory(b"link", directory)
        os.close(open_directory(b".", directory))
    finally:
        os.close(directory)


@given(st.text(max_size=50))
def test_any_text_is_a_place_below_the_home_or_refused(text: str) -> None:
    finder = Finder(os.geteuid(), os.getegid(), "/nonexistent-home")
    try:
        with finder.find(text if text.startswith("/") else f"x/{text}", follow=False) as place:
            assert b".." not in place.path.split(b"/")
    except (Refused, FileNotFoundError, PermissionError):
        return
