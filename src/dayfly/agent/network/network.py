"""The network inside, which is made of names: a resolver, whom it sends to loopback, and a tunnel for each connection there.

Without names there is nothing: no socket, and no module of this package but this one and names.py.
"""

from __future__ import annotations

from dayfly.agent.network.names import Names, checked
from dayfly.agent.openings import Openings
from dayfly.agent.session import Refused
from dayfly.wire import operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dayfly.agent.core import Agent
    from dayfly.agent.network.services import Services
    from dayfly.agent.session import Channel


def set_names(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    """All or nothing: with ``BUSY``, nothing has changed."""
    network = agent.part(Network)
    assert isinstance(network, Network)
    network.replace(checked(params["names"]))
    channel.finish({})


class Network:
    """Its names, and what serves them while there are any."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._names = Names()
        self._services: Services | None = None

    def replace(self, listed: Mapping[str, tuple[int, ...]]) -> None:
        """Raises ``Refused`` if a port that is needed has been taken by the code; names can always be taken away."""
        if listed and self._services is None:
            self._services = self._start()
        self._names.replace(listed)
        if self._services is None:
            return
        self._services.follow()
        if not listed:
            self._services.close()
            self._services = None

    def _start(self) -> Services:
        from dayfly.agent.network.services import Services
        from dayfly.agent.network.sockets import Taken

        openings = self._agent.part(Openings)
        assert isinstance(openings, Openings)
        try:
            return Services(self._agent.loop, openings, self._names)
        except Taken as error:
            raise Refused(operations.BUSY, f"{error} (a process inside has it)") from None
