"""The network inside, which is made of names: a resolver, whom it sends to loopback, and a tunnel for each connection there.

With the names comes what programs need to use them: variables, and an authority to believe (trust.py). Without any of it
there is nothing: no socket, no file, and no module of this package but this one and names.py.
"""

from __future__ import annotations

import os

from dayfly.agent import problems
from dayfly.agent.lent import Lent
from dayfly.agent.network.names import Names, checked, checked_ports
from dayfly.agent.openings import Openings
from dayfly.agent.session import Refused
from dayfly.wire import operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dayfly.agent.core import Agent
    from dayfly.agent.network.services import Services
    from dayfly.agent.network.trust import Trust
    from dayfly.agent.session import Channel


def set_names(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    """All or nothing: when it fails, nothing has changed."""
    network = agent.part(Network)
    assert isinstance(network, Network)
    listed = checked(params["names"])
    learn = params.get("learn")
    every = tuple(checked_ports(learn)) if learn is not None else ()
    authority = _authority(params.get("authority"))
    network.replace(listed, every, authority, _variables(params.get("env")))
    channel.finish({})


def _authority(told: object) -> str:
    if told is None:
        return ""
    from dayfly.agent.network.certificate import checked_certificate

    return checked_certificate(str(told))


def _variables(told: object) -> dict[str, str]:
    if not told:
        return {}
    from dayfly.agent.network.variables import checked_variables

    return checked_variables(told)  # type: ignore[arg-type]


class Network:
    """Its names, what serves them while there are any, and whom programs believe."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._names = Names()
        self._services: Services | None = None
        self._trust: Trust | None = None  # from the first authority on

    def replace(
        self,
        listed: Mapping[str, tuple[int, ...]],
        every: tuple[int, ...],
        authority: str,
        variables: Mapping[str, str],
    ) -> None:
        """Raises ``Refused`` if a port that is needed has been taken by the code, or there is no room for files; names can
        always be taken away."""
        if authority and self._trust is None:
            self._trust = self._new_trust()
        if self._trust is not None:
            self._prepare(self._trust, authority)
        self._replace_names(listed, every)
        if self._trust is not None:
            self._trust.commit(authority)
            if authority:
                variables = {**self._trust.variables(), **variables}
        file = self._trust.authority if self._trust is not None else ""
        self._agent.supervisor.lent = Lent(variables, authority, file)

    def _new_trust(self) -> Trust:
        from dayfly.agent.network.trust import Trust

        user = self._agent.supervisor.user
        return Trust(user.uid if user is not None else None)

    def _prepare(self, trust: Trust, authority: str) -> None:
        try:
            trust.prepare(authority)
        except OSError as error:
            raise problems.translated(error) from None

    def _replace_names(self, listed: Mapping[str, tuple[int, ...]], every: tuple[int, ...]) -> None:
        any_name = bool(listed or every)
        if any_name and self._services is None:
            self._services = self._start()
        self._names.replace(listed, every)
        if self._services is None:
            return
        self._services.follow()
        if not any_name:
            self._services.close()
            self._services = None

    def _start(self) -> Services:
        from dayfly.agent.network.hosts import PATH, Hosts
        from dayfly.agent.network.services import Services
        from dayfly.agent.network.sockets import Taken

        openings = self._agent.part(Openings)
        assert isinstance(openings, Openings)
        in_sandbox = os.getpid() == 1 and self._agent.supervisor.user is not None  # else that file is a machine's
        try:
            return Services(self._agent.loop, openings, self._names, Hosts(PATH if in_sandbox else None))
        except Taken as error:
            raise Refused(operations.BUSY, f"{error} (a process inside has it)") from None
