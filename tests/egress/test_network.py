"""A policy's network: what may be written, in which words it is refused, and what a reader is warned of."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import PolicyError
from dayfly.limits import AS_KEPT, GIB, KIB, MIB
from dayfly.network import MOST_PORTS, MOST_RULES, Rule, lint, parse_network
from dayfly.policy import Policy, parse_policy
from dayfly.shared_hosts import everybody_may_register, shared_by_many
from tests.egress import vectors

WRITTEN = """
[[network]]
host = "API.Example.com."

[[network]]
host = "*.bücher.example"
ports = [443, 8443]
max_bytes = "10MiB"
rate = "1MB"

[[network]]
host = "mirror.example"
protocol = "http"

[[network]]
host = "db.corp.example"
protocol = "postgres"
private = "10.1.0.0/16"

[[network]]
host = "queue"
protocol = "tcp"
ports = [5672]
private = "fd00:1::/64"
"""
READ = (
    Rule(host="api.example.com", ports=(443,), protocol="tls"),
    Rule(host="*.xn--bcher-kva.example", ports=(443, 8443), max_bytes=10 * MIB, rate=10**6),
    Rule(host="mirror.example", ports=(80,), protocol="http"),
    Rule(host="db.corp.example", ports=(5432,), protocol="postgres", private=ip_network("10.1.0.0/16")),
    Rule(host="queue", ports=(5672,), protocol="tcp", private=ip_network("fd00:1::/64")),
)


def test_a_policy_reads_rules_from_toml() -> None:
    assert parse_policy(tomllib.loads(WRITTEN)).network == READ


def test_a_policy_comes_back_from_json_as_it_was() -> None:
    policy = parse_policy(tomllib.loads(WRITTEN))
    for dumped in (
        policy.model_dump(mode="json"),
        policy.model_dump(mode="json", exclude_unset=True),
        policy.model_dump(),
    ):
        assert Policy.model_validate(dumped) == policy
    assert Policy.model_validate_json(policy.model_dump_json()) == policy
    assert json.loads(json.dumps(policy.model_dump(mode="json")))["network"][3]["private"] == "10.1.0.0/16"
    assert hash(policy) == hash(Policy.model_validate(policy.model_dump()))


@pytest.mark.parametrize("nothing", ["none", [], ()])
def test_no_rules_are_no_network(nothing: object) -> None:
    policy = parse_policy({"network": nothing})
    assert policy.network == Policy().network == parse_network(nothing) == "none"
    assert policy.model_dump(mode="json")["network"] == "none"


@pytest.mark.parametrize(
    ("given_", "ports", "protocol"),
    [
        ({}, (443,), "tls"),
        ({"ports": [80]}, (80,), "http"),
        ({"ports": [8080]}, (8080,), "tls"),
        ({"ports": [8443, 443]}, (8443, 443), "tls"),
        ({"ports": [80], "protocol": "tls"}, (80,), "tls"),
        ({"ports": [80, 8080], "protocol": "http"}, (80, 8080), "http"),
        ({"protocol": "http"}, (80,), "http"),
        ({"protocol": "postgres"}, (5432,), "postgres"),
        ({"protocol": "tcp", "ports": [22]}, (22,), "tcp"),
        ({"protocol": None, "ports": None, "private": None, "max_bytes": None, "rate": None}, (443,), "tls"),
    ],
)
def test_what_is_not_said_follows_from_what_is(given_: dict[str, Any], ports: tuple[int, ...], protocol: str) -> None:
    rule = Rule(host="a.example", **given_)
    assert (rule.ports, rule.protocol) == (ports, protocol)


REFUSED: list[tuple[Mapping[str, Any], str, str]] = [
    ({}, "network[0].host is missing", "give network[0].host"),
    ({"host": 5}, "network[0].host must be a valid string", "keys are host"),
    ({"hosst": "a.example"}, "there is no key 'network[0].hosst'", "did you mean host?"),
    ({"host": "*"}, "network[0].host: '*' has a star where none may be", "exactly one label"),
    ({"host": "**.example.com"}, "has a star where none may be", "'*.example.com'"),
    ({"host": "*.*.example.com"}, "has a star where none may be", "exactly one label"),
    ({"host": "a.*.example.com"}, "has a star where none may be", "exactly one label"),
    ({"host": "*a.example.com"}, "has a star where none may be", "exactly one label"),
    ({"host": "*."}, "network[0].host: '*.' is empty", "write the name alone"),
    ({"host": "*.com"}, "network[0]: '*.com' stands for everything below a top-level name", "name the hosts"),
    ({"host": "*.co.uk"}, "network: rule 0: anybody may have a name below 'co.uk'", "name the hosts"),
    ({"host": "*.github.io"}, "anybody may have a name below 'github.io'", "one by one"),
    ({"host": "*.compute.amazonaws.com"}, "anybody may have a name below 'compute.amazonaws.com'", "one by one"),
    ({"host": "*.公司.cn"}, "anybody may have a name below 'xn--55qx5d.cn'", "one by one"),
    ({"host": "com"}, "network[0]: 'com' is a single label", "'api.example.com'"),
    ({"host": "co.uk"}, "network: rule 0: 'co.uk' is a public suffix, not a host", "'api.example.co.uk'"),
    ({"host": "anything.ck"}, "'anything.ck' is a public suffix, not a host", "write the whole name"),
    ({"host": "localhost"}, "network[0]: 'localhost' is a single label", "private = 'CIDR'"),
    ({"host": "https://api.example.com/v1"}, "is a URL or a part of one", "write the name alone"),
    ({"host": "api.example.com:8443"}, "has a port behind the name", "and ports = [...]"),
    ({"host": "93.184.216.34"}, "is an IP address", "rules are for names"),
    ({"host": "[::1]"}, "is an IPv6 address", "rules are for names"),
    ({"host": "*.1.2.3"}, "is an IP address", "rules are for names"),
    ({"host": "*." + vectors.LONGEST}, "leaves no room for another label", "name the hosts"),
    ({"host": "a.example", "ports": []}, "network[0].ports: not a list of 1 to 64 ports: []", "write ports = [443]"),
    ({"host": "a.example", "ports": 443}, "not a list of 1 to 64 ports: 443", "write ports = [443]"),
    ({"host": "a.example", "ports": "443"}, "not a list of 1 to 64 ports: '443'", "write ports = [443]"),
    ({"host": "a.example", "ports": ["443"]}, "not a port: '443'", "whole numbers"),
    ({"host": "a.example", "ports": [True]}, "not a port: True", "whole numbers"),
    ({"host": "a.example", "ports": [0]}, "not a port: 0", "from 1 to 65535"),
    ({"host": "a.example", "ports": [65536]}, "not a port: 65536", "from 1 to 65535"),
    ({"host": "a.example", "ports": [443, 443]}, "port 443 is listed twice", "list it once"),
    ({"host": "a.example", "ports": [*range(1, MOST_PORTS + 2)], "protocol": "tls"}, "not a list of 1 to 64", "ports"),
    (
        {"host": "a.example", "ports": [80, 443]},
        "network[0]: port 80 speaks http and the others tls",
        "a rule for each",
    ),
    ({"host": "a.example", "protocol": "tcp"}, "network[0]: tcp has no port of its own", "give ports"),
    ({"host": "a.example", "protocol": "ssh"}, "network[0].protocol must be 'tls', 'http', 'tcp' or 'postgres'", "tls"),
    ({"host": "a.example", "inject": "crm"}, "network[0].inject has keys of its own", "keys are secret"),
    ({"packages": ["six"]}, "network[0].packages has keys of its own", "keys are python"),
    (
        {"host": "a.example", "packages": {"python": ["six"]}},
        "network[0]: one rule cannot have both host and packages",
        "a rule for each",
    ),
    ({"host": "a.example", "private": "10.0.0.1/8"}, "network[0].private: not a network: '10.0.0.1/8'", "write it as"),
    ({"host": "a.example", "private": "intranet"}, "not a network: 'intranet'", "write it as"),
    ({"host": "a.example", "private": 167772160}, "not a network: 167772160", "write it as"),
    ({"host": "a.example", "private": "0.0.0.0/0"}, "0.0.0.0/0 is not inside a private range", "10.0.0.0/8"),
    ({"host": "a.example", "private": "8.8.8.0/24"}, "8.8.8.0/24 is not inside a private range", "need no private"),
    ({"host": "a.example", "private": "169.254.169.254/32"}, "is not inside a private range", "10.0.0.0/8"),
    ({"host": "a.example", "private": "::/0"}, "::/0 is not inside a private range", "fc00::/7"),
    ({"host": "a.example", "max_bytes": "lots"}, "network[0].max_bytes: not a size: 'lots'", "'512MiB'"),
    (
        {"host": "a.example", "max_bytes": 0},
        "network[0].max_bytes must be at least 1 KiB, not 0 B",
        "1 KiB to 1024 GiB",
    ),
    ({"host": "a.example", "rate": "2TB"}, "network[0].rate: not a size: '2TB'", "GiB"),
    ({"host": "a.example", "rate": 2000 * GIB}, "network[0].rate must be at most 1024 GiB, not 2000 GiB", "1 KiB to"),
]


@pytest.mark.parametrize(("rule", "sentence", "remedy"), REFUSED, ids=lambda one: ascii(one)[:60])
def test_a_mistake_is_told_with_its_place_and_its_remedy(rule: Mapping[str, Any], sentence: str, remedy: str) -> None:
    for parse in (lambda: parse_policy({"network": [rule]}), lambda: parse_network([rule])):
        with pytest.raises(PolicyError) as caught:
            parse()
        assert sentence in caught.value.message
        assert remedy in (caught.value.remedy or "")
        assert "pydantic" not in str(caught.value)


NO_NAMES = [*vectors.ADDRESSES, *(one for one in vectors.MALFORMED if not one.startswith("*."))]


@pytest.mark.parametrize("spelling", NO_NAMES, ids=lambda one: ascii(one[:40]))
def test_what_is_no_name_is_no_rule_and_is_not_printed_as_it_came(spelling: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_network([{"host": spelling, "private": "10.0.0.0/8"}])
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("spelling", vectors.SAME, ids=ascii)
def test_a_rule_is_kept_in_the_canonical_form(spelling: str) -> None:
    assert Rule(host=spelling).host == vectors.ALLOWED
    assert Rule(host="*." + spelling).host == "*." + vectors.ALLOWED


def test_two_rules_for_one_host_and_port_are_refused_in_any_spelling() -> None:
    with pytest.raises(PolicyError, match=r"rules 0 and 2 are both for api\.example\.com on port 443 \(keep one"):
        parse_network(
            [{"host": "api.example.com"}, {"host": "b.example"}, {"host": "API.example.com.", "ports": [8443, 443]}]
        )
    assert len(parse_network([{"host": "a.example"}, {"host": "a.example", "ports": [80]}])) == 2


def test_there_are_at_most_so_many_rules() -> None:
    rules = [{"host": f"h{number}.example"} for number in range(MOST_RULES)]
    assert len(parse_network(rules)) == MOST_RULES
    with pytest.raises(PolicyError, match="257 rules are too many"):
        parse_network([*rules, {"host": "one.more.example"}])


def test_mistakes_of_many_rules_are_told_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy({"network": [{"host": "a..b"}, {"host": "a.example", "ports": [0]}], "netwrok": 1})
    for word in ("network[0].host", "network[1].ports", "'netwrok'"):
        assert word in caught.value.message


def test_rules_that_are_rules_already_are_checked_together() -> None:
    rule = Rule(host="a.example")
    assert Policy(network=(rule,)).network == (rule,)
    with pytest.raises(PolicyError, match="both for"):
        Policy(network=(rule, rule))


def test_a_rule_cannot_be_changed() -> None:
    with pytest.raises(PolicyError, match="frozen"):
        Rule(host="a.example").host = "b.example"  # type: ignore[misc]


def test_a_kept_policy_is_read_though_the_list_of_public_suffixes_has_grown() -> None:
    kept = {"network": [{"host": "*.co.uk"}]}
    assert Policy.model_validate(kept, context=AS_KEPT).network[0].host == "*.co.uk"  # type: ignore[union-attr]


def test_a_policy_without_rules_loads_neither_list_nor_tables() -> None:
    program = (
        "import sys; from dayfly.policy import Policy; Policy(network='none');"
        "assert not {'publicsuffixlist', 'idna'} & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(["a.example", "tls", [443]]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*Rule.model_fields, "x"]), inner, max_size=5)
        ),
        max_leaves=12,
    )
)
def test_nothing_but_rules_or_a_policy_error_comes_of_any_value(value: object) -> None:
    for one in (value, [value], [{"host": "a.example", "ports": value}], [{"host": "a.example", "private": value}]):
        with suppress(PolicyError):
            rules = parse_network(one)
            assert rules == "none" or all(rule.ports for rule in rules)


def test_a_number_of_too_many_digits_is_refused_too() -> None:
    value = 10**5000
    for key in ("ports", "private", "max_bytes", "rate", "host", "protocol"):
        for one in (value, [value]):
            with pytest.raises(PolicyError):
                parse_network([{"host": "a.example", key: one}])


# --- advice -----------------------------------------------------------------------------------------------------------


def cautions(*rules: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(one.rule, one.reason) for one in lint(parse_network(list(rules)))]


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("s3.eu-central-1.amazonaws.com", "a cloud whose services take anybody's account"),
        ("s3.amazonaws.com", "an object store"),
        ("bucket.s3.amazonaws.com", "an object store"),
        ("storage.googleapis.com", "an object store"),
        ("account.blob.core.windows.net", "an object store"),
        ("gist.github.com", "a place for pastes and small files"),
        ("pastebin.com", "a place for pastes and small files"),
        ("raw.githubusercontent.com", "a host of everybody's repositories"),
        ("d111111abcdef8.cloudfront.net", "a content delivery network"),
        ("*.fastly.net", "a content delivery network"),
        ("me.workers.dev", "a place where anybody runs programs"),
        ("x.ngrok-free.app", "a tunnel to anybody's machine"),
        ("webhook.site", "a place that collects requests for anybody"),
        ("hooks.slack.com", "a service for messages"),
        ("docs.google.com", "a service for documents and files"),
        ("api.openai.com", "a service where every account has files of its own"),
        ("dns.google", "a resolver that forwards names to anybody's server"),
        ("user.dyndns.org", "a place where anybody may have a name"),  # of the list of public suffixes
    ],
)
def test_a_host_that_many_share_is_warned_of_with_the_reason(host: str, kind: str) -> None:
    ((index, reason),) = cautions({"host": host})
    assert index == 0
    assert f"is {kind}: whoever can put something there can receive from here." in reason


@pytest.mark.parametrize("host", ["registry.example.com", "*.example.com"])
def test_a_registry_that_this_machine_is_set_to_is_warned_of(host: str) -> None:
    rules = parse_network([{"host": host}])
    (caution,) = lint(rules, registries={"other.example.org", "registry.example.com"})
    assert caution.reason.startswith("registry.example.com is a registry of packages that this machine is set to")
    assert lint(rules, registries={"example.com", "a.registry.example.com", "xregistry.example.org"}) == ()
    assert lint(parse_network([{"host": host, "private": "10.0.0.0/8"}]), registries={"registry.example.com"}) == ()


def test_a_name_below_a_shared_one_is_warned_of_what_tls_does_not_show() -> None:
    assert "same servers answer to other customers' names" in cautions({"host": "bucket.s3.amazonaws.com"})[0][1]
    assert "same servers" not in cautions({"host": "s3.amazonaws.com"})[0][1]


@pytest.mark.parametrize(
    "host", ["api.example.com", "*.example.com", "files.example.com", "notgithub.com", "www.gov.uk"]
)
def test_of_others_nobody_is_warned(host: str) -> None:
    assert cautions({"host": host}) == []


def test_what_lies_in_a_private_network_is_shared_with_nobody() -> None:
    assert cautions({"host": "github.com", "private": "10.0.0.0/8"}) == []


def test_an_overlap_is_told_where_the_exact_rule_counts() -> None:
    found = lint(
        parse_network(
            [{"host": "*.example.com"}, {"host": "api.example.com"}, {"host": "b.example.com", "ports": [8443]}]
        )
    )
    assert [(one.rule, one.host) for one in found] == [(1, "api.example.com")]
    assert "Rule 0 (*.example.com) names api.example.com too" in found[0].reason


def test_port_443_without_tls_is_warned_of() -> None:
    ((_, reason),) = cautions({"host": "a.example", "protocol": "tcp", "ports": [443]})
    assert "with protocol tcp the name in its handshake is not checked" in reason


def test_a_name_that_is_the_sandboxs_own_inside_is_warned_of() -> None:
    for host in ("localhost", "app.localhost"):
        ((_, reason),) = cautions({"host": host, "private": "127.0.0.0/8"})
        assert reason.startswith("Inside, that name is the sandbox itself")


def test_no_network_is_nothing_to_warn_of() -> None:
    assert lint("none") == ()


def test_every_sentence_of_advice_is_one() -> None:
    for one in lint(
        parse_network([{"host": "github.com"}, {"host": "a.s3.amazonaws.com", "protocol": "tcp", "ports": [443]}])
    ):
        for sentence in (one.reason, one.remedy):
            assert sentence[0].isupper() or sentence.startswith(one.host) or "." in sentence.split()[0]
            assert sentence.endswith(".")


def test_the_table_of_shared_hosts_has_each_name_once_and_in_canonical_form() -> None:
    from dayfly import shared_hosts
    from dayfly.hosts import canonical

    names = [name for names in shared_hosts._SERVICES.values() for name in names]
    assert len(names) == len(set(names))
    assert [canonical(name) for name in names] == names
    assert not [name for name in names if everybody_may_register(name) == "registry"]


@pytest.mark.parametrize(
    ("name", "whose"),
    [("com", "registry"), ("co.uk", "registry"), ("anything.ck", "registry"), ("www.ck", None), ("github.io", "company"),
     ("example.com", None), ("internal", None), ("xn--55qx5d.cn", "registry")],
)  # fmt: skip
def test_a_public_suffix_is_a_registrys_or_a_companys(name: str, whose: str | None) -> None:
    assert everybody_may_register(name) == whose


def test_an_unknown_top_level_name_is_shared_with_nobody_known() -> None:
    assert shared_by_many("db.internal") is None
    assert cautions({"host": "*.db.internal", "private": "10.0.0.0/8", "rate": KIB}) == []
