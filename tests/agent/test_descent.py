"""Walking trees of any depth with few descriptors."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dayfly.agent.descent import Descent
from dayfly.agent.session import Refused


def nest(directory: Path, levels: int) -> None:
    """``levels`` directories called "d" in each other, each with a file called by its level."""
    here = os.getcwd()
    os.chdir(directory)
    try:
        for level in range(levels):
            os.mkdir("d")
            os.chdir("d")
            os.close(os.open(str(level + 1), os.O_CREAT))
    finally:
        os.chdir(here)


def climb(way: Descent, levels: int) -> None:
    for _ in range(levels):
        way.up()


@pytest.fixture
def start(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_it_is_where_it_says_on_the_way_down_and_up(tmp_path: Path, start: int) -> None:
    nest(tmp_path, 700)
    before = descriptors()
    with Descent(start) as way:
        for level in range(700):
            way.down(b"d")
            assert sorted(os.listdir(way.directory)) == ([str(level + 1), "d"] if level < 699 else ["700"])
            assert way.depth == level + 1
        assert descriptors() - before < 100
        for level in range(700, 1, -1):
            assert way.up() == b"d"
            assert str(level - 1) in os.listdir(way.directory)
        assert way.path(b"x") == b"d/x"
    assert descriptors() == before


def test_any_walk_up_and_down_ends_where_it_should(tmp_path: Path, start: int) -> None:
    nest(tmp_path, 300)
    choose = random.Random(7)
    with Descent(start) as way:
        for _ in range(4000):
            if way.depth < 299 and choose.random() < 0.55:
                way.down(b"d")
                way.memory = way.depth
            elif way.depth:
                way.up()
            if way.depth:
                assert way.memory == way.depth
                assert str(way.depth) in os.listdir(way.directory)


def test_a_link_is_not_gone_through(tmp_path: Path, start: int) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with Descent(start) as way:
        with pytest.raises(NotADirectoryError):
            way.down(b"link")
        assert way.depth == 0


def test_a_directory_that_was_exchanged_meanwhile_is_noticed(tmp_path: Path, start: int) -> None:
    nest(tmp_path, 200)
    with Descent(start) as way:
        for _ in range(200):
            way.down(b"d")
        parent = tmp_path.joinpath(*["d"] * 120)
        (parent / "d").rename(tmp_path / "moved")
        (parent / "d").mkdir()
        with pytest.raises((Refused, FileNotFoundError)):
            climb(way, 200)
