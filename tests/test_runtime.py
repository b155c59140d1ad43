"""A runsc is found in the promised order, judged by what it can do, and asked within a time limit."""

from __future__ import annotations

import datetime
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly import runtime
from dayfly.errors import BoundaryUnusable, RuntimeMissing, RuntimeTooOld
from dayfly.paths import Paths
from dayfly.runtime import FLOOR, Feature, Runsc, date_of, explain_age, find_runsc, inspect_runsc

OLD_FLAGS = "  -platform string\n    \tptrace (default), kvm\n  -overlay2 value\n    \twrap mounts\n"
FLAGS = OLD_FLAGS.replace("ptrace (default)", "systrap (default), ptrace")
NEW_FLAGS = FLAGS.replace("wrap mounts", "{mount}:{medium}[,size={size}]") + "  -host-settings value\n    \tx\n"
CHECKPOINT = "  -compression value\n    \tx\n"


def fake(
    path: Path,
    version: str = "0.0~20240729.0",
    flags: str = FLAGS,
    commands: str = "\trun  create\n",
    restore: str = "",
    checkpoint: str = CHECKPOINT,
) -> Path:
    """A program that answers as a runsc would."""
    answers = {"--version ": f"runsc version {version}\n", "flags ": flags, "help ": commands,
               "help restore": restore, "help checkpoint": checkpoint}  # fmt: skip
    cases = "".join(f"'{key}') cat <<'END'\n{text}END\n;;\n" for key, text in answers.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$*" >> "$0.asked"\ncase "$1 $2" in\n{cases}esac\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "data", tmp_path / "run")


def test_the_runsc_of_this_machine_is_found_and_has_a_date() -> None:
    runsc = find_runsc()
    assert runsc.path.is_file()
    assert runsc.date is None or runsc.date >= FLOOR
    assert {"root", "network", "overlay2", "platform", "ignore-cgroups"} <= runsc.flags


def test_the_variable_wins_over_setup_and_setup_over_the_path(paths: Paths, tmp_path: Path) -> None:
    named, own, on_path = fake(tmp_path / "n/runsc"), fake(paths.bin / "runsc"), fake(tmp_path / "p/runsc")
    env = {"PATH": str(on_path.parent), "DAYFLY_RUNSC": str(named)}
    assert find_runsc(paths, env).path == named
    del env["DAYFLY_RUNSC"]
    assert find_runsc(paths, env).path == own
    own.unlink()
    assert find_runsc(paths, env).path == on_path


def test_a_variable_that_names_nothing_usable_is_an_error_and_nothing_else_is_taken(
    paths: Paths, tmp_path: Path
) -> None:
    fake(paths.bin / "runsc")
    for value in ("runsc", "/nowhere/runsc", str(tmp_path)):
        with pytest.raises(RuntimeMissing, match="DAYFLY_RUNSC"):
            find_runsc(paths, {"DAYFLY_RUNSC": value})
    old = fake(tmp_path / "old", version="0.0~20221219.0", flags=OLD_FLAGS)
    with pytest.raises(RuntimeTooOld):
        find_runsc(paths, {"DAYFLY_RUNSC": str(old)})


def test_without_any_the_error_says_what_to_run(paths: Paths) -> None:
    with pytest.raises(RuntimeMissing, match="dayfly setup"):
        find_runsc(paths, {"PATH": "/nowhere"})


def test_a_relative_path_entry_is_never_searched(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "here/runsc")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeMissing):
        find_runsc(paths, {"PATH": "here"})


@pytest.mark.parametrize(
    ("version", "flags", "checkpoint"),
    [
        ("0.0~20221219.0", OLD_FLAGS, ""),  # Debian 12's own package
        ("0.0~20240728.0", FLAGS, CHECKPOINT),
        ("release-20230101.0", FLAGS, CHECKPOINT),
        ("VERSION_MISSING", OLD_FLAGS, CHECKPOINT),
        ("VERSION_MISSING", FLAGS, ""),
    ],
)
def test_an_older_runsc_is_refused_with_the_remedy(tmp_path: Path, version: str, flags: str, checkpoint: str) -> None:
    path = fake(tmp_path / "runsc", version=version, flags=flags, checkpoint=checkpoint)
    with pytest.raises(RuntimeTooOld, match=r"older than 20240729 \(run: dayfly setup"):
        inspect_runsc(path)


def test_a_usable_one_is_taken_though_an_older_one_comes_first(paths: Paths, tmp_path: Path) -> None:
    fake(paths.bin / "runsc", version="0.0~20221219.0", flags=OLD_FLAGS)
    good = fake(tmp_path / "p/runsc")
    assert find_runsc(paths, {"PATH": str(good.parent)}).path == good
    good.unlink()
    with pytest.raises(RuntimeTooOld):
        find_runsc(paths, {"PATH": str(good.parent)})


def test_abilities_are_detected_and_not_taken_from_the_version(tmp_path: Path) -> None:
    plain = inspect_runsc(fake(tmp_path / "a", version="release-20990101.0"))
    assert plain.features == frozenset()
    able = inspect_runsc(
        fake(
            tmp_path / "b",
            flags=NEW_FLAGS,
            commands="\trun   x\n\tfscheckpoint   x\n\tupdate x\n",
            restore="  -background\n    \tx\n",
            checkpoint=CHECKPOINT + "  -save-restore-exec-argv string\n    \tx\n",
        )
    )
    assert able.features == {
        Feature.OVERLAY_SIZE, Feature.HOST_SETTINGS, Feature.FSCHECKPOINT, Feature.UPDATE, Feature.RESTORE_BACKGROUND,
        Feature.CHECKPOINT_EXEC,
    }  # fmt: skip
    assert able.has(Feature.UPDATE)
    assert not plain.has(Feature.UPDATE)


def test_a_build_from_the_go_module_tells_its_version_by_its_build_information(tmp_path: Path) -> None:
    path = fake(tmp_path / "runsc", version="VERSION_MISSING")
    with path.open("ab") as file:
        file.write(b"\nexit\nmod\tgvisor.dev/gvisor\tv0.0.0-20260905035102-160fafc42237\th1:x=\n")
    found = inspect_runsc(path)
    assert (found.version, found.date) == ("v0.0.0-20260905035102-160fafc42237", datetime.date(2026, 9, 5))


def test_a_build_that_hides_its_version_is_judged_by_its_abilities_and_says_so(tmp_path: Path) -> None:
    found = inspect_runsc(fake(tmp_path / "runsc", version="VERSION_MISSING"))
    assert found.date is None
    assert "does not tell its version" in explain_age(found)


def test_answers_are_remembered_until_the_file_changes(paths: Paths, tmp_path: Path) -> None:
    path = fake(tmp_path / "runsc")
    asked = Path(f"{path}.asked")
    first = inspect_runsc(path, paths)
    count = len(asked.read_text().splitlines())
    assert count == 5
    assert inspect_runsc(path, paths) == first
    assert len(asked.read_text().splitlines()) == count
    fake(path, version="release-20260901.0", flags=NEW_FLAGS)
    assert inspect_runsc(path, paths).version == "release-20260901.0"
    assert len(asked.read_text().splitlines()) == 2 * count


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": {"y": 1}}', "null"])
def test_a_damaged_memory_is_only_forgotten(paths: Paths, tmp_path: Path, content: str) -> None:
    paths.cache.mkdir(parents=True)
    (paths.cache / "runsc.json").write_text(content)
    assert inspect_runsc(fake(tmp_path / "runsc"), paths).version == "0.0~20240729.0"


def test_a_program_that_hangs_is_an_error_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "PROBE_SECONDS", 0.5)
    path = tmp_path / "runsc"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    before = time.monotonic()
    with pytest.raises(BoundaryUnusable, match="did not answer"):
        inspect_runsc(path)
    assert time.monotonic() - before < 10


def test_another_program_is_not_taken_for_a_runsc(tmp_path: Path) -> None:
    path = tmp_path / "runsc"
    shutil.copy("/bin/true", path)
    with pytest.raises(BoundaryUnusable, match="not a runsc"):
        inspect_runsc(path)
    path.write_bytes(b"\x7fELF no program")
    with pytest.raises(BoundaryUnusable, match="cannot be run"):
        inspect_runsc(path)


def test_a_program_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    path = fake(tmp_path / "bin/runsc")
    path.chmod(0o777)
    with pytest.raises(BoundaryUnusable, match="written by others"):
        inspect_runsc(path)
    path.chmod(0o755)
    path.parent.chmod(0o777)
    with pytest.raises(BoundaryUnusable, match="written by others"):
        inspect_runsc(path)
    assert not Path(f"{path}.asked").exists()


@given(st.text(max_size=60))
def test_no_version_text_breaks_the_reading_of_dates(text: str) -> None:
    found = date_of(text)
    assert found is None or found.year >= 2000


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("0.0~20240729.0", datetime.date(2024, 7, 29)),
        ("0.0~20240729.0-4~bpo12+2", datetime.date(2024, 7, 29)),
        ("release-20260901.0", datetime.date(2026, 9, 1)),
        ("v0.0.0-20260905035102-160fafc42237", datetime.date(2026, 9, 5)),
        ("VERSION_MISSING", None),
        ("20261399", None),
        ("120240729", None),
    ],
)
def test_the_day_of_a_version_is_read(version: str, day: datetime.date | None) -> None:
    assert date_of(version) == day


def test_an_old_build_says_how_old_it_is_and_how_to_get_a_newer_one() -> None:
    runsc = Runsc(Path("/x"), "v", datetime.date(2024, 7, 29), frozenset(), frozenset())
    text = explain_age(runsc, datetime.date(2026, 11, 29))
    assert "28 months old" in text
    assert "dayfly setup --from release" in text
    assert "10 days old" in explain_age(runsc, datetime.date(2024, 8, 8))
    assert "--from" not in explain_age(runsc, datetime.date(2024, 8, 8))
