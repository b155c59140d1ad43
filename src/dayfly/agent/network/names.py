"""The names that exist inside, and the address of each.

An address is given to a name when it is first asked for, and to no other name in the sandbox's life: whoever kept one too
long reaches the name that it was, or nobody.
"""

from __future__ import annotations

import time

from dayfly.agent.session import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_NAMES = 4096
"""Names with an address, in all; also how many may be listed."""

MAX_PORTS = 64
"""Ports of one name."""

MAX_WILD = 1024
WILD_PER_MINUTE = 60
"""New names that wildcards may stand for, in all and a minute. A label that the code invents carries up to 40 bytes to
whoever serves the domain's DNS: this makes it 40 KB in a sandbox's life, and no faster than a typist. A program that
reads every bucket or shard of a service under one wildcard still has enough."""

MAX_LENGTH = 253
"""Characters of a name (RFC 1035, 2.3.4)."""

MAX_LABEL = 63
"""Characters between two of its dots."""

_PREFIX = "127.64"  # of 127.64.0.0/10; MAX_NAMES need a fraction of it
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class Exhausted(Exception):
    """The name exists and cannot have an address now. The text says why."""


class Names:
    """``clock`` tells seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._exact: dict[str, tuple[int, ...]] = {}
        self._wild: dict[str, tuple[int, ...]] = {}  # by what follows the "*."
        self._every: tuple[int, ...] = ()
        self._addresses: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._allowance = _Allowance(clock)

    @property
    def learning(self) -> bool:
        """Whether every name there could be exists."""
        return bool(self._every)

    def __repr__(self) -> str:
        return f"<Names exact={len(self._exact)} wild={len(self._wild)} addresses={len(self._addresses)}>"

    def replace(self, listed: Mapping[str, tuple[int, ...]], every: tuple[int, ...] = ()) -> None:
        """From now on there are these names, "*.a.b" for all with one label more, with their ports; see ``checked``. And
        every other one with the ports ``every``, as if a wildcard stood for it."""
        self._exact = {host: ports for host, ports in listed.items() if not host.startswith("*.")}
        self._wild = {host[2:]: ports for host, ports in listed.items() if host.startswith("*.")}
        self._every = every

    def ports(self, host: str) -> tuple[int, ...]:
        """Of a name in lower case; none: there is no such name."""
        exact, wild = self._exact.get(host, ()), self._wild.get(_parent(host), ())
        every = self._every if self._every and _is_name(host) else ()
        return tuple(dict.fromkeys((*exact, *wild, *every)))

    def address(self, host: str) -> str:
        """Of a name that has ports. Raises ``Exhausted``."""
        known = self._addresses.get(host)
        return known if known is not None else self._give(host)

    def host(self, address: str) -> str | None:
        """Whose address that is, if the name still exists."""
        host = self._hosts.get(address)
        return host if host is not None and self.ports(host) else None

    def addressed(self) -> list[tuple[str, str]]:
        """All that exist and have an address: (host, address)."""
        return [(host, address) for host, address in self._addresses.items() if self.ports(host)]

    def _give(self, host: str) -> str:
        number = len(self._addresses) + 1
        if number > MAX_NAMES:
            raise Exhausted(f"{MAX_NAMES} names have been used in this sandbox, and there are no more")
        if host not in self._exact:
            self._allowance.spend()
        address = f"{_PREFIX}.{number >> 8}.{number & 255}"
        self._addresses[host] = address
        self._hosts[address] = host
        return address


class _Allowance:
    """Of new names under wildcards: a minute's worth at once, and then as many a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = MAX_WILD
        self._now = float(WILD_PER_MINUTE)
        self._since = clock()

    def spend(self) -> None:
        """Raises ``Exhausted``."""
        now = self._clock()
        self._now = min(float(WILD_PER_MINUTE), self._now + (now - self._since) * WILD_PER_MINUTE / 60)
        self._since = now
        if not self._left:
            raise Exhausted(f"{MAX_WILD} names under wildcards have been used in this sandbox, and there are no more")
        if self._now < 1:
            raise Exhausted(f"no more than {WILD_PER_MINUTE} new names a minute under wildcards")
        self._now -= 1
        self._left -= 1


def _parent(host: str) -> str:
    """What a wildcard that stands for ``host`` names, or ""."""
    label, dot, parent = host.partition(".")
    return parent if dot and _is_label(label) else ""


def _is_label(text: str) -> bool:
    return 0 < len(text) <= MAX_LABEL and _LABEL.issuperset(text)


def _is_name(host: str) -> bool:
    """Whether somebody could mean a host by it; numbers at the end are an address in some spelling."""
    labels = host.split(".")
    last = labels[-1]
    return (
        len(host) <= MAX_LENGTH
        and all(map(_is_label, labels))
        and not (last.isdigit() or last.startswith("0x") or last == "arpa")
    )


def checked(value: object) -> dict[str, tuple[int, ...]]:
    """The ports of each host that the host lists: [{"host": str, "ports": [int]}]. Raises ``BadRequest``."""
    if not isinstance(value, list) or len(value) > MAX_NAMES:
        raise BadRequest(f"names is not a list of at most {MAX_NAMES}")
    found: dict[str, tuple[int, ...]] = {}
    for one in value:
        if not isinstance(one, dict) or set(one) != {"host", "ports"}:
            raise BadRequest("a name is an object of host and ports")
        host, ports = _checked_host(one["host"]), checked_ports(one["ports"])
        found[host] = tuple(dict.fromkeys((*found.get(host, ()), *ports)))
    return found


def _checked_host(host: object) -> str:
    if not isinstance(host, str) or len(host) > MAX_LENGTH:
        raise BadRequest(f"a host is text of at most {MAX_LENGTH} characters")
    labels = host.split(".")[1:] if host.startswith("*.") else host.split(".")
    if not all(map(_is_label, labels)):
        raise BadRequest(f"not a host in canonical form: {ascii(host)[:80]}")
    return host


def checked_ports(ports: object) -> list[int]:
    """Raises ``BadRequest``."""
    if not isinstance(ports, list) or not 1 <= len(ports) <= MAX_PORTS:
        raise BadRequest(f"ports is not a list of 1 to {MAX_PORTS}")
    if not all(type(port) is int and 1 <= port <= 65535 for port in ports):
        raise BadRequest("a port is a number from 1 to 65535")
    return ports
