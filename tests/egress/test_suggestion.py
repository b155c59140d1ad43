"""What is suggested from what was denied: valid rules that would have allowed it, and no hostile character."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayfly.egress.heard import canonical
from dayfly.egress.rules import Rules
from dayfly.egress.verdict import CODES, Allowed
from dayfly.network import LEARN_PORTS, Asked, Rule, beginning, suggestion
from dayfly.network.listing import MOST_RULES
from dayfly.policy import Policy
from tests.egress.vectors import ADDRESSES, MALFORMED


def network(lines: list[str]) -> Any:
    """As somebody pastes it."""
    return Policy.model_validate(tomllib.loads("\n".join(lines))).network


def comments(lines: list[str]) -> str:
    return "\n".join(line for line in lines if line.startswith("#"))


def test_it_is_exact_hosts_with_ports_and_protocols() -> None:
    lines = suggestion(
        [
            Asked("api.example.com", 443, "not_listed", "tls"),
            Asked("api.example.com", 8443, "not_listed", "tls", 3),
            Asked("api.example.com", 80, "not_listed", "http"),
            Asked("db.example.com", 6000, "port_not_listed", "postgres"),
            Asked("queue.example.com", 5672, "not_listed", "other"),
            Asked("API.example.com.", None, "not_listed"),
        ]
    )
    assert network(lines) == (
        Rule(host="api.example.com", ports=(443, 8443), protocol="tls"),
        Rule(host="db.example.com", ports=(6000,), protocol="postgres"),
        Rule(host="api.example.com", ports=(80,), protocol="http"),
        Rule(host="queue.example.com", ports=(5672,), protocol="tcp"),
    )
    assert comments(lines) == ""


def test_what_nobody_has_seen_is_guessed_by_the_port_and_says_so() -> None:
    lines = suggestion([Asked("a.example.com", port, "not_listed") for port in (443, 80, 5432, 22)])
    assert {(rule.ports, rule.protocol) for rule in network(lines)} == {
        ((443,), "tls"),
        ((80,), "http"),
        ((5432,), "postgres"),
        ((22,), "tcp"),
    }
    assert "\n".join(lines).count("nobody has seen it") == 4


def test_one_port_that_speaks_in_two_ways_is_one_rule() -> None:
    asked = [Asked("a.example.com", 8080, "not_listed", began) for began in ("other", "http", None, "tls")]
    assert network(suggestion(asked)) == (Rule(host="a.example.com", ports=(8080,), protocol="tls"),)


def test_a_name_without_a_port_and_nothing_at_all_are_comments() -> None:
    lines = suggestion([Asked("a.example.com", None, "not_listed")])
    assert network(lines) == "none"
    assert '"a.example.com" was asked for by name' in comments(lines)
    assert network(suggestion([])) == "none"


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "metadata.google.internal", "metadata", "instance-data", "localhost", "a.localhost", "db", "db.internal",
     "printer.local", "[::1]", "127.0.0.1", "0x7f.1", "1572395042", "metadata.azure.com", *ADDRESSES[:20]],
)  # fmt: skip
def test_metadata_addresses_and_what_is_near_are_never_suggested(host: str) -> None:
    assert network(suggestion([Asked(host, 80, "not_listed", "http")])) == "none"


@pytest.mark.parametrize(
    "host", [*MALFORMED, 'a"\n[[network]]\nhost = "evil.example.net', "a\x1b]0;x\x07.example", "\u202eexample.com"]
)
def test_hostile_names_are_not_shown(host: str) -> None:
    lines = suggestion([Asked(host, 443, code) for code in sorted(CODES)])
    text = "\n".join(lines)
    assert text.replace("\n", "").isprintable()
    assert text.isascii()
    if host.isascii() and '"' in host:
        assert "evil.example.net" not in text


@pytest.mark.parametrize("code", sorted(CODES - {"not_listed", "port_not_listed", "literal_address", "bad_name"}))
def test_what_no_rule_would_change_is_a_thought_and_no_rule(code: str) -> None:
    lines = suggestion([Asked("a.example.com", 443, code, None, 4)])
    assert network(lines) == "none"
    assert '"a.example.com" on port 443: ' in comments(lines)
    assert "(4 times)" in comments(lines)


def test_what_was_asked_of_the_gateway_itself_is_told_by_its_reason() -> None:
    lines = suggestion(
        [
            Asked("packages.dayfly.internal", 80, "package_not_listed"),
            Asked("objects.dayfly.internal", 80, "object_not_listed"),
        ]
    )
    assert network(lines) == "none"
    assert "a package that no rule lists" in comments(lines)
    assert "another operation, bucket or key" in comments(lines)
    assert "not suggested" not in comments(lines)


def test_public_suffixes_are_refused_as_in_a_policy_and_shared_hosts_get_their_caution() -> None:
    lines = suggestion([Asked("co.uk", 443, "not_listed"), Asked("gist.github.com", 443, "not_listed", "tls")])
    assert [rule.host for rule in network(lines)] == ["gist.github.com"]
    assert "public suffix" in comments(lines)
    assert "a place for pastes" in comments(lines)
    registry = suggestion([Asked("registry.example.com", 443, "not_listed")], {"registry.example.com"})
    assert "a registry of packages" in comments(registry)


def test_a_star_is_only_ever_a_comment() -> None:
    lines = suggestion([Asked(f"n{n}.files.example.com", 443, "not_listed", "tls") for n in range(7)])
    assert len(network(lines)) == 7
    assert '"*.files.example.com", ports = [443], protocol = "tls"' in comments(lines)
    assert "*." not in "\n".join(line for line in lines if not line.startswith("#"))
    for parent in ("com", "github.io", "co.uk"):
        assert "*." not in "\n".join(suggestion([Asked(f"n{n}.{parent}", 443, "not_listed") for n in range(7)]))


def test_it_is_bounded() -> None:
    many = [Asked(f"n{n}.x{n}.example.com", 443, "not_listed", "tls") for n in range(3000)]
    many += [Asked(f"m{n}.example.com", None, "not_listed") for n in range(3000)]
    lines = suggestion(many)
    assert len(network(lines)) == MOST_RULES
    assert len(lines) <= MOST_RULES * 6 + 60
    assert (
        len(
            network(suggestion([Asked("a.example.com", port, "not_listed", "other") for port in range(1, 500)]))[
                0
            ].ports
        )
        == 64
    )


def test_ports_beyond_what_a_rule_can_have_are_told() -> None:
    lines = suggestion([Asked("a.example.com", port, "not_listed", "other") for port in range(1, 101)])
    assert [len(rule.ports) for rule in network(lines)] == [64]
    assert "'a.example.com': 36 ports more than a rule can have" in comments(lines)


HOSTS = st.one_of(
    st.sampled_from(["api.example.com", "b.example.com", "*.example.com", "co.uk", "Ａpi.example.com", "a.metadata.google.internal"]),
    st.text(max_size=30),
    st.from_regex(r"[a-z0-9-]{1,8}(\.[a-z0-9-]{1,8}){0,3}", fullmatch=True),
)  # fmt: skip
ASKED = st.builds(
    Asked,
    HOSTS,
    st.none() | st.integers(-1, 70000),
    st.sampled_from(sorted(CODES)),
    st.none() | st.sampled_from(["tls", "http", "postgres", "other", "\x1b"]),
    st.integers(1, 9),
)


@settings(deadline=None)
@given(st.lists(ASKED, max_size=20))
def test_whatever_was_denied_it_is_a_policy_that_allows_what_it_lists(denied: list[Asked]) -> None:
    lines = suggestion(denied)
    assert "".join(lines).isprintable()
    rules = network(lines)
    judge = Rules(() if rules == "none" else rules)
    asked = {(canonical(one.host), one.port) for one in denied}
    for rule in () if rules == "none" else rules:
        assert not rule.host.startswith("*.")
        assert all(isinstance(judge.judge(rule.host, port), Allowed) for port in rule.ports)
        assert {(rule.host, port) for port in rule.ports} <= asked


@given(st.binary(max_size=40))
def test_a_beginning_is_told_of_any_bytes(data: bytes) -> None:
    assert beginning(data) in {"tls", "http", "postgres", "other", None}
    assert beginning(data + bytes(16)) is not None


def test_ports_that_are_listened_on_are_no_more_than_an_agent_takes() -> None:
    assert 0 < len(LEARN_PORTS) <= 64
    assert len(set(LEARN_PORTS)) == len(LEARN_PORTS)
    assert not {53, 3128, 1080} & set(LEARN_PORTS), "those are the resolver's and the proxies'"
