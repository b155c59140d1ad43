"""Who is asked what: nothing that changes anything where no wall is, and every attempt is read with that question."""

from __future__ import annotations

import pytest

from dayfly.prove import ALL, Place, Probe, Property
from dayfly.prove.targets import asked
from dayfly.prove.targets.choice import HARMLESS, LEFT_OUT

CLOSED = [probe for probe in ALL if probe.place is Place.CLOSED]


@pytest.mark.parametrize("probe", CLOSED, ids=lambda probe: probe.id)
def test_every_attempt_is_known_to_be_harmless_or_is_left_out_for_a_reason(probe: Probe) -> None:
    left_out = probe.id.startswith(tuple(LEFT_OUT))
    assert left_out or probe.attempt in HARMLESS, "read it, and give it a line in one of the two tables"


def test_nothing_else_is_asked() -> None:
    chosen = asked()
    assert len(chosen) > 90
    assert {probe.attempt for probe in chosen} == set(HARMLESS), "no line is left over"
    assert all(probe.place is Place.CLOSED for probe in chosen)
    assert all(any(probe.id.startswith(beginning) for probe in CLOSED) for beginning in LEFT_OUT)


@pytest.mark.parametrize("attempt", ["files.changed", "kernel.mounts", "kernel.node", "processes.stopped"])
def test_what_could_change_a_machine_without_walls_is_never_asked(attempt: str) -> None:
    assert attempt in {probe.attempt for probe in CLOSED}
    assert attempt not in {probe.attempt for probe in asked()}


def test_a_choice_of_properties_has_what_must_work_besides() -> None:
    assert {probe.property for probe in asked([Property.DNS])} == {Property.DNS, Property.USEFUL}
