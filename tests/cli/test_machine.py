"""What is looked at before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from dayfly import HostError, ImageNotFound, UnknownLanguage
from dayfly.cli.machine import image_of, language_in, usable_paths
from dayfly.spec import Image

IMAGE = Image("data", "sha256:0", "x86_64", Path("/"), languages=("python", "bash", "javascript"))


@pytest.mark.parametrize(
    ("word", "language"),
    [
        ("python", "python"), ("Python3", "python"), ("py", "python"), ("sh", "bash"), ("JavaScript", "javascript"),
        ("js", "javascript"), ("node", "javascript"),
    ],
)  # fmt: skip
def test_a_language_has_more_than_one_name(word: str, language: str) -> None:
    assert language_in(IMAGE, word) == language


@pytest.mark.parametrize(
    ("word", "remedy"),
    [("javascrpt", "did you mean javascript? there is python"), ("cobol", "there is python, bash, javascript")],
)
def test_an_unknown_language_is_told_with_those_that_are_there(word: str, remedy: str) -> None:
    with pytest.raises(UnknownLanguage, match=f"no '{word}' in the image 'data'") as caught:
        language_in(IMAGE, word)
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith(remedy)


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place, problem in (("file", "is not a directory"), ("file/below", "file is not a directory")):
        monkeypatch.setenv("DAYFLY_DATA", str(tmp_path / place))
        with pytest.raises(HostError, match=f"DAYFLY_DATA {tmp_path / place}: .*{problem}"):
            usable_paths()


def test_where_nothing_is_set_up_yet_setup_is_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYFLY_DATA", str(tmp_path / "none"))
    with pytest.raises(ImageNotFound) as caught:
        image_of("data")
    assert caught.value.remedy == "run: dayfly setup"
