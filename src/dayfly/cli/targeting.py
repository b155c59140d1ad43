"""``dayfly prove --target``: which of other people's sandboxes, and how it is reached."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dayfly.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.prove import Proof, Row
    from dayfly.prove.targets import Target

__all__ = ["number_of", "proof_of", "target_of"]


def target_of(name: str, command: str | None, *, elsewhere: bool) -> Target:
    """Raises ``InputError``, and ``HostError`` where what it needs is not installed."""
    from dayfly.prove.targets import KINDS, Means
    from dayfly.prove.targets import command as by_command

    if name == "command":
        if command is None:
            raise InputError("--target command needs a command line", remedy="add: --command 'ssh box python3 -'")
        return by_command.target(command, elsewhere=elsewhere)
    if command is not None or elsewhere:
        raise InputError("--command and --elsewhere are for --target command", remedy="leave them out")
    if name not in KINDS:
        raise InputError(f"there is no target {name!r}", remedy=f"one of: command, {', '.join(KINDS)}")
    return KINDS[name](Means())


def number_of(properties: list[str]) -> int:
    """How many probes such a proof has."""
    from dayfly.prove import Property
    from dayfly.prove.targets import asked

    return len(asked([Property(name) for name in properties]))


def proof_of(target: Target, properties: list[str], progress: Callable[[Row], None]) -> Proof:
    from dayfly.prove import Property
    from dayfly.prove.targets import asked, prove_target

    return asyncio.run(prove_target(target, asked([Property(name) for name in properties]), progress))
