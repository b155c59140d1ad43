"""Where policies over HTTP may lead to: what the operator lists, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dayfly.errors import InputError, PolicyError
from dayfly.network import parse_network
from dayfly.server import load_configuration
from dayfly.server.reach import Reach

INJECT = {"secret": "crm"}
OBJECTS = {"bucket": "lake", "prefix": "data/", "endpoint": "https://store.example.com", "credentials": "crm"}
PACKAGES = {"packages": {"python": ["six"]}}

LISTED: dict[str, Any] = {"names": ["API.example.com.", "*.example.org", "db"], "private": ["10.0.0.0/8"]}
ANY: dict[str, Any] = {"names": ["*", "db"], "private": ["10.0.0.0/8", "fd00::/8"]}


@pytest.mark.parametrize(
    ("reach", "rule"),
    [
        (LISTED, {"host": "api.example.com"}),
        (LISTED, {"host": "api.example.com", "ports": [8443], "protocol": "tcp"}),
        (LISTED, {"host": "a.example.org"}),
        (LISTED, {"host": "*.example.org"}),
        (LISTED, {"host": "db", "private": "10.1.0.0/16"}),
        (LISTED, {"host": "a.example.org", "private": "10.0.0.0/8"}),
        (ANY, {"host": "whatever.example.net"}),
        (ANY, {"host": "*.example.net"}),
        (ANY, {"host": "db", "private": "fd00:1::/32"}),
        ({**LISTED, "secrets": ["crm"]}, {"host": "api.example.com", "inject": INJECT}),
        ({**LISTED, "secrets": ["crm", "other"]}, {"host": "*.example.org", "inject": INJECT}),
        ({**ANY, "secrets": ["crm"]}, {"objects": OBJECTS}),
        ({"names": ["store.example.com"], "secrets": ["crm"]}, {"objects": OBJECTS}),
        ({"packages": True}, PACKAGES),
    ],
)
def test_what_is_listed_may_be_named(reach: dict[str, Any], rule: dict[str, Any]) -> None:
    Reach(**reach).check(parse_network([rule]))


@pytest.mark.parametrize(
    ("reach", "rule", "why"),
    [
        ({}, {"host": "api.example.com"}, "no policy has a network here"),
        ({"private": ["10.0.0.0/8"]}, {"host": "db", "private": "10.0.0.0/8"}, "no policy has a network here"),
        (LISTED, {"host": "example.com"}, "not a name"),
        (LISTED, {"host": "*.example.com"}, "not a name"),
        (LISTED, {"host": "a.api.example.com"}, "not a name"),
        (LISTED, {"host": "example.org"}, "not a name"),
        (LISTED, {"host": "a.b.example.org"}, "not a name"),
        (LISTED, {"host": "*.b.example.org"}, "not a name"),
        (LISTED, {"host": "db", "private": "127.0.0.0/8"}, "private = '127.0.0.0/8'"),
        (LISTED, {"host": "db", "private": "fd00::/16"}, "private = 'fd00::/16'"),
        ({"names": ["db"]}, {"host": "db", "private": "10.0.0.0/8"}, "private = '10.0.0.0/8'"),
        (ANY, {"host": "mine.example.net", "private": "10.0.0.0/8"}, "with private"),
        (LISTED, {"host": "api.example.com", "inject": INJECT}, "may use the secret crm here"),
        ({**ANY, "secrets": ["other", "crm2"]}, {"host": "api.example.com", "inject": INJECT}, "the secret crm here"),
        ({"secrets": ["crm"]}, {"host": "api.example.com", "inject": INJECT}, "no policy has a network here"),
        ({**LISTED, "secrets": ["crm"]}, {"host": "evil.example.net", "inject": INJECT}, "not a name"),
        (ANY, {"objects": OBJECTS}, "may use the secret crm here"),
        ({**LISTED, "secrets": ["crm"]}, {"objects": OBJECTS}, "'store.example.com' is not a name"),
        (ANY, PACKAGES, "may have packages here"),
        ({**ANY, "secrets": ["crm"]}, PACKAGES, "may have packages here"),
        ({"packages": True}, {"host": "api.example.com"}, "no policy has a network here"),
    ],
)
def test_what_is_not_listed_is_refused_with_what_to_do(reach: dict[str, Any], rule: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why) as refused:
        Reach(**reach).check(parse_network([rule]))
    assert refused.value.message.startswith("network[0]: ")
    assert "operator" in str(refused.value.remedy)


def test_each_rule_is_looked_at_and_the_one_that_goes_too_far_is_named() -> None:
    rules = [{"host": "api.example.com"}, {"host": "a.example.org", "inject": INJECT}, PACKAGES]
    with pytest.raises(PolicyError, match=r"network\[1\]: .*secret crm"):
        Reach(**LISTED, packages=True).check(parse_network(rules))
    Reach(**LISTED, packages=True, secrets=["crm"]).check(parse_network(rules))


def test_no_network_is_for_everybody() -> None:
    Reach().check("none")
    Reach().check("learn")  # nothing is reached by it


@pytest.mark.parametrize(
    "text",
    [
        'names = ["https://api.example.com"]',
        'names = ["*.*.example.com"]',
        'names = ["127.0.0.1"]',
        'names = "*"',
        'private = ["8.8.8.0/24"]',
        'private = ["169.254.0.0/16"]',
        'private = ["10.0.0.1/8"]',
        'private = "10.0.0.0/8"',
        'addresses = ["10.0.0.0/8"]',
        'secrets = ["Crm"]',
        'secrets = ["*"]',
        'secrets = "crm"',
        'packages = "some"',
    ],
)
def test_a_wrong_table_is_one_clear_error(place: Path, text: str) -> None:
    file = place / "server.toml"
    file.write_text(f"[network]\n{text}\n")
    with pytest.raises(InputError, match="network") as refused:
        load_configuration(file)
    assert refused.value.remedy
