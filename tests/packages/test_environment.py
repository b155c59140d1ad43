"""What programs inside are told of the network."""

from __future__ import annotations

from collections.abc import Mapping

from dayfly.network import Rule, environment_for, parse_network

PACKAGES = parse_network([{"packages": {"python": ["a"]}}])
HOSTS = parse_network([{"host": "api.example.com"}])


def test_without_a_network_the_reason_is_in_a_name_that_leads_nowhere() -> None:
    found = environment_for("none")
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry"):
        assert found[name].startswith("https://this-sandbox-has-no-network.invalid/")


def test_packages_are_taken_from_the_gateway() -> None:
    found = environment_for(PACKAGES)
    assert found["PIP_INDEX_URL"] == found["UV_DEFAULT_INDEX"] == "http://packages.dayfly.internal/python/simple/"
    assert found["npm_config_registry"] == "http://packages.dayfly.internal/node/"


def test_rules_for_hosts_leave_the_index_as_it_is() -> None:
    assert environment_for(HOSTS) == {}


def test_of_two_rules_the_first_counts() -> None:
    class Other(Rule):
        @property
        def environment(self) -> Mapping[str, str]:
            return {"PIP_RETRIES": "9", "OTHER": "1"}

    other = Other(host="a.example.com")
    assert environment_for((*PACKAGES, other)) == {**environment_for(PACKAGES), "OTHER": "1"}
    assert environment_for((other, *PACKAGES))["PIP_RETRIES"] == "9"
