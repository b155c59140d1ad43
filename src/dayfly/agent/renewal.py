"""After a restore, before anything of the user's is run: what was drawn at random before the snapshot is drawn again.

Python kernels do it themselves (kernels/generators.py). Other kernels cannot; those that ran nothing yet are replaced. What
else can be the same in two restores is told in docs/hosts.md.
"""

from __future__ import annotations

import os
import sys
from _socket import sethostname

from dayfly.agent.session import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.core import Agent
    from dayfly.agent.kernels.contexts import Context, Contexts
    from dayfly.agent.loop import Timer
    from dayfly.agent.session import Channel

RENEW_SECONDS = 5.0
"""Until kernels have answered; they take a few milliseconds. One whose code holds it up does not hold up the others."""


def renew(agent: Agent, channel: Channel, params: dict[str, object]) -> Task:
    return Renewal(agent, channel, str(params["hostname"]), params["keep_seeds"] is True)


class Renewal(Task):
    """Asks every kernel, and answers when all have, or when the time is over."""

    def __init__(self, agent: Agent, channel: Channel, hostname: str, keep_seeds: bool) -> None:
        self._channel = channel
        self._renewed: list[str] = []
        self._kept: list[str] = []
        self._asked: set[str] = set()
        self._timer: Timer | None = agent.loop.call_later(RENEW_SECONDS, channel.guarded(self._finish))
        (self._renewed if _set_hostname(hostname) else self._kept).append("hostname")
        for context in _contexts(agent):
            self._ask(context, keep_seeds)
        self._finish_if_all()

    def _ask(self, context: Context, keep_seeds: bool) -> None:
        if context.kernel is None or not context.kernel.alive:
            return
        if context.kernel.renews:
            self._asked.add(context.name)
            context.renew(keep_seeds, lambda renewed, kept: self._answered(context.name, renewed, kept))
        elif context.kernel.used:
            self._kept.append(f"{context.name}: the generators of {context.language}")
        else:
            context.replace()
            self._renewed.append(f"{context.name}: a new kernel")

    def _answered(self, name: str, renewed: list[str], kept: list[str]) -> None:
        self._asked.discard(name)
        self._renewed += (f"{name}: {what}" for what in renewed)
        self._kept += (f"{name}: {what}" for what in kept)
        self._finish_if_all()

    def _finish_if_all(self) -> None:
        if not self._asked:
            self._finish()

    def _finish(self) -> None:
        self._channel.finish({"renewed": self._renewed, "kept": self._kept, "unanswered": sorted(self._asked)})

    def on_close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _set_hostname(name: str) -> bool:
    """Whether it is the host's name now: gVisor itself restores a cell under its own name, or the agent would have to, and
    has no right to."""
    if os.uname().nodename == name:
        return True
    try:
        sethostname(name)
    except (OSError, ValueError):
        return False
    return True


def _contexts(agent: Agent) -> list[Context]:
    module = sys.modules.get("dayfly.agent.kernels.contexts")
    if module is None:  # no kernel was ever asked for
        return []
    contexts: Contexts = agent.part(module.Contexts)  # type: ignore[assignment]
    return contexts.all()
