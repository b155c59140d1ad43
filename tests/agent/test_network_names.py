"""The table of names, and what DNS says of it: without any socket."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.network import dns
from dayfly.agent.network.hosts import Hosts
from dayfly.agent.network.names import MAX_NAMES, MAX_WILD, WILD_PER_MINUTE, Exhausted, Names, checked
from dayfly.agent.network.zone import Zone
from dayfly.agent.session import BadRequest


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def table(*hosts: str, clock: Any = None, ports: tuple[int, ...] = (443,)) -> Names:
    names = Names(clock or Clock())
    names.replace(dict.fromkeys(hosts, ports))
    return names


# --- names ----------------------------------------------------------------------------------------------------------


def test_every_name_has_an_address_of_its_own_and_keeps_it() -> None:
    names = table("a.example", "b.example")
    assert (names.address("a.example"), names.address("b.example")) == ("127.64.0.1", "127.64.0.2")
    assert names.address("a.example") == "127.64.0.1"
    assert names.host("127.64.0.2") == "b.example"


def test_an_address_is_never_another_names_whatever_is_taken_away() -> None:
    names = table("a.example")
    names.address("a.example")
    names.replace({"b.example": (443,)})
    assert names.host("127.64.0.1") is None
    assert names.address("b.example") == "127.64.0.2"
    names.replace({"a.example": (80,)})
    assert names.address("a.example") == "127.64.0.1"
    assert names.addressed() == [("a.example", "127.64.0.1")]


def test_a_wildcard_is_one_label_more_and_not_the_name_itself() -> None:
    names = table("*.x.example")
    assert names.ports("a.x.example") == (443,)
    for host in ("x.example", "b.a.x.example", ".x.example", f"{'l' * 64}.x.example", "a\\032.x.example", "", "*"):
        assert names.ports(host) == (), host
    assert names.ports(f"{'l' * 63}.x.example")


def test_a_name_has_the_ports_of_its_own_line_and_of_the_wildcards() -> None:
    names = Names()
    names.replace({"a.x.example": (80, 443), "*.x.example": (443, 8443)})
    assert names.ports("a.x.example") == (80, 443, 8443)
    assert names.ports("b.x.example") == (443, 8443)


def test_new_names_under_wildcards_come_no_faster_than_may_be_and_known_ones_always() -> None:
    clock = Clock()
    names = table("*.x.example", "exact.example", clock=clock)
    for number in range(WILD_PER_MINUTE):
        names.address(f"n{number}.x.example")
    with pytest.raises(Exhausted, match="a minute"):
        names.address("late.x.example")
    assert names.address("n0.x.example") == "127.64.0.1"
    assert names.address("exact.example")
    clock.now += 60 / WILD_PER_MINUTE
    assert names.address("late.x.example")
    with pytest.raises(Exhausted):
        names.address("later.x.example")


def test_there_is_an_end_to_wildcards_and_to_names() -> None:
    clock = Clock()
    names = table("*.x.example", clock=clock)
    for number in range(MAX_WILD):
        clock.now += 60
        names.address(f"n{number}.x.example")
    clock.now += 60
    with pytest.raises(Exhausted, match="no more"):
        names.address("late.x.example")
    names.replace({f"e{number}.example": (1,) for number in range(MAX_NAMES)})
    found = {names.address(f"e{number}.example") for number in range(MAX_NAMES - MAX_WILD)}
    assert len(found) == MAX_NAMES - MAX_WILD
    assert "127.64.16.0" in found
    with pytest.raises(Exhausted, match="no more"):
        names.address(f"e{MAX_NAMES - 1}.example")


def test_where_every_name_exists_they_are_as_few_as_under_a_wildcard() -> None:
    names = Names(Clock())
    names.replace({"a.example": (5,)}, (80, 443))
    assert names.learning
    assert names.ports("a.example") == (5, 80, 443)
    assert names.ports("anything.at.all.example") == names.ports("db") == (80, 443)
    for host in ("", "*", ".", "a..example", "a\\032.example", f"{'l' * 64}.example", ".".join(["l" * 60] * 5), "10.1.2.3", "1.2",
                 "0x7f.0x1", "a.0x1f", "1.0.0.127.in-addr.arpa", "\u0430.example"):  # fmt: skip
        assert names.ports(host) == (), host
    assert names.address("a.example")
    for number in range(WILD_PER_MINUTE):
        names.address(f"n{number}.example")
    with pytest.raises(Exhausted, match="a minute"):
        names.address("late.example")
    names.replace({"a.example": (5,)})
    assert not names.learning
    assert names.ports("n0.example") == ()
    assert names.host("127.64.0.2") is None


def test_lines_of_the_same_host_are_one() -> None:
    found = checked([{"host": "a.example", "ports": [443, 80]}, {"host": "a.example", "ports": [80, 8080]}])
    assert found == {"a.example": (443, 80, 8080)}


@pytest.mark.parametrize(
    "value",
    [
        None,
        "a.example",
        [7],
        [{"host": "a.example"}],
        [{"host": "a.example", "ports": [443], "more": 1}],
        [{"host": 7, "ports": [443]}],
        [{"host": "A.example", "ports": [443]}],
        [{"host": "a..example", "ports": [443]}],
        [{"host": "", "ports": [443]}],
        [{"host": "*.", "ports": [443]}],
        [{"host": "*", "ports": [443]}],
        [{"host": "a.*.example", "ports": [443]}],
        [{"host": "a\0.example", "ports": [443]}],
        [{"host": "a." * 127 + "example", "ports": [443]}],
        [{"host": "a.example", "ports": []}],
        [{"host": "a.example", "ports": 443}],
        [{"host": "a.example", "ports": [0]}],
        [{"host": "a.example", "ports": [65536]}],
        [{"host": "a.example", "ports": [True]}],
        [{"host": "a.example", "ports": list(range(1, 66))}],
        [{"host": "a.example", "ports": [1]}] * (MAX_NAMES + 1),
    ],
)
def test_what_is_no_list_of_names_is_a_bad_request(value: Any) -> None:
    with pytest.raises(BadRequest):
        checked(value)


# --- dns ------------------------------------------------------------------------------------------------------------


class Reports:
    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def refused(self, name: str, *, again: bool = True) -> None:
        self.told.append((name, again))


def zone(*hosts: str, listen: bool = True) -> Zone:
    return Zone(table(*hosts), Reports(), Hosts(None), lambda host, address: listen)  # type: ignore[arg-type]


def query(name: str, kind: int = dns.A, group: int = 1, extra: bytes = b"", flags: int = 0x0100) -> bytes:
    return (
        struct.pack("!HHHHHH", 7, flags, 1, 0, 0, int(bool(extra)))
        + dns.name(name)
        + struct.pack("!HH", kind, group)
        + extra
    )


OPT = b"\0" + struct.pack("!HHIH", 41, 4096, 0, 0)


def code(response: bytes) -> int:
    return response[3] & 15


def counts(response: bytes) -> tuple[int, ...]:
    return struct.unpack("!HHHH", response[4:12])


def test_a_known_name_has_one_address() -> None:
    asked = query("a.example")
    response = dns.answer(asked, zone("a.example").look)
    assert response[:2] == asked[:2]
    assert response[2:4] == b"\x85\x80"  # an answer, authoritative, recursion as asked and offered
    assert counts(response) == (1, 1, 0, 0)
    assert response[12 : len(asked)] == asked[12:]
    assert response[len(asked) :] == b"\xc0\x0c\0\1\0\1" + struct.pack("!IH", dns.TTL, 4) + bytes([127, 64, 0, 1])


@pytest.mark.parametrize("kind", [dns.AAAA, 65, 64, 15, 16, 33, 6, 2])  # HTTPS, SVCB, MX, TXT, SRV, SOA, NS
@pytest.mark.parametrize("name", ["a.example", "new.wild.example"])
def test_of_every_other_kind_a_known_name_has_nothing(name: str, kind: int) -> None:
    response = dns.answer(query(name, kind), zone("a.example", "*.wild.example").look)
    assert (code(response), counts(response)) == (dns.NOERROR, (1, 0, 0, 0))


def test_the_case_of_the_question_is_kept_and_does_not_matter() -> None:
    response = dns.answer(query("A.eXaMple"), zone("a.example").look)
    assert code(response) == dns.NOERROR
    assert dns.name("A.eXaMple") in response


@pytest.mark.parametrize("name", ["b.example", "example", "a.example.lan", "a.b.wild.example", "wild.example"])
def test_any_other_name_does_not_exist_and_is_reported(name: str) -> None:
    reports = Reports()
    made = Zone(table("a.example", "*.wild.example"), reports, Hosts(None), lambda host, address: True)  # type: ignore[arg-type]
    for kind in (dns.A, dns.AAAA):
        response = dns.answer(query(name, kind), made.look)
        assert (code(response), counts(response)) == (dns.NXDOMAIN, (1, 0, 0, 0))
    assert reports.told == [(name, True), (name, False)]


class Told(Hosts):
    def __init__(self) -> None:
        super().__init__(None)
        self.told: list[tuple[str, str]] = []

    def add(self, host: str, address: str) -> None:
        self.told.append((host, address))


@pytest.mark.parametrize("listen", [True, False])
@pytest.mark.parametrize("learning", [True, False])
def test_only_what_is_listened_for_as_long_as_it_exists_is_for_the_hosts_file(learning: bool, listen: bool) -> None:
    names, hosts = Names(Clock()), Told()
    names.replace({"a.example": (443,)}, (443,) if learning else ())
    made = Zone(names, Reports(), hosts, lambda host, address: listen)  # type: ignore[arg-type]
    for kind in (dns.AAAA, dns.A):
        dns.answer(query("a.example", kind), made.look)
    assert hosts.told == ([("a.example", "127.64.0.1")] if listen and not learning else [])


def test_what_cannot_be_listened_on_has_no_address_now() -> None:
    assert code(dns.answer(query("a.example"), zone("a.example", listen=False).look)) == dns.SERVFAIL


def test_without_any_addresses_left_the_failure_is_temporary() -> None:
    made = zone("*.wild.example")
    found = [code(dns.answer(query(f"n{number}.wild.example"), made.look)) for number in range(WILD_PER_MINUTE + 1)]
    assert found == [dns.NOERROR] * WILD_PER_MINUTE + [dns.SERVFAIL]


def test_localhost_is_what_it_always_is() -> None:
    for name in ("localhost", "app.localhost"):
        assert dns.answer(query(name), zone().look).endswith(b"\0\4\x7f\0\0\1")
        assert dns.answer(query(name, dns.AAAA), zone().look).endswith(b"\0\x10" + bytes(15) + b"\1")


def test_an_address_tells_its_name() -> None:
    made = zone("a.example")
    dns.answer(query("a.example"), made.look)
    response = dns.answer(query("1.0.64.127.in-addr.arpa", dns.PTR), made.look)
    assert response.endswith(dns.name("a.example"))
    for name in ("2.0.64.127.in-addr.arpa", "8.8.8.8.in-addr.arpa", "x.in-addr.arpa"):
        assert code(dns.answer(query(name, dns.PTR), made.look)) == dns.NXDOMAIN


def test_a_dot_within_a_label_is_no_dot_between_labels() -> None:
    reports = Reports()
    made = Zone(table("a.example"), reports, Hosts(None), lambda host, address: True)  # type: ignore[arg-type]
    asked = query("x")[:12] + b"\x09a.example\0" + b"\0\1\0\1"
    assert code(dns.answer(asked, made.look)) == dns.NXDOMAIN
    assert reports.told == [("a\\046example", True)]


def test_edns_is_answered_in_kind() -> None:
    response = dns.answer(query("a.example", extra=OPT), zone("a.example").look)
    assert counts(response) == (1, 1, 0, 1)
    assert response.endswith(b"\0" + struct.pack("!HHIH", 41, dns.UDP_SIZE, 0, 0))
    newer = b"\0" + struct.pack("!HHIH", 41, 4096, 1 << 16, 0)
    response = dns.answer(query("a.example", extra=newer), zone("a.example").look)
    assert (code(response), counts(response)) == (0, (1, 0, 0, 1))
    assert response[-6] == 1  # the upper bits of BADVERS


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (query("a.example", group=3), dns.REFUSED),  # CHAOS
        (query("a.example", flags=0x2900), dns.NOTIMP),  # UPDATE
        (query("a.example")[:-1], dns.FORMERR),
        (query("a.example")[:15], dns.FORMERR),
        (query("a.example")[:4] + b"\0\2" + query("a.example")[6:], dns.FORMERR),
        (query("a.example")[:12] + b"\xc0\x0c\0\1\0\1", dns.FORMERR),  # a name that points to itself
        (query("a.example")[:12] + b"\x3f" + b"l" * 63 + b"\0\1", dns.FORMERR),
        (query("a.example")[:12] + b"\1a" * 128 + b"\0\0\1\0\1", dns.FORMERR),  # 257 bytes
        (query("a.example")[:12] + b"\0\0\2\0\1", dns.REFUSED),  # the root
        (query("a.example", dns.ANY), dns.NOERROR),
    ],
)
def test_what_is_asked_wrongly_is_told_so(packet: bytes, expected: int) -> None:
    assert code(dns.answer(packet, zone("a.example").look)) == expected


def test_answers_are_not_answered() -> None:
    assert dns.answer(query("a.example", flags=0x8180), zone().look) == b""
    assert dns.answer(b"short", zone().look) == b""


LONGEST = ".".join(["l" * 63] * 3 + ["m" * 61])


def test_the_longest_name_is_answered_whole() -> None:
    made = zone(LONGEST)
    response = dns.answer(query(LONGEST, extra=OPT), made.look)
    assert counts(response) == (1, 1, 0, 1)
    assert len(response) < 600


@given(st.binary(max_size=600))
def test_no_packet_does_harm(packet: bytes) -> None:
    response = dns.answer(packet, zone("a.example", "*.b.example").look)
    assert len(response) < 600
    assert not response or response[:2] == packet[:2]


@given(st.binary(max_size=300), st.sampled_from([b"", OPT, OPT[:5]]))
def test_no_question_does_harm(rest: bytes, extra: bytes) -> None:
    reports = Reports()
    made = Zone(table("a.example", "*.b.example"), reports, Hosts(None), lambda host, address: True)  # type: ignore[arg-type]
    packet = query("x")[:12] + rest + extra
    assert dns.answer(packet, made.look)[2] & 0x80
    assert all(name.isascii() and name.isprintable() for name, _ in reports.told)


@given(st.lists(st.binary(min_size=1, max_size=63), min_size=1, max_size=4))
def test_two_names_are_never_written_alike(labels: list[bytes]) -> None:
    lower = [label.lower() for label in labels]
    written = dns.text(labels)
    assert written == dns.text(lower)
    back = [bytes(_read(part)) for part in written.split(".")]
    assert back == lower


def _read(text: str) -> list[int]:
    found, at = [], 0
    while at < len(text):
        if text[at] == "\\":
            found.append(int(text[at + 1 : at + 4]))
            at += 4
        else:
            found.append(ord(text[at]))
            at += 1
    return found


def test_whoever_looks_may_fail() -> None:
    def broken(name: str, kind: int) -> tuple[int, bytes | None]:
        raise ZeroDivisionError

    assert code(dns.answer(query("a.example"), broken)) == dns.SERVFAIL
