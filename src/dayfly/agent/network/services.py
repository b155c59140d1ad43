"""All that listens while there are names: the resolver, the names' own ports, and two proxies."""

from __future__ import annotations

from dayfly.agent.network import sockets
from dayfly.agent.network.greetings import Door
from dayfly.agent.network.listeners import Listeners
from dayfly.agent.network.manners import Plain
from dayfly.agent.network.names import Exhausted
from dayfly.agent.network.proxy import HttpGreeting
from dayfly.agent.network.reports import Reports
from dayfly.agent.network.resolver import ADDRESS, Resolver
from dayfly.agent.network.sockets import SOCK_STREAM, Listener, bound
from dayfly.agent.network.socks import SocksGreeting
from dayfly.agent.network.tunnels import Tunnel
from dayfly.agent.network.zone import Zone
from dayfly.agent.streams import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.loop import Loop
    from dayfly.agent.network.hosts import Hosts
    from dayfly.agent.network.manners import Manners
    from dayfly.agent.network.names import Names
    from dayfly.agent.openings import Openings

MAX_CONNECTIONS = 256
"""That say where they want to, wait for it, are connected, or hear why not. Each takes up to three descriptors."""

MAX_GREETINGS = 64
"""Of these, clients of the proxies that have not said where they want to."""

DNS_PORT = 53
HTTP_PORT = 3128
SOCKS_PORT = 1080


class Services(Door):
    """From the start to ``close``. Raises ``Taken``, and then nothing is left."""

    def __init__(self, loop: Loop, openings: Openings, names: Names, hosts: Hosts) -> None:
        self.loop = loop
        self._openings = openings
        self._names = names
        self._hosts = hosts
        self._reports = Reports(loop, openings)
        self._connections = 0
        self._greetings = 0
        self._listeners = Listeners(loop, names, self._connected)
        self._fixed: list[Resolver | Listener] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        openings.session.before_answer = self._reports.send

    def _start(self) -> None:
        zone = Zone(self._names, self._reports, self._hosts, self._listeners.listen)
        self._fixed.append(Resolver(self.loop, zone.look, DNS_PORT))
        for port, greet in ((HTTP_PORT, self._greet_http), (SOCKS_PORT, self._greet_socks)):
            self._fixed.append(Listener(self.loop, bound(SOCK_STREAM, ADDRESS, port), greet))

    def follow(self) -> None:
        """The names have changed."""
        self._hosts.keep(self._listeners.follow())

    def close(self) -> None:
        """Idempotent. Tunnels that are open are the host's to end."""
        for one in self._fixed:
            one.close()
        self._hosts.keep(())
        self._listeners.close()
        self._reports.send()

    # --- who comes --------------------------------------------------------------------------------------------------

    def _connected(self, connection: sockets.socket, host: str, port: int) -> None:
        if self._enter(connection):
            self.tunnel(connection, (host, port), Plain(port))

    def _greet_http(self, connection: sockets.socket) -> None:
        self._greet(connection, HttpGreeting)

    def _greet_socks(self, connection: sockets.socket) -> None:
        self._greet(connection, SocksGreeting)

    def _greet(self, connection: sockets.socket, greeting: Callable[[Door, sockets.socket], object]) -> None:
        if self._greetings >= MAX_GREETINGS:
            sockets.reset(connection)
        elif self._enter(connection):
            self._greetings += 1
            greeting(self, connection)

    def _enter(self, connection: sockets.socket) -> bool:
        if self._connections >= MAX_CONNECTIONS:
            sockets.reset(connection)
            return False
        self._connections += 1
        return True

    def _gone(self) -> None:
        self._connections -= 1

    # --- where it goes ----------------------------------------------------------------------------------------------

    def tunnel(
        self,
        connection: sockets.socket,
        place: tuple[str, int],
        manners: Manners,
        early: bytes = b"",
        limit: int = UNLIMITED,
    ) -> None:
        Tunnel(self.loop, self._openings, connection, place, manners, self._gone, early, limit)

    def part(self, connection: sockets.socket, words: bytes = b"") -> None:
        sockets.Farewell(self.loop, connection, words, self._gone)

    def met(self) -> None:
        self._greetings -= 1

    def too_many(self, host: str) -> str:
        try:
            if self._names.ports(host):
                self._names.address(host)
        except Exhausted as error:
            return str(error)
        return ""

    def host(self, address: str) -> str | None:
        return self._names.host(address)
