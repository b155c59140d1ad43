"""One spelling for a host: the one that is judged, written down, resolved and dialled.

What a policy says and what hostile code asks for go through the same mapping: UTS #46 (not transitional, STD3), then IDNA
2008 label by label. What has no such form is refused, never repaired.
"""

from __future__ import annotations

import re

__all__ = ["LONGEST_LABEL", "LONGEST_NAME", "BadHost", "IsAddress", "canonical"]

LONGEST_NAME = 253
"""Characters of a name without the trailing dot, as in DNS (RFC 1035)."""

LONGEST_LABEL = 63
"""Characters between two dots."""

_LONGEST_INPUT = 2 * LONGEST_NAME  # what is longer before the mapping is nobody's name, and costs time to look at

_SPACE_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_IPV6 = re.compile(r"\[|[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%|\Z)")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_NUMBER = re.compile(
    r"[0-9]+|0x[0-9a-f]*"
)  # a last label that makes a host an IPv4 address (WHATWG URL, "ends in a number")


class BadHost(ValueError):
    """No host name. ``str()`` says what is wrong, as a phrase whose subject is the host: ``"has an empty label"``."""


class IsAddress(BadHost):
    """An IP address in one of its spellings, or what some parser would read as one."""


def canonical(host: str) -> str:
    """The name in lower case, as A-labels, without a trailing dot. Raises ``BadHost``, and for an address ``IsAddress``.

    A single label is a name as any other, and so are names that end in ``.local`` or ``localhost``.
    """
    if not isinstance(host, str):
        raise BadHost("is not text")
    if len(host) > _LONGEST_INPUT:
        raise BadHost(f"is longer than {LONGEST_NAME} characters")
    _refuse_marks(host)
    name = (host.lower() if host.isascii() else _mapped(host)).removesuffix(".")
    if not name:
        raise BadHost("is empty")
    name = ".".join([_label(one) for one in name.split(".")])
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise IsAddress("is an IP address, or ends in a number as one does")
    if len(name) > LONGEST_NAME:
        raise BadHost(f"is longer than {LONGEST_NAME} characters")
    return name


def _refuse_marks(host: str) -> None:
    """What comes with names where people write them, said as what it is."""
    if _SPACE_OR_CONTROL.search(host):
        raise BadHost("has a space or a control character")
    if "@" in host:
        raise BadHost("has a user before the name")
    if any(mark in host for mark in "/\\?#"):
        raise BadHost("is a URL or a part of one")
    if _IPV6.match(host):
        raise IsAddress("is an IPv6 address")
    if ":" in host:
        raise BadHost("has a port behind the name")
    if "%" in host:
        raise BadHost("has a percent sign, an escape or a zone")


def _mapped(host: str) -> str:
    import idna  # tables of some 10 ms to load, which most names do not need

    try:
        return idna.uts46_remap(host, std3_rules=True)  # transitional: by default not
    except ValueError:  # idna's own errors are such
        raise BadHost("has a character that no host name has") from None


def _label(label: str) -> str:
    if not label:
        raise BadHost("has an empty label")
    if len(label) > LONGEST_LABEL:  # an A-label is longer than what it stands for
        raise BadHost(f"has a label longer than {LONGEST_LABEL} characters")
    if not label.isascii() or label.startswith("xn--"):
        return _a_label(label)
    if not _LABEL.fullmatch(label):
        raise BadHost("has a character that no host name has, or a hyphen where none may be")
    return label


def _a_label(label: str) -> str:
    import idna

    try:
        coded = idna.alabel(idna.ulabel(label)).decode("ascii")
    except ValueError:  # also of one that is too long as an A-label
        raise BadHost("has a label that IDNA 2008 does not allow") from None
    if label.isascii() and coded != label:  # another punycode of the same text: two names that look alike
        raise BadHost("has a label that IDNA 2008 does not allow")
    return coded
