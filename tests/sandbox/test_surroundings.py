"""What is told inside of the rules."""

from __future__ import annotations

from collections.abc import Mapping

from dayfly.network import Rule, environment_for
from dayfly.sandbox.surroundings import Surroundings

HOSTS = (Rule(host="a.example.com"),)


class Telling(Rule):
    """One that has something to tell."""

    told: dict[str, str]

    @property
    def environment(self) -> Mapping[str, str]:
        return self.told


def test_rules_tell_names_and_variables() -> None:
    first = Telling(host="a.example.com", told={"AWS_REGION": "here", "A": "1"})
    second = Telling(host="b.example.com", ports=[80], told={"B": "2"})
    found = Surroundings.of((first, second, Rule(host="c.example.com")), "PEM")
    assert found.params == {
        "names": [
            {"host": "a.example.com", "ports": [443]},
            {"host": "b.example.com", "ports": [80]},
            {"host": "c.example.com", "ports": [443]},
        ],
        "authority": "PEM",
        "env": {**environment_for(HOSTS), "AWS_REGION": "here", "A": "1", "B": "2"},
    }


def test_no_rules_take_everything_away_and_say_so() -> None:
    assert Surroundings.of((), None).params == {"names": [], "authority": None, "env": environment_for("none")}
