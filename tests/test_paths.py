"""Where things are kept: the right place for each user, never one that others can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dayfly.errors import HostError
from dayfly.paths import Paths, default_paths, make_directory, untraversable, write_atomically

IS_ROOT = os.geteuid() == 0


def test_one_variable_moves_everything(tmp_path: Path) -> None:
    paths = default_paths({"DAYFLY_DATA": str(tmp_path)})
    assert paths == Paths(tmp_path, tmp_path / "run")
    for place in (paths.bin, paths.images, paths.cache, paths.cells, paths.run):
        assert place.parent == tmp_path


def test_without_it_root_has_the_systems_places_and_others_their_own(tmp_path: Path) -> None:
    paths = default_paths({"HOME": "/home/someone", "XDG_RUNTIME_DIR": str(tmp_path)})
    if IS_ROOT:
        assert paths == Paths(Path("/var/lib/dayfly"), Path("/run/dayfly"))
    else:
        assert paths == Paths(Path("/home/someone/.local/share/dayfly"), tmp_path / "dayfly")
        assert default_paths({"HOME": "/h", "XDG_DATA_HOME": "/d"}).data == Path("/d/dayfly")
        assert default_paths({"HOME": "/h", "XDG_DATA_HOME": "relative"}).data == Path("/h/.local/share/dayfly")
        assert default_paths({"HOME": "/h", "XDG_RUNTIME_DIR": "/proc/1"}).run == Path("/h/.local/share/dayfly/run")
        with pytest.raises(HostError, match="HOME"):
            default_paths({})


def test_nothing_is_created_by_asking(tmp_path: Path) -> None:
    default_paths({"DAYFLY_DATA": str(tmp_path / "new")})
    assert not (tmp_path / "new").exists()


def test_a_relative_place_is_refused() -> None:
    with pytest.raises(HostError, match="not an absolute path"):
        default_paths({"DAYFLY_DATA": "here"})


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_directories_have_their_mode_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_directory(tmp_path / "a/b/c")
        make_directory(tmp_path / "private", 0o700)
    finally:
        os.umask(before)
    for name, mode in (("a", 0o755), ("a/b", 0o755), ("a/b/c", 0o755), ("private", 0o700)):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(HostError, match="can be written by others"):
        make_directory(tmp_path / "open")


def test_what_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="DAYFLY_DATA"):
        make_directory(tmp_path / "file/below")


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "one")
    with path.open() as before:
        write_atomically(path, "two")
        assert before.read() == "one"
    assert path.read_text() == "two"
    path.unlink()
    path.mkdir()
    with pytest.raises(HostError):
        write_atomically(path, "three")
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_place_that_other_users_cannot_enter_is_found(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a").chmod(0o700)
    closed = untraversable(tmp_path / "a/b")
    assert closed is not None
    assert (tmp_path / "a").is_relative_to(closed)  # pytest's own directory is closed already
