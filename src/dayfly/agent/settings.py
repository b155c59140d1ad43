"""Making the sandbox somebody's own, and telling what it uses."""

from __future__ import annotations

from _socket import sethostname

from dayfly.agent import census, problems
from dayfly.agent.core import checked_environment, checked_limits, encoded, load
from dayfly.agent.memory import used_memory
from dayfly.agent.session import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel

MAX_HOSTNAME = 64  # bytes: Linux's own


def configure(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    """For everything that is started from now on. Limits can only be tightened; all is checked before any is changed."""
    env = checked_environment(params["env"])
    limits = checked_limits(params["limits"])
    supervisor = agent.supervisor
    if params.get("hostname") is not None:
        _set_hostname(str(params["hostname"]))
    supervisor.own_environment.update(env)
    for name, value in limits.items():
        supervisor.limits[name] = min(value, supervisor.limits.get(name, value))
    agent.settle()
    channel.finish({})


def _set_hostname(name: str) -> None:
    raw = encoded(name)
    if not raw or len(raw) > MAX_HOSTNAME or b"\0" in raw:
        raise BadRequest("not a host name")
    try:
        sethostname(name)
    except OSError as error:
        raise problems.translated(error) from None


def usage(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    """Of the user's processes: claims, as everything from inside."""
    supervisor = agent.supervisor
    resting = load("dayfly.agent.kernels.contexts:resting_kernels")(agent)
    if supervisor.user is not None:
        mine = [one for one in census.everyone() if one.alive and one.uid == supervisor.user.uid]
        memory = used_memory()
    else:
        mine = census.descendants(supervisor.roots(), set())
        memory = sum(one.rss for one in mine)
    cpu = supervisor.possible_cpu(supervisor.spent + sum(one.cpu for one in mine))
    busy = any(one.pid not in resting for one in mine)
    channel.finish({"processes": len(mine), "cpu_seconds": cpu, "memory": memory, "busy": busy})
