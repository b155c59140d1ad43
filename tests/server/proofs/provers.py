"""A prover that says what a test wants, when it wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dayfly.errors import HostError
from dayfly.policy import Policy
from dayfly.server.proven import Proven, Subject

__all__ = ["OWN", "SMALL", "ScriptedProver"]

OWN = Subject("", Policy())
SMALL = Subject("small", Policy(image="python"))

REPORT = b'{"rows": []}'


class ScriptedProver:
    """``on``: what all stands on. ``green``: by subject, else yes. ``proved``: of whom a proof was asked for; ``may_end`` holds each up."""

    def __init__(self) -> None:
        self.on: dict[str, str] | str = {"runsc": "1"}
        self.green: dict[str, bool | str] = {}
        self.proved: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    def stands_on(self, subject: Subject) -> Mapping[str, str]:
        if isinstance(self.on, str):
            raise HostError(self.on, remedy="mend it")
        return {**self.on, "image": subject.policy.image}

    async def prove(self, subject: Subject) -> Proven:
        self.proved.append(subject.template)
        await self.may_end.wait()
        green = self.green.get(subject.template, True)
        if isinstance(green, str):
            raise HostError(green)
        red = () if green else tuple(f"dns.{number}" for number in range(70))
        return Proven(green, 1e9, 18.5, "quick", {"denied": 200, "reached": 14}, red, REPORT)
