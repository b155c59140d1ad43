"""Builds of a real, tiny image from the distribution's packages: whole, safe, once, and interruptible at any moment."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.errors import BoundaryUnusable, ImageNotFound, InputError, OutOfSpace
from dayfly.images import Recipe, Stage, Step, Store, build, build_derived
from dayfly.images.builder import _demand_space, _host_python, _warm
from dayfly.images.warm import RunInside
from dayfly.paths import Paths
from dayfly.spec import Image
from tests.images.conftest import MakeWheel, start_builder

Built = tuple[Paths, Image]


def tree(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(directory, name)
            yield path, path.lstat()


def test_the_image_is_complete(built: Built) -> None:
    root = built[1].rootfs
    for name in ("usr/bin/python3", "usr/bin/bash", "usr/bin/sh", "usr/bin/awk", "usr/bin/which", "usr/bin/tar"):
        assert (root / name).exists(), name
    assert (root / "bin").readlink() == Path("usr/bin")
    assert "user:x:1000:1000:user:/home/user:/bin/bash\n" in (root / "etc/passwd").read_text()
    assert "user:x:1000:\n" in (root / "etc/group").read_text()
    assert (root / "etc/ld.so.cache").stat().st_size > 1000
    assert (root / "etc/machine-id").read_bytes() == b""


def test_nothing_of_the_host_is_in_the_image(built: Built) -> None:
    root = built[1].rootfs
    host = Path("/etc/resolv.conf").read_text() if Path("/etc/resolv.conf").exists() else ""
    assert (root / "etc/resolv.conf").read_text() != host
    assert (root / "etc/resolv.conf").read_text().startswith("nameserver 127.0.0.1\n")
    name = platform.node()
    for path in ("etc/hostname", "etc/hosts"):
        assert name == "localhost" or name not in (root / path).read_text().split()


def test_no_file_has_special_rights_and_all_can_be_read(built: Built) -> None:
    allowed = {"tmp": 0o1777, "var/tmp": 0o1777, "home/user": 0o777}
    for path, found in tree(built[1].rootfs):
        if stat.S_ISLNK(found.st_mode):
            continue
        assert stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode), path
        mode = stat.S_IMODE(found.st_mode)
        wanted = (0o755,) if stat.S_ISDIR(found.st_mode) else (0o644, 0o755)
        assert mode == allowed.get(str(path.relative_to(built[1].rootfs))) or mode in wanted, (path, oct(mode))


def test_nobody_else_on_the_host_can_reach_what_is_open_to_all_inside(built: Built) -> None:
    assert stat.S_IMODE(built[1].rootfs.parent.stat().st_mode) == 0o700


def test_manuals_and_translations_are_left_out_and_licences_are_kept(built: Built) -> None:
    share = built[1].rootfs / "usr/share"
    assert not (share / "man").exists()
    assert not (share / "locale").exists()
    assert (share / "doc/bash/copyright").is_file()
    assert {path.name for path in share.glob("doc/*/*")} == {"copyright"}


def test_modules_are_compiled_when_the_host_has_that_python(built: Built) -> None:
    major, minor = map(int, built[1].python_version.split("."))
    library = built[1].rootfs / f"usr/lib/python{major}.{minor}"
    compiled = library / f"json/__pycache__/__init__.cpython-{major}{minor}.pyc"
    assert compiled.exists() == (_host_python((major, minor)) is not None)
    if compiled.exists():
        assert compiled.read_bytes()[4] == 1  # PEP 552: by hash, unchecked; a copy's time stamp does not matter
        assert str(built[1].rootfs).encode() not in compiled.read_bytes()


def test_the_lock_names_every_package_with_its_digest(built: Built) -> None:
    store = Store(built[0])
    lock = store.lock("tiny")
    assert lock["architecture"] == built[1].architecture == "amd64"
    names = {deb["name"]: deb for deb in lock["debs"]}
    assert {"python3", "bash", "libc6", "base-files"} <= set(names)
    assert "apt" not in names
    assert all(re.fullmatch("[0-9a-f]{64}", deb["sha256"]) for deb in lock["debs"])
    contents = {package.name: package for package in store.contents("tiny")}
    assert set(contents) == set(names)
    assert contents["bash"].kind == "deb"
    assert contents["base-passwd"].licence.startswith("GPL-2")
    assert all(package.licence for package in contents.values())
    [info] = store.list()
    assert info.names == ("tiny",)
    assert 50_000_000 < info.size < 500_000_000
    assert info.packages == len(names)


def test_only_the_image_is_left_of_the_build(built: Built) -> None:
    directory = built[1].rootfs.parent
    assert {path.name for path in directory.iterdir()} == {
        "rootfs", "lease", "image.json", "recipe.json", "lock.json", "contents.json"
    }  # fmt: skip
    assert {path.name for path in built[0].images.iterdir()} == {directory.name, "names", ".lock", ".assembling"}


def test_building_again_finds_the_same_image_and_a_new_name_costs_no_second_one(
    built: Built, tiny_recipe: Recipe
) -> None:
    stages: list[Stage] = []
    renamed = tiny_recipe.model_copy(update={"name": "renamed"})
    again = build(renamed, lambda step: stages.append(step.stage), paths=built[0])
    assert again.digest == built[1].digest
    assert again.name == "renamed"
    assert Stage.UNPACK not in stages
    Store(built[0]).remove("renamed")
    assert Store(built[0]).resolve("tiny").digest == built[1].digest


def lines_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """What it says, up to ``word``; all that it says if it never says that."""
    found = []
    assert process.stdout is not None
    for line in process.stdout:
        found.append(line.strip())
        if line.strip() == word:
            break
    return found


def test_two_builders_at_once_make_one_image(builders: tuple[Paths, list[list[str]]]) -> None:
    paths, told = builders
    assert sum("unpack" in lines for lines in told) == 1
    digests = {line for lines in told for line in lines if line.startswith("built")}
    assert len(digests) == 1
    assert [info.names for info in Store(paths).list()] == [("tiny",)]


def leftovers(paths: Paths) -> list[str]:
    return sorted(path.name for path in paths.images.iterdir() if path.name not in (".lock", ".assembling"))


def test_a_build_that_is_killed_leaves_no_image_and_the_next_clears_the_rest(paths: Paths) -> None:
    builder = start_builder(paths)
    assert lines_until(builder, "unpack")[-1] == "unpack"
    builder.kill()
    lines_until(builder, "")  # end of file: its tools are dead, too, though nobody waited for them
    builder.wait()
    [left] = leftovers(paths)
    assert left.startswith(".build-")
    store = Store(paths)
    assert store.list() == ()
    with pytest.raises(ImageNotFound):
        store.resolve("tiny")
    with store.workspace():
        assert left not in leftovers(paths)
    assert leftovers(paths) == []


def test_an_interrupted_build_clears_up_at_once(paths: Paths) -> None:
    builder = start_builder(paths)
    assert lines_until(builder, "unpack")[-1] == "unpack"
    os.killpg(builder.pid, signal.SIGINT)  # what Ctrl-C does
    lines_until(builder, "")
    assert builder.wait() != 0
    assert leftovers(paths) == []


def test_wheels_and_packages_can_be_added_to_an_image_and_it_is_warmed(
    built: Built, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel("dayfly_sample_addition", {"dayfly_sample_addition.py": b"x = 1\n"})
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))  # pip's own configuration is what counts
    steps: list[Step] = []

    def run_inside(image: Image, code: str) -> bytes:
        assert (image.rootfs / "usr/bin/python3").exists()
        return b'{".cache/a": "YQ=="}\n'

    def derived(run_inside: RunInside | None) -> Image:
        added = ["dayfly-sample-addition", "apt:tree"]
        return build_derived("tiny", added, "mine", steps.append, paths=built[0], run_inside=run_inside)

    image = derived(run_inside)
    store = Store(built[0])
    site = image.rootfs / f"usr/local/lib/python{image.python_version}/dist-packages"
    assert (site / "dayfly_sample_addition.py").read_bytes() == b"x = 1\n"
    assert (image.rootfs / "usr/bin/tree").exists()
    assert {step.stage for step in steps} >= {Stage.RESOLVE, Stage.DOWNLOAD, Stage.UNPACK, Stage.WHEELS, Stage.FINISH}
    kinds = {package.name: package.kind for package in store.contents("mine")}
    assert (kinds["dayfly-sample-addition"], kinds["tree"]) == ("wheel", "deb")
    assert store.lock("mine")["wheels"][0]["version"] == "1.0"
    assert image.digest != built[1].digest
    assert (image.rootfs / "home/user/.cache/a").read_bytes() == b"a"
    assert (store.lock("mine")["warmed"], store.lock("tiny")["warmed"]) == (True, False)
    steps.clear()
    assert derived(None).digest == image.digest, "where none can be warmed, one that was is as good"
    assert Stage.UNPACK not in {step.stage for step in steps}
    store.remove("mine")


def test_an_image_cannot_be_derived_from_one_that_is_neither_built_nor_known(paths: Paths) -> None:
    with pytest.raises(ImageNotFound, match="recipes are: data, python"):
        build_derived("base", ["six"], "mine", paths=paths)


def test_an_image_that_could_not_be_warmed_is_built_all_the_same_and_says_so(tmp_path: Path) -> None:
    def run_inside(image: Image, code: str) -> bytes:
        raise BoundaryUnusable("no runsc")

    steps: list[Step] = []
    record = {
        "name": "x",
        "architecture": "amd64",
        "python": "p",
        "python_version": "3.11",
        "languages": [],
        "environment": {},
    }
    (tmp_path / "image.json").write_text(json.dumps(record))
    assert _warm("import json", tmp_path, steps.append, run_inside) is False
    assert steps[-1].detail == "left out: no runsc"
    assert _warm("", tmp_path, steps.append, run_inside) is False


def test_a_package_that_the_distribution_does_not_have_is_an_error_of_the_caller(paths: Paths) -> None:
    with pytest.raises(InputError, match="no package dayfly-no-such-package"):
        build(Recipe(name="x", apt=("python3", "dayfly-no-such-package")), paths=paths)
    assert leftovers(paths) == []


def test_a_build_that_cannot_fit_is_refused_before_anything_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(OutOfSpace, match="MiB are free"):
        _demand_space(Paths(tmp_path, tmp_path / "run"), 1 << 60)


def test_the_records_are_what_a_reader_expects(built: Built) -> None:
    record = json.loads((built[1].rootfs.parent / "image.json").read_text())
    assert record["python"] == "/usr/bin/python3"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["created"])
