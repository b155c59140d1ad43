"""The same proof against other people's sandboxes: whatever takes a Python program on its standard input can be asked the same questions.

Only attempts that are harmless where no wall is (``choice``), in a disposable machine of namespaces (``box``), each in a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dayfly.prove.probe import Probe
from dayfly.prove.proof import Proof, Row
from dayfly.prove.targets.box import judged_in_a_box
from dayfly.prove.targets.choice import asked
from dayfly.prove.targets.judging import judged
from dayfly.prove.targets.peers import KINDS, Means, command
from dayfly.prove.targets.target import Place, Target

__all__ = ["KINDS", "Means", "Place", "Target", "asked", "command", "prove_target"]


async def prove_target(
    target: Target, probes: Sequence[Probe], tell: Callable[[Row], None] = lambda row: None
) -> Proof:
    """``probes``: some of ``asked()``. Raises ``HostError`` where no box can be made; what fails in the target is in the report."""
    if target.place is Place.BOX:
        return await judged_in_a_box(target, probes, tell)
    return await judged(target, probes, None, tell)
