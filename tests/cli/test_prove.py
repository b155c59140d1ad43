"""``dayfly prove``: the report as a table, as JSON and as a page; exit code 1 where something is not as it must be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dayfly.cli.absent import OF_OBJECTS
from dayfly.prove import Proof, chosen
from dayfly.prove.probe import Property
from tests.cli.leftovers import Dayfly

pytestmark = pytest.mark.gvisor


def test_a_property_is_proved_and_the_report_is_shown_whole(dayfly: Dayfly, tmp_path: Path) -> None:
    done = dayfly("prove", "--property", "credential", "--image", "python", "--html", tmp_path / "proof.html", "--all")
    assert done.returncode == 0, done.stderr + done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("dayfly proof of ")
    assert "Does a name that the operator controls get resolved?" in lines[2], "the four questions come first"
    asked = sum(probe.property is Property.CREDENTIAL for probe in chosen([Property.CREDENTIAL], quick=True))
    assert asked >= 13
    assert any(line.startswith("credential") and f"{asked} of {asked}" in line for line in lines)
    assert lines[-1].endswith("all as it must be")
    page = (tmp_path / "proof.html").read_text()
    for probe in chosen([Property.CREDENTIAL], quick=True):
        assert probe.title in done.stdout
        assert f'id="{probe.id}"' in page


def test_the_report_is_a_value_in_json(dayfly: Dayfly) -> None:
    done = dayfly("prove", "--property", "api", "--image", "python", "--json")
    proof = Proof.model_validate_json(done.stdout)
    assert done.returncode == 0, [row for row in proof.rows if not row.green]
    assert proof.green
    assert proof.image == "python"
    assert proof.answer(4)[0] == "no"
    assert {row.property for row in proof.rows} == {"api", "useful"}


def test_where_no_sandbox_can_be_made_it_is_red_and_says_why(dayfly: Dayfly) -> None:
    done = dayfly("prove", "--property", "dns", "--image", "nowhere", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert {row["verdict"] for row in found["rows"]} == {"inconclusive"}
    assert {one["name"]: one["state"] for one in found["conditions"]}["image"] == "red"
    assert all("dayfly images build" in row["why"] for row in found["rows"])


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [(("--property", "magic"), "one of: allow-list"), (("--html", "/nowhere/proof.html"), "make it"), (("--policy", "missing.toml"), ""),
     (("--template", "x"), "--config names the file"), (("--template", "x", "--image", "python"), "leave --policy and --image out"),
     (("--canary-domain", "example"), "canary.example.com"),
     *((("--canary-domain", "a.example", "--canary-listen", place), "0.0.0.0:53") for place in ("53", "localhost:53", "0.0.0.0:x", "0.0.0.0:70000", ":53")),
     (("--target", "magic"), "one of: command, subprocess, bwrap"),
     (("--target", "command"), "--command 'ssh box python3 -'"),
     (("--target", "subprocess", "--command", "x"), "leave them out"),
     (("--command", "python3 -"), "--target command"),
     (("--target", "subprocess", "--full"), "leave --full"),
     (("--target", "subprocess", "--property", "magic"), "one of: allow-list"),],
)  # fmt: skip
def test_a_mistake_is_one_line_before_anything_is_tried(
    dayfly: Dayfly, arguments: tuple[str, ...], remedy: str
) -> None:
    done = dayfly("prove", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert remedy in done.stderr


def test_what_has_changed_since_an_earlier_report_is_shown(dayfly: Dayfly, tmp_path: Path) -> None:
    arguments = ("prove", "--property", "filesystem", "--image", "python")
    earlier = Proof.model_validate_json(dayfly(*arguments, "--json").stdout)
    row = earlier.rows[0].model_copy(update={"id": "filesystem.of-before"})
    report = tmp_path / "earlier.json"
    report.write_text(earlier.model_copy(update={"rows": (*earlier.rows, row)}).model_dump_json())
    done = dayfly(*arguments, "--since", report)
    assert done.returncode == 0, done.stdout
    assert "1 changed" in done.stdout
    assert any(line.split() == ["filesystem.of-before", "denied", "none"] for line in done.stdout.splitlines())


@pytest.mark.parametrize("content", ["", "{}", "[" * 10_000, '{"rows": []}'])
def test_what_is_no_report_is_refused_before_anything_is_tried(dayfly: Dayfly, tmp_path: Path, content: str) -> None:
    (tmp_path / "no.json").write_text(content)
    done = dayfly("prove", "--since", "no.json")
    assert done.returncode == 2
    assert "is no report" in done.stderr


def test_somebody_elses_sandbox_is_proved_and_the_report_says_whose_word_it_is(dayfly: Dayfly, tmp_path: Path) -> None:
    """A bare subprocess, in a box: everything leaves it, and is seen."""
    done = dayfly("prove", "--target", "subprocess", "--property", "metadata", "--html", tmp_path / "proof.html")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("dayfly proof of subprocess Python 3")
    assert "reached, seen" in done.stdout
    assert "subprocess" in (tmp_path / "proof.html").read_text()


@pytest.mark.parametrize(
    ("blocked", "extras"),
    [
        (("botocore",), {"objects"}),
        (("cryptography", "fastapi", "uvicorn", "botocore"), {"objects", "server", "tls"}),
    ],
)
def test_of_what_is_not_installed_nothing_is_proven_and_the_report_says_so(
    environment: dict[str, str], blocked: tuple[str, ...], extras: set[str]
) -> None:
    """Whoever has not installed it cannot use it, and has no hole there."""
    arguments = ["dayfly", "prove", "--property", "api", "--property", "packages", "--image", "python", "--json"]
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); sys.argv = {arguments!r}; from dayfly.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    proof = Proof.model_validate_json(done.stdout)
    assert {one.name for one in proof.conditions if one.state == "amber" and "not proven" in one.name} == {
        f"not proven ({extra})" for extra in extras
    }
    assert {row.property for row in proof.rows} == {"useful"} | (
        {"api", "packages"} if extras == {"objects"} else set()
    )
    assert not any(row.id.startswith(OF_OBJECTS) for row in proof.rows)
    assert proof.answer(4)[0] == ("no" if extras == {"objects"} else "not shown")
