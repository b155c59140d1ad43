"""What the gateway decides about one connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODES", "Allowed", "Denied", "port_or_zero"]

CODES = frozenset(
    {
        "not_listed",  # no rule names the host
        "port_not_listed",  # rules name the host, with other ports
        "bad_name",  # no host name at all
        "literal_address",  # an address in the place of a name
        "too_many_names",  # a rule with a star allows it, and too many others were asked for before
        "private_address",  # the name leads to where nothing public is
        "sni_mismatch",  # the TLS handshake names another host
        "not_tls",  # it does not begin as TLS
        "bad_request",  # no request that only one thing can be made of
        "host_mismatch",  # a request on a connection to one host that names another
        "not_trusted",  # the client does not take the certificate that looking inside of TLS needs
        "request_not_listed",  # the rule allows other methods or paths
        "object_not_listed",  # another operation, bucket or key
        "package_not_listed",  # another package, or a file of one that may not be had
        "no_secret",  # the rule's secret is not there, or not for this host
        "cannot_redact",  # the rule's secret is to be taken out of answers, and this one cannot be read
        "byte_cap",  # the rule's ``max_bytes`` are used up
        "gateway_gone",
    }
)
"""Of ``Denied``."""


def port_or_zero(port: object) -> int:
    """What is no port is 0."""
    return port if type(port) is int and 0 < port < 65536 else 0


@dataclass(frozen=True)
class Allowed:
    """``host`` in canonical form: this is what is resolved, dialled and written down. ``rule``: its index in the policy."""

    host: str
    port: int
    rule: int
    protocol: str

    def ended(self, code: str, what: str, remedy: str) -> Denied:
        """Of a connection that was allowed, and began or went on as it may not. ``what`` is a clause."""
        reason = f"The connection to {self.host}, port {self.port}, was ended: {what}."
        return Denied(self.host, self.port, code, reason, remedy)


@dataclass(frozen=True)
class Denied:
    """``host`` in canonical form, or quoted and cut where it has none. ``reason`` and ``remedy`` are a sentence each for the
    agent whose code it was; hostile bytes are in none of them as they came."""

    host: str
    port: int
    code: str
    reason: str
    remedy: str
