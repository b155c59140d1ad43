"""What the manager's side denies without asking the gateway: it could not be asked, or is gone. Anything may be handed in here."""

from __future__ import annotations

from dayfly.egress.verdict import Denied, port_or_zero

__all__ = ["gone", "left_out", "no_name", "no_port", "not_running"]


def gone(host: object, port: object) -> Denied:
    reason = "The gateway that connects sandboxes has ended, so nothing can be connected to."
    return _nobody(host, port, reason, "Try again in a new sandbox, or later.")


def not_running(host: object, port: object) -> Denied:
    reason = "The gateway that connects sandboxes is not running, so nothing can be connected to."
    return _nobody(host, port, reason, "Try again in a few seconds.")


def left_out(host: object, port: object) -> Denied:
    reason = "The gateway that connects sandboxes has not taken this sandbox's rules."
    return _nobody(host, port, reason, "Use a new sandbox.")


def _nobody(host: object, port: object, reason: str, remedy: str) -> Denied:
    shown = ascii(host[:253])[1:-1][:253] if isinstance(host, str) else "?"
    return Denied(shown, port_or_zero(port), "gateway_gone", reason, remedy)


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
