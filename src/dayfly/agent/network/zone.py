"""What the resolver knows: the names of the table, ``localhost``, and whose an address is."""

from __future__ import annotations

from _socket import inet_aton

from dayfly.agent.network import dns
from dayfly.agent.network.names import Exhausted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.network.hosts import Hosts
    from dayfly.agent.network.names import Names
    from dayfly.agent.network.reports import Reports

LOCALHOST = {dns.A: inet_aton("127.0.0.1"), dns.AAAA: bytes(15) + b"\1"}
"""/etc/hosts has it too; this is for resolvers that do not read that (RFC 6761, 6.3)."""

_REVERSE = ".in-addr.arpa"


class Zone:
    """``listen`` is called with a name and its address before anybody is told of it: what cannot be listened on is not
    answered with an address, behind which the code's own server might be. It returns whether there is somebody now.
    ``hosts`` is told of names that were answered with an address."""

    def __init__(self, names: Names, reports: Reports, hosts: Hosts, listen: Callable[[str, str], bool]) -> None:
        self._names = names
        self._reports = reports
        self._hosts = hosts
        self._listen = listen

    def look(self, name: str, kind: int) -> tuple[int, bytes | None]:
        """For ``dns.answer``."""
        if name == "localhost" or name.endswith(".localhost"):
            return dns.NOERROR, LOCALHOST.get(kind)
        if name.endswith(_REVERSE):
            return self._whose(name, kind)
        if not self._names.ports(name):
            self._reports.refused(name, again=kind == dns.A)
            return dns.NXDOMAIN, None
        if kind not in (dns.A, dns.ANY):
            return dns.NOERROR, None
        if self._names.learning:  # told of all the same: what is connected to next may be a port that nobody listens on
            self._reports.refused(name)
        return self._address(name)

    def _address(self, name: str) -> tuple[int, bytes | None]:
        try:
            address = self._names.address(name)
        except Exhausted:
            return dns.SERVFAIL, None
        if not self._listen(name, address):
            return dns.SERVFAIL, None
        if not self._names.learning:  # then listeners make room for others, and who asks again is listened for again
            self._hosts.add(name, address)
        return dns.NOERROR, inet_aton(address)

    def _whose(self, name: str, kind: int) -> tuple[int, bytes | None]:
        address = ".".join(reversed(name[: -len(_REVERSE)].split(".")))
        host = self._names.host(address)
        if host is None:
            return dns.NXDOMAIN, None
        return dns.NOERROR, dns.name(host) if kind == dns.PTR else None
