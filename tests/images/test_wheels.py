"""Wheels are chosen for the image's Python and unpacked without running anything; hostile archives are refused."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dayfly.errors import HostError, InputError
from dayfly.images.wheels import Target, _overlooked, _wheel, read_metadata, resolve_wheels, unpack_wheel

TARGET = Target((3, 11), (2, 36), "amd64")
MakeWheel = Callable[..., Path]


def unpack(path: Path, root: Path) -> Path:
    unpack_wheel(path, root / "site", root, "/usr/bin/python3")
    return root


def test_packages_data_and_scripts_go_to_their_places(make_wheel: MakeWheel, tmp_path: Path) -> None:
    wheel = make_wheel(
        members={
            "sample/__init__.py": b"def main(): pass\n",
            "sample-1.0.data/scripts/tool": b"#!python\nprint(1)\n",
            "sample-1.0.data/scripts/other": b"#!/bin/sh\n",
            "sample-1.0.data/data/share/sample.txt": b"data",
            "sample-1.0.data/purelib/more.py": b"",
            "sample-1.0.data/headers/sample.h": b"",
            "sample-1.0.dist-info/entry_points.txt": b"[console_scripts]\nsample = sample:main\n../evil = sample:main\n",
        }
    )
    root = unpack(wheel, tmp_path / "root")
    assert (root / "site/sample/__init__.py").read_bytes() == b"def main(): pass\n"
    assert (root / "site/more.py").exists()
    assert (root / "share/sample.txt").read_bytes() == b"data"
    assert (root / "bin/tool").read_bytes() == b"#!/usr/bin/python3\nprint(1)\n"
    assert (root / "bin/other").read_bytes() == b"#!/bin/sh\n"
    assert "from sample import main" in (root / "bin/sample").read_text()
    assert {path.name for path in (root / "bin").iterdir()} == {"tool", "other", "sample"}
    assert all(path.stat().st_mode & 0o111 for path in (root / "bin").iterdir())
    assert not list(root.rglob("*.h"))


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/evil", "a/../../evil", "sample-1.0.data/data/../../../evil", "a\\..\\b"]
)
def test_members_that_lead_out_are_refused(make_wheel: MakeWheel, tmp_path: Path, name: str) -> None:
    wheel = make_wheel(members={name: b"x"})
    with pytest.raises(HostError, match="unsafe member"):
        unpack(wheel, tmp_path / "root")
    assert not list(tmp_path.rglob("evil*"))


def test_links_are_refused(make_wheel: MakeWheel, tmp_path: Path) -> None:
    path = make_wheel()
    link = zipfile.ZipInfo("sample/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(HostError, match="unsafe member"):
        unpack(path, tmp_path / "root")


def test_setuid_bits_do_not_survive(make_wheel: MakeWheel, tmp_path: Path) -> None:
    path = make_wheel()
    tool = zipfile.ZipInfo("sample/tool")
    tool.external_attr = (stat.S_IFREG | 0o6755) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(tool, "x")
    unpack(path, tmp_path / "root")
    assert stat.S_IMODE((tmp_path / "root/site/sample/tool").stat().st_mode) == 0o755


def test_an_archive_that_claims_to_be_enormous_is_refused_before_it_is_unpacked(
    make_wheel: MakeWheel, tmp_path: Path
) -> None:
    path = make_wheel(members={f"sample/{number}": b"x" for number in range(3)})
    content = bytearray(path.read_bytes())
    for entry in re.finditer(rb"PK\x01\x02", bytes(content)):  # the central directory; at 24 is the unpacked size
        content[entry.start() + 24 : entry.start() + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(HostError, match="too large"):
        unpack(path, tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 30])
def test_what_is_no_wheel_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sample-1.0-py3-none-any.whl"
    path.write_bytes(content)
    with pytest.raises(HostError, match="not a wheel"):
        read_metadata(path)


def test_the_target_names_every_older_platform_that_fits() -> None:
    arguments = TARGET.arguments()
    assert arguments[:2] == ["--python-version", "3.11"]
    for tag in ("manylinux_2_36_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"):
        assert f"--platform={tag}" in arguments
    assert "--platform=manylinux_2_37_x86_64" not in arguments


def test_requirements_are_judged_for_the_image_and_not_for_the_host(make_wheel: MakeWheel) -> None:
    wheel = _wheel(
        make_wheel(
            requires=(
                "always",
                'only-old; python_version < "3.10"',
                'only-311; python_version == "3.11"',
                'only-windows; sys_platform == "win32"',
                'with-extra; extra == "fast"',
            )
        )
    )
    assert _overlooked(["sample"], [wheel], TARGET) == ["always", "only-311"]
    assert _overlooked(["sample[fast]"], [wheel], TARGET) == ["always", "only-311", "with-extra"]
    assert _overlooked(["sample"], [wheel], Target((3, 9), (2, 31), "amd64")) == ["always", "only-old"]


def test_wheels_arrive_for_a_python_that_is_not_the_hosts(tmp_path: Path) -> None:
    """From the host's configured index: a compiled package, for the oldest Python that the agent supports."""
    target = Target((3, 9), (2, 31), "amd64")
    wheels = resolve_wheels(["MarkupSafe>=2,<3"], target, tmp_path, pip_cache=tmp_path / "cache")
    assert [wheel.name for wheel in wheels] == ["markupsafe"]
    assert "-cp39-cp39-manylinux" in wheels[0].path.name


def test_a_name_that_no_index_has_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no wheel of dayfly-no-such-package"):
        resolve_wheels(["dayfly-no-such-package"], TARGET, tmp_path, pip_cache=tmp_path / "cache")
