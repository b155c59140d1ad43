"""One named destination."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import field_validator, model_validator

from dayfly.hosts import LONGEST_NAME, BadHost, IsAddress, canonical
from dayfly.limits import Unfit
from dayfly.network.base import BaseRule, Place, Protocol
from dayfly.network.inject import Inject
from dayfly.urls import BadPath, canonical_path

__all__ = ["MOST_PORTS", "Protocol", "Rule", "host_pattern", "path_pattern"]

MOST_PORTS = 64
"""Of one rule. Inside, each is a listener of its own for every name."""

MOST_METHODS = 16
"""Of one rule: twice as many as HTTP itself has. Who needs more means any."""

MOST_PATHS = 256
"""Of one rule: a list that a person can still read. Each request is compared with all of them."""

PORTS: dict[str, tuple[int, ...]] = {"tls": (443,), "http": (80,), "postgres": (5432,)}
"""What a rule that names no ports means, by its protocol."""

_METHOD = re.compile(r"[A-Z]{1,20}")  # the longest in use, UPDATEREDIRECTREF, has 17
_HOW_METHODS = "write methods = ['GET', 'HEAD'], in capitals"


class Rule(BaseRule):
    """One destination. Raises ``PolicyError``.

    A name under more than one rule of the same port is judged by the rule that names it exactly, before a wildcard.
    """

    host: str
    """A name, or ``*.`` and a name: exactly one label more, and not the name itself."""

    ports: tuple[int, ...] = ()
    """Without it the protocol's own: tls 443, http 80, postgres 5432."""

    protocol: Protocol = "tls"
    """How the port speaks. Without it tls, or http where port 80 is the only one. ``tcp`` is not looked into."""

    methods: tuple[str, ...] | None = None
    """HTTP methods in capitals. None: any. With methods, paths or inject the gateway looks at each request, inside of TLS too."""

    paths: tuple[str, ...] | None = None
    """Of requests: each as it is, or with ``/*`` at its end for all below it. None: any."""

    inject: Inject | None = None
    """A secret that is added to each request, outside."""

    @property
    def places(self) -> tuple[Place, ...]:
        return ((self.host, self.ports),)

    @property
    def leads_to(self) -> str:
        return self.host

    @property
    def key(self) -> tuple[object, ...]:
        return self.host, self.ports, self.protocol

    @property
    def spoken(self) -> Protocol:
        return self.protocol

    @property
    def service(self) -> Literal["", "requests"]:
        return "requests" if self.methods or self.paths or self.inject else ""

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset({self.inject.secret}) if self.inject else frozenset()

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        ports, protocol = data.get("ports"), data.get("protocol")
        if protocol is None:
            protocol = _spoken_on(ports)
        if ports is None:
            if protocol == "tcp":
                raise Unfit("tcp has no port of its own", "give ports, such as ports = [5672]")
            ports = PORTS.get(str(protocol), (443,))
        return {**data, "ports": ports, "protocol": protocol}

    @field_validator("host")
    @classmethod
    def _one_spelling(cls, host: str) -> str:
        return host_pattern(host)

    @field_validator("ports", mode="before")
    @classmethod
    def _some_ports(cls, ports: object) -> object:
        if not isinstance(ports, (list, tuple)) or not 0 < len(ports) <= MOST_PORTS:
            raise Unfit(f"not a list of 1 to {MOST_PORTS} ports: {ports!a:.80}", _HOW_PORTS)
        for one in ports:
            if type(one) is not int or not 0 < one < 65536:
                raise Unfit(f"not a port: {one!a:.80}", _HOW_PORTS)
            if ports.count(one) > 1:
                raise Unfit(f"port {one} is listed twice", "list it once")
        return ports

    @field_validator("methods", mode="before")
    @classmethod
    def _capitals(cls, methods: object) -> object:
        if methods is None:
            return None
        if not isinstance(methods, (list, tuple)) or not 0 < len(methods) <= MOST_METHODS:
            raise Unfit(f"not a list of 1 to {MOST_METHODS} methods: {methods!a:.80}", _HOW_METHODS)
        for one in methods:
            if not isinstance(one, str) or not _METHOD.fullmatch(one) or one == "CONNECT":
                raise Unfit(f"not a method: {one!a:.80}", _HOW_METHODS)
        return methods

    @field_validator("paths", mode="before")
    @classmethod
    def _listed(cls, paths: object) -> object:
        if paths is not None and not isinstance(paths, (list, tuple)):
            raise Unfit(f"not a list of paths: {paths!a:.80}", "write paths = ['/v1/*']")
        return paths

    @field_validator("paths")
    @classmethod
    def _patterns(cls, paths: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if paths is None:
            return None
        if not 0 < len(paths) <= MOST_PATHS:
            raise Unfit(
                f"{len(paths)} paths are not 1 to {MOST_PATHS}", "'/v1/*' stands for all below /v1/; any: leave it out"
            )
        return tuple(path_pattern(one) for one in paths)

    @model_validator(mode="after")
    def _requests_are_seen(self) -> Rule:
        if self.service and self.protocol not in ("tls", "http"):
            raise Unfit(
                f"protocol {self.protocol} has no HTTP requests, which methods, paths and inject are about",
                "leave them out, or say protocol = 'tls'",
            )
        if self.inject and self.protocol != "tls":
            raise Unfit("a secret goes over verified TLS only", "leave inject out, or say protocol = 'tls'")
        return self

    @model_validator(mode="after")
    def _findable(self) -> Rule:
        if self.private is not None or "." in self.host.removeprefix("*."):
            return self
        if self.host.startswith("*."):
            raise Unfit(f"{self.host!r} stands for everything below a top-level name", "name the hosts that are meant")
        raise Unfit(
            f"{self.host!r} is a single label, which means something else on every network",
            "write the whole name, such as 'api.example.com'; for a host of a private network add private = 'CIDR'",
        )


def path_pattern(path: str) -> str:
    """A path of requests in its one spelling, perhaps with ``/*`` at its end. Raises ``Unfit``."""
    star = "/*" if path.endswith("/*") else ""
    try:
        return canonical_path(path[: len(path) - len(star)] or "/").removesuffix("/" if star else "") + star
    except BadPath as error:
        raise Unfit(f"{path!a:.80} {error}", "write it as '/v1/items', or '/v1/*' for all below it") from None


def host_pattern(host: str) -> str:
    """A rule's host in its one spelling. Raises ``Unfit``."""
    star = "*." if host.startswith("*.") else ""
    base = host[len(star) :]
    if "*" in base:
        raise Unfit(f"{host!a:.80} has a star where none may be", _ONE_STAR)
    try:
        name = canonical(base)
    except BadHost as error:
        raise Unfit(f"{host!a:.80} {error}", _remedy_for(base, error)) from None
    if star and len(name) > LONGEST_NAME - 2:
        raise Unfit(f"{host!a:.80} leaves no room for another label", "name the hosts themselves")
    return star + name


_HOW_PORTS = f"write ports = [443]: 1 to {MOST_PORTS} whole numbers from 1 to 65535"
_ONE_STAR = "a star stands for exactly one label, in the first place: '*.example.com'; list every name that is meant"
_NAME_ALONE = "write the name alone, such as 'api.example.com'"


def _remedy_for(host: str, error: BadHost) -> str:
    if isinstance(error, IsAddress):
        return "rules are for names: give the address a name in DNS (and private = 'CIDR' if it is a private one)"
    if ":" in host and "/" not in host:
        return f"{_NAME_ALONE}, and ports = [...]"
    return _NAME_ALONE


def _spoken_on(ports: object) -> str:
    """The protocol of a rule that names none."""
    if not isinstance(ports, (list, tuple)) or 80 not in ports:
        return "tls"
    if len(ports) > 1:
        raise Unfit("port 80 speaks http and the others tls", "write a rule for each, or say which protocol")
    return "http"
