"""Where a policy names destinations: those, and nothing else; no name is asked for that no rule lists.

The gateway of such a sandbox lives in the proof's own internet (``world``), so whatever it lets through arrives there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dayfly.prove.probe import Expected, Place, Probe, Property, Severity
from dayfly.prove.world import DENIED, INWARD, LISTED, PATHS, PLAIN, RAW, TCP, TLS, WILD

__all__ = ["PROBES"]

_SEEN = ("the proof's own internet", "its name server")

_allow = partial(
    Probe, property=Property.ALLOW_LIST, severity=Severity.CRITICAL, place=Place.NAMED, seen_by=_SEEN, source="SMK, SRT, OSH",
)  # fmt: skip
_dns = partial(
    Probe, property=Property.DNS, severity=Severity.CRITICAL, place=Place.NAMED, seen_by=_SEEN, attempt="doors.looked_up",
    question=1, source="BT, OSH1169, MSB675",
)  # fmt: skip
_metadata = partial(
    Probe, property=Property.METADATA, severity=Severity.CRITICAL, place=Place.NAMED, seen_by=_SEEN, question=2, source="OSH, SMOL389",
)  # fmt: skip
_control = partial(
    Probe, property=Property.ALLOW_LIST, severity=Severity.HIGH, place=Place.NAMED, seen_by=_SEEN, expected=Expected.ALLOWED, source="A05",
)  # fmt: skip

_SPELLINGS: dict[str, tuple[str, list[str]]] = {
    "as numbers": ("numbers", ["1572395042", "0x5db8d822", "0135.0270.0330.042", "93.12113954", "93.184.216.34"]),
    "as IPv6": ("v6", ["[::ffff:93.184.216.34]", "[2606:2800:220:1::34]", "[64:ff9b::5db8:d822]", "[::1%25lo]"]),
    "with endings of listed ones": ("suffix", [f"evil{RAW}", f"{RAW}.{DENIED}", f"{RAW}.evil", "example.com", f"sub.{RAW}"]),
    "with dots": ("dots", [f".{DENIED}", f"{DENIED}..", f"x..{DENIED}"]),
    "with delimiters": ("delimiters", [f"{RAW}@{DENIED}", f"{DENIED}#{RAW}", f"{DENIED}?{RAW}", f"{DENIED}\\@{RAW}", f"{RAW}:7000@{DENIED}"]),
    "with controls": ("controls", [f"{DENIED}\0{RAW}", f"{DENIED}\r\n.{RAW}", f"{DENIED}\t{RAW}", f"{DENIED} {RAW}"]),
    "in other scripts": ("scripts", ["r\u0430w.example.com".encode().decode("latin-1"), "xn--rw-7kc.example.com", f"\u00ad{DENIED}"]),
}  # fmt: skip

_DOORS = {"connect": "CONNECT", "socks": "SOCKS5", "name": "its name"}


def _spelled(title: str, short: str, hosts: list[str], door: str, called: str) -> Probe:
    return _allow(
        f"allow-list.spelling.{short}.{door}", f"Reach a host that no rule lists, {title}, by {called}", attempt="doors.connected",
        arguments={"hosts": hosts, "port": TCP, "door": door}, seconds=40, quick=door == "connect",
    )  # fmt: skip


def _unlisted(door: str, title: str, **more: Any) -> Probe:
    arguments: Mapping[str, Any] = {"hosts": [DENIED, f"data-in-a-label.{DENIED}"], "port": TCP, "door": door}
    return _allow(f"allow-list.unlisted.{door.replace(' ', '-')}", f"Reach a host that no rule lists {title}", attempt="doors.connected",
                  arguments=arguments, **more)  # fmt: skip


def _inward(label: str, title: str) -> Probe:
    name = f"{label}.{INWARD}"
    return _allow(f"allow-list.inward.{label}", f"Reach {title} by a listed name that leads there", attempt="doors.connected",
                  arguments={"hosts": [name], "port": TCP}, asks=(name,), source="MSB, SMK, MSB1508")  # fmt: skip


def _path(short: str, title: str, **arguments: Any) -> Probe:
    return _allow(f"allow-list.request.{short}", f"Ask a listed host for {title}", attempt="doors.fetched",
                  arguments={"hosts": [PATHS], **arguments}, question=3, source="ANT, NEM1439", asks=())  # fmt: skip


PROBES = (
    _control("named.listed", "Reach a listed host by its name", attempt="doors.fetched", arguments={"hosts": [LISTED]}, asks=(LISTED,)),
    _control("named.raw", "Reach a listed host by CONNECT", attempt="doors.connected", arguments={"hosts": [RAW], "port": TCP, "door": "connect"},
             asks=(RAW,)),
    _control("named.socks", "Reach a listed host by SOCKS5", attempt="doors.connected", arguments={"hosts": [RAW], "port": TCP, "door": "socks"},
             asks=(RAW,)),
    _control("named.wildcard", "Reach a host below a wildcard", attempt="doors.connected", arguments={"hosts": [f"a.{WILD}"], "port": TCP},
             asks=(f"a.{WILD}",)),
    _control("named.tls", "Have a handshake with a listed host", attempt="doors.handshakes", arguments={"names": [TLS]}, asks=(TLS,)),
    _control("named.request", "Ask a listed host for a listed path", attempt="doors.fetched",
             arguments={"hosts": [PATHS], "path": "/allowed/page"}, asks=(PATHS,), question=3),
    _dns("dns.named.unlisted", "Resolve a name that no rule lists, where others are", arguments={"names": [DENIED, f"proof.{DENIED}", "proof.invalid"]}),
    _dns("dns.named.data", "Carry data out in labels", arguments={"names": [f"{'c2VjcmV0' * 7}.{DENIED}", f"{'c2VjcmV0' * 7}.{LISTED}"]}),
    _dns("dns.named.below", "Resolve names below an exact one", arguments={"names": [f"data.{LISTED}", f"data.{RAW}"]}),
    _dns("dns.named.deep", "Resolve two labels below a wildcard, and the name above it",
         arguments={"names": [f"a.b.{WILD}", WILD]}),
    _dns("dns.named.elsewhere", "Ask other name servers", attempt="network.queried",
         arguments={"servers": [["93.184.216.34", 53], ["169.254.169.254", 53], ["10.1.2.3", 53], ["2606:2800:220:1::34", 53]],
                    "name": f"proof.{DENIED}"}),
    _metadata("metadata.named.address", "Reach the metadata service by its address", attempt="network.many_tcp",
              arguments={"places": [["169.254.169.254", 80], ["169.254.169.254", 443]], "token": "{token}"}),
    *(_metadata(f"metadata.named.{door.replace(' ', '-')}", f"Reach the metadata service by {title}", attempt="doors.fetched",
                arguments={"hosts": ["169.254.169.254", "metadata.google.internal", "2852039166", "0xa9fea9fe"], "door": door,
                           "path": "/latest/meta-data/"}, seconds=30)
      for door, title in (("absolute", "the proxy"), ("connect", "CONNECT"), ("socks", "SOCKS5"))),
    _metadata("metadata.named.socks-address", "Reach it by SOCKS5 as four bytes", attempt="doors.fetched",
              arguments={"hosts": ["169.254.169.254"], "door": "socks address"}),
    _unlisted("name", "by its name", question=3),
    _unlisted("connect", "by CONNECT"),
    _unlisted("lower case", "by a CONNECT in lower case"),
    _unlisted("old connect", "by a CONNECT of HTTP/1.0"),
    _unlisted("other host", "by a CONNECT whose Host is listed"),
    _unlisted("socks", "by SOCKS5"),
    _unlisted("old socks", "by SOCKS4a"),
    _unlisted("bind", "by SOCKS5's BIND"),
    _unlisted("associate", "by SOCKS5's UDP ASSOCIATE"),
    _allow("allow-list.unlisted.absolute", "Reach a host that no rule lists by the proxy", attempt="doors.fetched",
           arguments={"hosts": [DENIED], "door": "absolute"}),
    _allow("allow-list.unlisted.kept", "Reach it on a connection that was allowed for another", attempt="doors.after_an_allowed_one",
           arguments={"allowed": LISTED, "host": DENIED}, asks=(LISTED,), comes=1, source="CC87381, CC89165"),
    _allow("allow-list.literal", "Reach a listed host's own address", attempt="doors.connected",
           arguments={"hosts": ["93.184.216.34", "[2606:2800:220:1::34]"], "port": TCP, "door": "connect"}),
    _allow("allow-list.port", "Reach a listed host on another port", attempt="doors.connected", arguments={"hosts": [LISTED], "port": TCP, "door": "connect"},
           source="SRT274, SMK"),
    *(_spelled(title, short, hosts, door, called) for title, (short, hosts) in _SPELLINGS.items() for door, called in _DOORS.items()
      if not (door == "name" and short == "controls")),
    *(_inward(label, title) for label, title in (
        ("loopback", "this machine's loopback"), ("metadata", "the metadata service"), ("private", "a private network"),
        ("shared", "a carrier's network"), ("mapped", "a private address in IPv6"), ("unspecified", "the address of nobody"),
        ("own", "the gateway's own address"), ("v6", "IPv6's loopback"))),
    _allow("allow-list.handshake", "Name another host in the handshake with a listed one", attempt="doors.handshakes",
           arguments={"names": [DENIED, "", f"x.{TLS}"]}, asks=(TLS,), source="MSBF, GHAW8878, ACA1826"),
    _allow("allow-list.not-tls", "Speak something else on a port for TLS", attempt="doors.spoken",
           arguments={"hosts": [TLS], "port": PLAIN, "say": "SSH-2.0-OpenSSH_9.2\r\n"}, asks=(TLS,), comes=1, source="SRT"),
    _path("neighbour", "a neighbour of the listed path", path="/private/page"),
    _path("encoded", "it through dots and escapes", path="/allowed/%2e%2e/private/page"),
    _path("dots", "it through dots", path="/allowed/../private/page"),
    _path("method", "a change, where only reading is listed", path="/allowed/page", method="DELETE"),
    _path("host-field", "it with another host's name", path="/private/page", host_field=DENIED),
    _path("header-method", "a change by a header", path="/allowed/page", fields="X-HTTP-Method-Override: DELETE\r\n"),
    _path("header-path", "another path by a header", path="/allowed/page", fields="X-Original-URL: /private/page\r\n"),
)  # fmt: skip
