"""What rules say of a connection: the allowed name, on its port, in any of its spellings, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.rules import Rules
from dayfly.egress.verdict import CODES, Allowed, Denied
from dayfly.hosts import BadHost, canonical
from dayfly.network import Rule
from tests.egress import vectors
from tests.egress.test_hosts import HOSTILE

RULES = Rules((Rule(host=vectors.WILD), Rule(host=vectors.ALLOWED)))


def denied(host: str, port: int = 443, rules: Rules = RULES) -> Denied:
    found = rules.judge(host, port)
    assert isinstance(found, Denied)
    return found


@pytest.mark.parametrize("spelling", vectors.SAME, ids=ascii)
def test_every_spelling_of_the_allowed_name_is_judged_as_that_name(spelling: str) -> None:
    assert RULES.judge(spelling, 443) == Allowed(vectors.ALLOWED, 443, 1, "tls")


@pytest.mark.parametrize("spelling", vectors.OTHERS, ids=ascii)
def test_another_name_is_not_listed(spelling: str) -> None:
    found = denied(spelling)
    assert (found.code, found.host) == ("not_listed", canonical(spelling))


@pytest.mark.parametrize("spelling", vectors.ADDRESSES, ids=ascii)
def test_an_address_is_denied_as_one(spelling: str) -> None:
    assert denied(spelling).code == "literal_address"


@pytest.mark.parametrize("spelling", vectors.MALFORMED, ids=lambda one: ascii(one[:40]))
def test_what_is_malformed_is_denied(spelling: str) -> None:
    assert denied(spelling).code == "bad_name"


@pytest.mark.parametrize("port", vectors.PORTS_REFUSED)
def test_another_port_of_the_allowed_name_is_denied(port: int) -> None:
    found = denied("ALLOWED.example.", port)
    told = port if 0 < port < 65536 else 0
    assert (found.code, found.host, found.port) == ("port_not_listed", vectors.ALLOWED, told)
    assert "port 443, not" in found.reason


@pytest.mark.parametrize(
    "port", ["443", None, 443.0, True, b"443", [443], 10**5000], ids=lambda one: type(one).__name__
)
def test_what_is_no_port_is_denied(port: object) -> None:
    rules = Rules((Rule(host="a.example", ports=(1, 443)),))
    found = denied("a.example", port, rules)  # type: ignore[arg-type]
    assert (found.code, found.port) == ("port_not_listed", 0)
    assert found.reason == "The network policy allows a.example on port 1, 443, not on what is no port."


@pytest.mark.parametrize("spelling", vectors.UNDER_WILD, ids=ascii)
def test_a_star_is_one_label(spelling: str) -> None:
    assert RULES.judge(spelling, 443) == Allowed(canonical(spelling), 443, 0, "tls")


@pytest.mark.parametrize("spelling", vectors.NOT_UNDER_WILD, ids=ascii)
def test_a_star_is_neither_none_nor_two(spelling: str) -> None:
    assert denied(spelling).code == "not_listed"


@pytest.mark.parametrize("spelling", ["*.wild.example", ".wild.example", "", "*"])
def test_a_star_is_nothing_that_can_be_asked_for(spelling: str) -> None:
    assert denied(spelling).code == "bad_name"


@pytest.mark.parametrize("turn", [1, -1])
def test_the_exact_rule_counts_before_the_star_in_any_order(turn: int) -> None:
    rules = (
        Rule(host="*.example.com", ports=(443, 8443)),
        Rule(host="api.example.com", protocol="tcp", ports=(443, 25)),
    )[::turn]
    judge = Rules(rules).judge
    star, exact = (0, 1)[::turn]
    assert judge("api.example.com", 443) == Allowed("api.example.com", 443, exact, "tcp")
    assert judge("api.example.com", 8443) == Allowed("api.example.com", 8443, star, "tls")
    assert judge("www.example.com", 443) == Allowed("www.example.com", 443, star, "tls")
    found = judge("api.example.com", 80)
    assert isinstance(found, Denied)
    assert "on port 25, 443, 8443, not on 80" in found.reason


def test_rules_of_one_host_add_up() -> None:
    rules = Rules((Rule(host="a.example", protocol="http"), Rule(host="a.example")))
    assert rules.judge("a.example", 80) == Allowed("a.example", 80, 0, "http")
    assert rules.judge("a.example", 443) == Allowed("a.example", 443, 1, "tls")


def test_a_denial_tells_what_to_do() -> None:
    found = denied("evil.example")
    assert found.reason == "No rule of this sandbox's network policy names evil.example."
    assert found.remedy == "Use what is listed (*.wild.example, allowed.example), or ask for a rule for this host."
    found = denied("127.1")
    assert (
        found.reason == "'127.1' is an IP address, or ends in a number as one does, and only names may be connected to."
    )
    found = denied("evil\0\x1b[2J@allowed.example")
    assert found.reason == r"'evil\x00\x1b[2J@allowed.example' is no host name: it has a space or a control character."
    assert (
        denied("a.example", rules=Rules(())).remedy
        == "This sandbox has no network; ask for a policy that lists the host."
    )


@pytest.mark.parametrize("host", [None, 5, 10**5000, b"a.example", ["a.example"]], ids=lambda one: type(one).__name__)
def test_what_is_no_text_is_denied(host: object) -> None:
    found = denied(host)  # type: ignore[arg-type]
    assert (found.code, found.host, found.reason) == ("bad_name", "that", "that is no host name: it is not text.")


def test_a_hostile_name_is_quoted_and_cut() -> None:
    found = denied("\U0001f4a9" * 5000)
    assert len(found.host) < 90
    assert found.host.endswith("...'")


def test_a_denial_lists_a_few_destinations_only() -> None:
    rules = Rules(tuple(Rule(host=f"h{number}.example") for number in range(256)))
    assert (
        "(h0.example, h1.example, h2.example, h3.example, h4.example and 251 more)"
        in denied("x.example", rules=rules).remedy
    )


@given(HOSTILE, st.integers() | st.sampled_from([443, 80]))
def test_no_text_is_allowed_but_the_spellings_of_what_is_listed(text: str, port: int) -> None:
    found = RULES.judge(text, port)
    if isinstance(found, Allowed):
        assert port == 443
        assert found.host == canonical(text) == canonical(found.host)
        assert found.host == vectors.ALLOWED or found.host.split(".")[1:] == ["wild", "example"]
        return
    assert found.code in CODES
    for line in (found.host, found.reason, found.remedy):
        assert line.isascii()
        assert line.isprintable()
        assert len(line) <= 1000


@given(st.text(max_size=20), st.text(max_size=20))
def test_nothing_before_or_behind_the_allowed_name_is_it(before: str, behind: str) -> None:
    for text in (f"{before}{vectors.ALLOWED}{behind}", f"{before}.{vectors.ALLOWED}", f"{vectors.ALLOWED}.{behind}"):
        found = RULES.judge(text, 443)
        if isinstance(found, Allowed):  # what was added is nothing in UTS #46, or the dot of the root
            assert canonical(text) == vectors.ALLOWED


LABELS = st.text("abcxyz019-", min_size=1, max_size=8)


@given(st.lists(LABELS, min_size=1, max_size=5), st.lists(LABELS, min_size=2, max_size=4), st.booleans())
def test_a_rule_matches_labels_and_not_letters(asked: list[str], listed: list[str], star: bool) -> None:
    name, base = ".".join(asked), ".".join(listed)
    try:
        canonical(name), canonical(base)
    except BadHost:
        return
    rules = Rules((Rule(host=f"*.{base}" if star else base),))
    matches = asked[1:] == listed if star else asked == listed
    assert isinstance(rules.judge(name, 443), Allowed) is matches
    assert isinstance(rules.judge(f"x.{base}", 443), Allowed) is star
    assert isinstance(rules.judge(f"x{base}", 443), Denied)
    assert isinstance(rules.judge(f"{base}.evil", 443), Denied)
