"""Licences of Debian packages: what their files name, and nothing from outside of the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from dayfly.images.licences import deb_licence

FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"


def put(root: Path, text: str, package: str = "sample") -> None:
    path = root / "usr/share/doc" / package / "copyright"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FORMAT}Files: *\nCopyright: x\nLicense: GPL-2+\n text\n\nLicense: GPL-2+\n text", "GPL-2+"),
        (f"{FORMAT}Files: *\nLicense: MIT\n\nFiles: a\nlicense:  BSD-3-clause or X \n", "MIT, BSD-3-clause or X"),
        (f"{FORMAT}Files: *\nLicense: A\n" + "".join(f"License: B-{n}\n" for n in range(40)), "A and others"),
        (f"{FORMAT}Files: *\nLicense:\n text\n", "see /usr/share/doc/sample/copyright"),
        (f"{FORMAT}License: \x1b[31mred\n", "see /usr/share/doc/sample/copyright"),
        ("This is prose.\nLicense: none of these\n", "see /usr/share/doc/sample/copyright"),
        ("", "see /usr/share/doc/sample/copyright"),
    ],
    ids=["one", "two", "many", "nameless", "hostile", "prose", "empty"],
)
def test_what_a_copyright_file_names_is_told(tmp_path: Path, text: str, said: str) -> None:
    put(tmp_path, text)
    assert deb_licence(tmp_path, "sample") == said


def test_a_link_is_followed_inside_of_the_image_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root, f"{FORMAT}License: MIT\n")
    put(tmp_path, f"{FORMAT}License: the host's\n")
    docs = root / "usr/share/doc"
    (docs / "within").symlink_to("sample")
    (docs / "out").symlink_to(tmp_path / "usr/share/doc/sample")
    (docs / "up").symlink_to("../../../../usr/share/doc/sample")
    (docs / "circle").symlink_to("circle")
    assert deb_licence(root, "within") == "MIT"
    for package in ("out", "up", "circle", "missing"):
        assert deb_licence(root, package) == f"see /usr/share/doc/{package}/copyright"
