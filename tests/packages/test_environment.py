"""What programs inside are told of the network."""

from __future__ import annotations

from dayfly.network import environment_for, environment_of_change, parse_network

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
    assert not {"PIP_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry"} & set(environment_for(HOSTS))


def test_after_a_change_nothing_of_before_counts() -> None:
    for before in ("none", PACKAGES, HOSTS):
        for after in ("none", PACKAGES, HOSTS):
            then, now = environment_for(before), environment_for(after)
            left = {**then, **environment_of_change(before, after)}
            assert {name: value for name, value in left.items() if name in now} == now
            assert all(left[name] in ("", "2", "3") for name in set(left) - set(now))
