"""All that listens while there are names: the resolver, and the names' own ports."""

from __future__ import annotations

from dayfly.agent.network import sockets
from dayfly.agent.network.listeners import Listeners
from dayfly.agent.network.manners import Plain
from dayfly.agent.network.reports import Reports
from dayfly.agent.network.resolver import Resolver
from dayfly.agent.network.tunnels import Tunnel
from dayfly.agent.network.zone import Zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.loop import Loop
    from dayfly.agent.network.names import Names
    from dayfly.agent.openings import Openings

MAX_CONNECTIONS = 256
"""That are connected, wait for it, or hear why not. Each takes up to three descriptors."""

DNS_PORT = 53


class Services:
    """From the start to ``close``. Raises ``Taken``, and then nothing is left."""

    def __init__(self, loop: Loop, openings: Openings, names: Names, dns_port: int = DNS_PORT) -> None:
        self._loop = loop
        self._openings = openings
        self._reports = Reports(loop, openings)
        self._connections = 0
        self._listeners = Listeners(loop, names, self._connected)
        self._resolver = Resolver(loop, Zone(names, self._reports, self._listeners.listen).look, dns_port)
        openings.session.before_answer = self._reports.send

    def follow(self) -> None:
        """The names have changed."""
        self._listeners.follow()

    def close(self) -> None:
        """Tunnels that are open are the host's to end."""
        self._resolver.close()
        self._reports.send()

    def _connected(self, connection: sockets.socket, host: str, port: int) -> None:
        if self._connections >= MAX_CONNECTIONS:
            sockets.reset(connection)
            return
        self._connections += 1
        Tunnel(self._loop, self._openings, connection, (host, port), Plain(port), self._gone)

    def _gone(self) -> None:
        self._connections -= 1
