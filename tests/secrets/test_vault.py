"""Which values rules get: those of hosts that the secret is for, of the most specific owner; what is missing is told, and never shown."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dayfly.errors import PolicyError
from dayfly.network import RuleList, parse_network
from dayfly.owner import NOBODY, Owner
from dayfly.secrets import Entry, Environment, Files, Resolved, Ring, Vault
from tests.secrets.canary import CANARY, seen_in, told

ANNA = Owner("anna", "monday")


class House:
    """A vault over files of a test's own."""

    def __init__(self, directory: Path) -> None:
        self.files = Files(directory / "secrets")
        self.variables: dict[str, str] = {}
        self.vault = Vault(self.files, Environment(self.variables), Ring())

    def store(self, value: str, name: str = "crm", hosts: tuple[str, ...] = ("api.example.com",), **owner: str) -> None:
        self.files.write(
            Entry(name=name, hosts=hosts, tenant=owner.get("tenant"), conversation=owner.get("conversation")),
            SecretStr(value),
        )

    def values(self, owner: Owner = ANNA, host: str = "api.example.com") -> dict[str, str]:
        return self.vault.resolve(rules(host), owner).values


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def rules(*hosts: str, **inject: Any) -> RuleList:
    found = parse_network([{"host": host, "inject": {"secret": "crm", **inject}} for host in hosts])
    assert found != "none"
    return found


def refused(resolved: Resolved) -> str:
    with pytest.raises(PolicyError) as error:
        resolved.whole()
    assert not seen_in(told(error.value))
    assert error.value.remedy
    return error.value.message


def test_a_rule_gets_the_secret_that_it_names(house: House) -> None:
    house.store(CANARY)
    resolved = house.vault.resolve(rules("api.example.com"), NOBODY)
    assert (resolved.whole(), resolved.missing) == ({"crm": CANARY}, ())


def test_without_rules_nothing_is_looked_at(house: House) -> None:
    house.store(CANARY)
    assert house.vault.resolve("none", ANNA) == Resolved()
    plain = parse_network([{"host": "api.example.com"}])
    assert house.vault.resolve(plain, ANNA).whole() == {}


def test_a_rule_for_a_host_that_it_is_not_for_gets_nothing(house: House) -> None:
    house.store(CANARY, hosts=("api.example.com", "*.example.org"))
    for host in ("evil.example.net", "a.b.example.org", "example.org", "*.example.com", "api.example.com.evil.example"):
        resolved = house.vault.resolve(rules(host), NOBODY)
        assert resolved.values == {}
        assert refused(resolved) == f"network[0]: the secret crm is not for {host}"


def test_one_rule_that_may_not_have_it_takes_it_from_all(house: House) -> None:
    house.store(CANARY)
    resolved = house.vault.resolve(rules("api.example.com", "evil.example.net"), NOBODY)
    assert resolved.values == {}
    assert [one.rule for one in resolved.missing] == [1]


def test_what_is_not_there_is_told_with_what_to_do(house: House) -> None:
    resolved = house.vault.resolve(rules("api.example.com"), NOBODY)
    assert refused(resolved) == "network[0]: there is no secret crm here for this sandbox"
    assert "dayfly secrets set crm --host api.example.com" in resolved.missing[0].remedy


def test_the_most_specific_one_wins(house: House) -> None:
    house.store("everybody's")
    assert house.values() == {"crm": "everybody's"}
    house.store("anna's", tenant="anna")
    assert house.values() == {"crm": "anna's"}
    house.store("monday's", tenant="anna", conversation="monday")
    assert house.values() == {"crm": "monday's"}
    assert house.values(Owner("anna", "tuesday")) == {"crm": "anna's"}
    assert house.values(Owner("anna")) == {"crm": "anna's"}
    assert house.values(Owner("bert", "monday")) == {"crm": "everybody's"}
    assert house.values(NOBODY) == {"crm": "everybody's"}


def test_another_tenants_is_never_used_nor_told_of(house: House) -> None:
    house.store(CANARY, tenant="anna")
    house.store(CANARY, tenant="anna", conversation="monday")
    for other in (Owner("bert", "monday"), Owner("Anna", "monday"), Owner("", "monday"), NOBODY):
        resolved = house.vault.resolve(rules("api.example.com"), other)
        assert resolved.values == {}
        assert refused(resolved) == "network[0]: there is no secret crm here for this sandbox"


def test_a_specific_one_for_another_host_is_not_passed_over(house: House) -> None:
    """Else whoever set it aside for one place would have the general one go out in its place."""
    house.store("everybody's")
    house.store(CANARY, hosts=("other.example.com",), tenant="anna")
    assert house.values() == {}


def test_one_that_cannot_be_used_is_not_passed_over(house: House) -> None:
    house.store("everybody's")
    house.store(CANARY, tenant="anna")
    for file in house.files.directory.glob("crm@*"):
        file.chmod(0o644)
    resolved = house.vault.resolve(rules("api.example.com"), ANNA)
    assert resolved.values == {}
    assert refused(resolved) == "network[0]: the secret crm is kept in a file that others can use"
    assert str(house.files.directory) not in str(resolved.missing)  # a tenant reads that, too
    assert house.values(NOBODY) == {"crm": "everybody's"}


def test_a_value_that_does_not_fit_the_rule_is_told_without_it(house: House) -> None:
    house.store(CANARY.replace(":", ""))
    resolved = house.vault.resolve(rules("api.example.com", into="basic"), NOBODY)
    assert refused(resolved) == "network[0]: the value of the secret crm is not USER:PASSWORD, which 'basic' needs"


def test_the_environment_has_secrets_too(house: House) -> None:
    house.variables |= {"DAYFLY_SECRET_CRM": CANARY, "DAYFLY_SECRET_CRM__HOSTS": "api.example.com, *.example.org"}
    assert house.values() == {"crm": CANARY}
    assert house.values(host="a.example.org") == {"crm": CANARY}
    house.store("the file's")
    assert house.values() == {"crm": CANARY}
    house.store("anna's", tenant="anna")
    assert house.values() == {"crm": "anna's"}
    assert house.values(Owner("bert")) == {"crm": CANARY}


def test_one_of_the_environment_without_hosts_goes_nowhere(house: House) -> None:
    house.variables["DAYFLY_SECRET_CRM"] = CANARY
    assert house.values() == {}


def test_one_of_the_environment_may_be_a_tenants(house: House) -> None:
    house.variables |= {
        "DAYFLY_SECRET_CRM": CANARY,
        "DAYFLY_SECRET_CRM__HOSTS": "api.example.com",
        "DAYFLY_SECRET_CRM__TENANT": "anna",
    }
    assert house.values() == {"crm": CANARY}
    assert house.values(Owner("bert")) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"DAYFLY_SECRET_CRM": CANARY + "\r\nX: 1"},
        {"DAYFLY_SECRET_CRM": ""},
        {"DAYFLY_SECRET_CRM__HOSTS": "https://api.example.com"},
        {"DAYFLY_SECRET_CRM__CONVERSATION": "monday"},
    ],
    ids=str,
)
def test_a_wrong_variable_is_told_and_nothing_else_is_taken(house: House, wrong: dict[str, str]) -> None:
    house.store("the file's")
    house.variables |= {"DAYFLY_SECRET_CRM": CANARY, "DAYFLY_SECRET_CRM__HOSTS": "api.example.com", **wrong}
    resolved = house.vault.resolve(rules("api.example.com"), NOBODY)
    assert resolved.values == {}
    assert "environment" in refused(resolved)


def test_names_in_the_environment_have_one_mark_for_three() -> None:
    environment = Environment({"DAYFLY_SECRET_A_B_C": "x", "DAYFLY_SECRET_A_B_C__HOSTS": "a.example", "OTHER": "y"})
    assert all(environment.find(name) for name in ("a-b.c", "a_b_c", "a.b.c"))
    assert environment.find("a--hosts") is None
    assert [one.name for one in environment.all()[0]] == ["a_b_c"]


def test_a_variable_that_describes_is_no_secret() -> None:
    environment = Environment({"DAYFLY_SECRET_A__HOSTS": "a.example"})
    assert environment.find("a--hosts") is None
    assert environment.all() == ([], [])


def test_objects_need_credentials_of_their_form(house: House) -> None:
    objects = {"bucket": "my-data", "prefix": "reports/", "endpoint": "https://api.example.com", "credentials": "crm"}
    listed = parse_network([{"objects": objects}])
    house.store(CANARY)
    assert house.vault.resolve(listed, NOBODY).values == {}
    house.store("KEY:secret/with+marks=")
    assert house.vault.resolve(listed, NOBODY).values == {"crm": "KEY:secret/with+marks="}
    elsewhere = parse_network([{"objects": {**objects, "endpoint": "https://evil.example.net"}}])
    assert house.vault.resolve(elsewhere, NOBODY).values == {}


def test_a_value_is_in_no_text_of_anything(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    house.store(CANARY)
    house.variables |= {"DAYFLY_SECRET_ENV": CANARY, "DAYFLY_SECRET_ENV__HOSTS": "api.example.com"}
    resolved = house.vault.resolve(rules("api.example.com"), NOBODY)
    assert resolved.values == {"crm": CANARY}  # the control: it is there
    things = [house.vault, house.files, resolved, house.vault.all(), Environment(house.variables)]
    for thing in [*things, vars(house.vault), house.vault._answer("crm", NOBODY)]:
        assert not seen_in(f"{thing!r} {thing!s}")
    assert not seen_in(caplog.text)


def test_all_lists_what_there_is_of_every_source_and_what_cannot_be_used(house: House) -> None:
    house.store(CANARY)
    house.store(CANARY, name="b", tenant="anna")
    house.store(CANARY, name="wrong")
    (house.files.directory / "wrong").write_text(CANARY)
    house.variables |= {"DAYFLY_SECRET_ENV": CANARY, "DAYFLY_SECRET_BAD": CANARY, "DAYFLY_SECRET_BAD__HOSTS": "a/b"}
    entries, problems = house.vault.all()
    assert [(one.name, one.source) for one in entries] == [("env", "environment"), ("b", "file"), ("crm", "file")]
    assert len(problems) == 2
    assert not seen_in(str(problems))
