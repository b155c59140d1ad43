"""Warming: what a sandbox gives back is hostile, and only small plain files below the home's caches are kept."""

from __future__ import annotations

import base64
import json
import runpy
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import HostError
from dayfly.images import inside
from dayfly.images.warm import _parse, warm
from dayfly.spec import Image


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "home/user").mkdir(parents=True)
    return Image("x", "sha256:0", "amd64", tmp_path)


def answer(files: dict[str, bytes], before: bytes = b"") -> bytes:
    return before + json.dumps({name: base64.b64encode(data).decode() for name, data in files.items()}).encode() + b"\n"


def test_cached_files_are_kept_in_the_home(image: Image) -> None:
    asked = []

    def run_inside(of: Image, code: str) -> bytes:
        asked.append((of, code))
        return answer({".cache/lib/list.json": b"{}"}, before=b"chatter\n")

    assert warm(image, "import lib", run_inside) == 1
    assert (image.rootfs / "home/user/.cache/lib/list.json").read_bytes() == b"{}"
    assert asked[0][0] is image
    assert asked[0][1].endswith("print(collect('import lib'))\n")


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../x", ".cache/../../x", ".bashrc", ".ssh/authorized_keys", ".cache", ".cache/", ".cache//x", ".cache/a\0b",
     ".cache/./x", ".cache/" + "x" * 300, ".cache/" + "d/" * 20 + "x"],
)  # fmt: skip
def test_files_in_other_places_are_refused(image: Image, name: str) -> None:
    with pytest.raises(HostError, match="where none belong"):
        warm(image, "", lambda *_: answer({name: b"x"}))
    assert not [path for path in image.rootfs.rglob("*") if path.is_file()]


@pytest.mark.parametrize("output", [b"", b"[]", b"{", b'{"a": 1}', b'{".cache/a": "?"}', b"[" * 100_000, b"\xff"])
def test_an_answer_of_another_kind_is_refused(image: Image, output: bytes) -> None:
    with pytest.raises(HostError, match="no list of files"):
        warm(image, "", lambda *_: output)


def test_too_much_is_refused(image: Image) -> None:
    with pytest.raises(HostError, match="too large"):
        warm(image, "", lambda *_: b" " * (17 << 20))
    with pytest.raises(HostError, match="where none belong"):
        warm(image, "", lambda *_: answer({f".cache/{number}": b"" for number in range(300)}))


def test_a_file_that_is_there_already_is_never_written_through(image: Image, tmp_path: Path) -> None:
    (image.rootfs / "home/user/.cache").mkdir()
    outside = tmp_path / "outside"
    (image.rootfs / "home/user/.cache/x").symlink_to(outside)
    with pytest.raises(HostError):
        warm(image, "", lambda *_: answer({".cache/x": b"x"}))
    assert not outside.exists()


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reading(output: bytes) -> None:
    with suppress(HostError):
        _parse(output)


def test_what_runs_inside_returns_the_caches_that_the_code_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/key").write_text("secret")
    code = f"import os; os.makedirs({str(tmp_path / '.cache/a')!r}); open({str(tmp_path / '.cache/a/b')!r}, 'w').write('c')"
    module = runpy.run_path(inside.__file__)
    assert _parse(module["collect"](code).encode()) == {".cache/a/b": b"c"}
