"""What the manager makes of the gateway's packets: bounded, printable, and about nothing but what was asked."""

from __future__ import annotations

import ipaddress
from typing import Any

from dayfly.egress.packets import BadPacket
from dayfly.egress.tunnel import Requested
from dayfly.egress.verdict import CODES, Denied
from dayfly.hosts import BadHost
from dayfly.hosts import canonical as spelled

__all__ = ["address", "canonical", "check_connected", "denied", "printable", "requested"]


def printable(text: str) -> str:
    """ASCII without control characters, whoever wrote it."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)


def canonical(host: str) -> str | None:
    try:
        return spelled(host)
    except BadHost:
        return None


def check_connected(packet: dict[str, Any], host: str | None, rules: int) -> None:
    """``host``: what was asked for; ``rules``: how many the sandbox has had. Raises ``BadPacket``."""
    address(packet["address"])
    if packet["host"] != host:
        raise BadPacket("a connection to another host")
    if packet["rule"] >= rules:
        raise BadPacket("a rule that was never admitted")


def address(text: str) -> str:
    """Or nothing, where nothing was dialled. One with a zone is none that is dialled: a zone may be any text. Raises ``BadPacket``."""
    try:
        if "%" in text:
            raise ValueError
        return text and str(ipaddress.ip_address(text))
    except ValueError:
        raise BadPacket("no address") from None


def denied(host: str, port: int, packet: dict[str, Any]) -> Denied:
    """Raises ``BadPacket``."""
    code, reason, remedy = packet["code"], packet["reason"], packet["remedy"]
    if code not in CODES or reason is None or remedy is None:
        raise BadPacket("no denial")
    return Denied(printable(host), port, code, printable(reason), printable(remedy))


def requested(packet: dict[str, Any], host: str, port: int, rules: int) -> Requested:
    """Raises ``BadPacket``."""
    if packet["rule"] is not None and packet["rule"] >= rules:
        raise BadPacket("a rule that was never admitted")
    why = None if packet["code"] is None else denied(host, port, packet)
    secret = None if packet["secret"] is None else printable(packet["secret"])
    where, method, path = address(packet["address"]), printable(packet["method"]), printable(packet["path"])
    return Requested(host, port, packet["rule"], where, method, path, packet["status"], secret, why)
