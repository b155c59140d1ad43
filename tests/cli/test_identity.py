"""``dayfly identity``, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.leftovers import Dayfly

RULE = """
[[network]]
objects = {{bucket = "lake", prefix = "{prefix}", endpoint = "https://s3.eu-west-1.amazonaws.com", credentials = "{name}"}}
"""


def test_the_policy_of_aws_is_printed(dayfly: Dayfly, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(RULE.format(prefix="data/", name="reader"))
    done = dayfly("identity", "aws-policy", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["Resource"] for one in json.loads(done.stdout)["Statement"]] == [
        "arn:aws:s3:::lake/data/*",
        "arn:aws:s3:::lake",
    ]


def test_each_identity_has_its_own(dayfly: Dayfly, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(RULE.format(prefix="data/", name="reader") + RULE.format(prefix="more/", name="other"))
    done = dayfly("identity", "aws-policy", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "choose one with --credentials: other, reader" in done.stderr
    done = dayfly("identity", "aws-policy", str(file), "--credentials", "other")
    assert "more/*" in done.stdout
    assert "data/*" not in done.stdout


def test_inputs_are_read_and_outputs_are_put_and_nothing_else(dayfly: Dayfly, tmp_path: Path) -> None:
    place = 'bucket = "lake"\nendpoint = "https://s3.eu-west-1.amazonaws.com"\ncredentials = "reader"\n'
    file = tmp_path / "policy.toml"
    file.write_text(f'[[inputs]]\n{place}prefix = "in/"\n[[outputs]]\n{place}prefix = "out/"\n')
    done = dayfly("identity", "aws-policy", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert [(one["Action"], one["Resource"]) for one in json.loads(done.stdout)["Statement"]] == [
        (["s3:GetObject"], "arn:aws:s3:::lake/in/*"),
        (["s3:ListBucket"], "arn:aws:s3:::lake"),
        (["s3:PutObject"], "arn:aws:s3:::lake/out/*"),
    ]


@pytest.mark.parametrize("policy", ['image = "python"', 'network = "learn"', '[[network]]\nhost = "api.example.com"'])
def test_without_such_a_rule_there_is_none(dayfly: Dayfly, tmp_path: Path, policy: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(policy)
    done = dayfly("identity", "aws-policy", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no rule for objects" in done.stderr
