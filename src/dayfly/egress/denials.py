"""What the manager's side denies without asking the gateway: it could not be asked, or is gone. Anything may be handed in here."""

from __future__ import annotations

from dayfly.egress.verdict import Denied, port_or_zero

__all__ = ["gone", "no_name", "no_port"]


def gone(host: object, port: object) -> Denied:
    shown = ascii(host[:253])[1:-1][:253] if isinstance(host, str) else "?"
    reason = "The gateway that connects sandboxes has ended, so nothing can be connected to."
    return Denied(shown, port_or_zero(port), "gateway_gone", reason, "Try again in a new sandbox, or later.")


def no_port(host: str) -> Denied:
    return Denied(
        ascii(host[:80]), 0, "port_not_listed", "What was asked for is no port.", "Use a port from 1 to 65535."
    )


def no_name(port: object) -> Denied:
    return Denied(
        "'...'",
        port_or_zero(port),
        "bad_name",
        "What was asked for is far too long for a host name.",
        "Use a host name.",
    )
