"""A name that the operator controls: a zone that is delegated to this machine, whose name server writes down who asks.

Nothing is sent to strangers but what resolving names of one's own zone is. Whoever asks is seen here, by whichever way the question came: that
is what makes it a canary.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from dayfly.errors import HostError, InputError
from dayfly.hosts import BadHost, canonical
from dayfly.prove.bait import resolvers
from dayfly.prove.internet import Names
from dayfly.prove.probe import Probe

__all__ = ["ANSWER", "Canary", "canary", "domain_of"]

ANSWER = "192.0.2.1"
"""What all names of the zone lead to: an address for documentation (RFC 5737), where nobody is."""

CONTROL_SECONDS = 15.0
"""For this machine's own question to come back here, through the resolvers of the world."""

LABEL_BYTES = 10

HERE = "127.0.0.1"

Resolve = Callable[[str], Awaitable[None]]


async def by_this_machine(name: str) -> None:
    """Ask as every program here does. What comes of it does not matter."""
    with suppress(OSError):
        await asyncio.get_running_loop().getaddrinfo(name, 80, family=socket.AF_INET)


@dataclass
class Canary:
    """A ``Scene``. ``domain``: the zone. ``place``: where its name server is asked. Every probe has a label of its own, so whoever comes late is
    still that one's."""

    domain: str
    place: tuple[str, int]
    names: Names = field(default_factory=Names)
    resolve: Resolve = by_this_machine
    _labels: dict[str, str] = field(default_factory=dict)
    _label: str = ""
    _judged: int = 0

    @property
    def marks(self) -> Mapping[str, Any]:
        own = [[one, 53] for one in resolvers() if one != HERE]  # that one is the sandbox's own, inside
        return {"canary_name": f"{self._label}.{self.domain}", "canary_places": [list(self.place), *own]}

    async def alive(self) -> str:
        """Why it would see nobody; empty: this machine's own question has come just now."""
        name, before = f"{secrets.token_hex(LABEL_BYTES)}.{self.domain}", len(self.names.asked)
        try:
            async with asyncio.timeout(CONTROL_SECONDS):
                await self.resolve(name)
                while not any(asked.endswith(name) for asked in self.names.asked[before:]):
                    self.names.came.clear()
                    await self.names.came.wait()
        except TimeoutError:
            return f"a question of this machine's own for a name below {self.domain} does not come here: see docs/prove.md on delegating it"
        self.names.asked[before:] = [asked for asked in self.names.asked[before:] if not asked.endswith(name)]
        return ""

    def watch(self) -> None:
        self._label = secrets.token_hex(LABEL_BYTES)

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        self._labels[probe.id] = self._label
        self._judged = len(self.names.asked)
        return self.late(probe)

    def late(self, probe: Probe) -> tuple[str, ...]:
        label = self._labels.get(probe.id)
        came = sorted({asked for asked in self.names.asked if label is not None and label in asked})
        return tuple(f"a query for {asked[:100]!a}" for asked in came)

    def strays(self) -> tuple[str, ...]:
        """None: the whole world may ask for names of a zone, and scanners do. Ours are known by their labels."""
        return ()

    def leaked(self, output: str) -> tuple[str, ...]:
        return ()


def domain_of(text: str) -> str:
    """One spelling of a zone's name. Raises ``InputError``."""
    try:
        name = canonical(text)
    except BadHost as error:
        raise InputError(f"not a domain: {text!a:.80} {error}", remedy="such as canary.example.com") from None
    if "." not in name:
        raise InputError(f"not a domain that could be delegated: {text!a:.80}", remedy="such as canary.example.com")
    return name


@asynccontextmanager
async def canary(domain: str, address: str, port: int, resolve: Resolve = by_this_machine) -> AsyncIterator[Canary]:
    """Its name server, on UDP. ``port`` 0: a free one. Raises ``HostError`` where it cannot listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    on = socket.socket(family, socket.SOCK_DGRAM)
    try:
        on.bind((address, port))
    except OSError as error:
        on.close()
        raise HostError(
            f"no name server can listen on {address} port {port}: {error.strerror}",
            remedy="free the port, or name another place with --canary-listen; below 1024 it takes root",
        ) from error
    made = Canary(domain, (HERE if address == "0.0.0.0" else address, on.getsockname()[1]), resolve=resolve)  # noqa: S104
    made.names.everything = ANSWER
    await made.names.listen(on)
    try:
        yield made
    finally:
        made.names.close()
