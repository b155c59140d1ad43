"""A call that looks at its arguments was let through: nonsense is answered otherwise than a refusal, or no such probe could turn red."""

from __future__ import annotations

import os

import pytest

from dayfly.prove import ALL
from dayfly.prove.inside import kernel

OPEN, GETPID, NONE = 2, 39, 100_000
NOWHERE = 1
"""No address."""


def test_what_is_answered_is_reached_and_what_there_is_not_is_denied() -> None:
    """Harmless calls, of this process."""
    assert kernel.calls({"getpid": [GETPID], "open": [OPEN, NOWHERE, 0], "none": [NONE]}) == (3, ["getpid", "open"])


def test_on_another_machine_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "here", "6", "1", "aarch64")))
    with pytest.raises(OSError, match="x86-64"):
        kernel.calls({"getpid": [GETPID]})


def test_every_call_has_arguments_that_no_kernel_follows() -> None:
    tables = [probe.arguments["numbers"] for probe in ALL if probe.attempt == "kernel.calls"]
    assert len(tables) == 13
    assert all(len(words) > 1 for table in tables for words in table.values())


def on(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "here", "6", "1", machine)))


def test_every_call_but_those_for_ports_has_a_number_on_arm64(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [probe.arguments["numbers"] for probe in ALL if probe.attempt == "kernel.calls"]
    given = {name: words[0] for table in tables for name, words in table.items()}
    assert set(given) - set(kernel.ON_ARM64) == {"iopl", "ioperm"}
    on(monkeypatch, "aarch64")
    assert {name: kernel.number_here(name, given[name]) for name in kernel.ON_ARM64} == kernel.ON_ARM64


@pytest.mark.parametrize(("machine", "name"), [("riscv64", "bpf"), ("i686", "bpf"), ("aarch64", "iopl")])
def test_a_number_that_is_not_known_is_never_called(monkeypatch: pytest.MonkeyPatch, machine: str, name: str) -> None:
    on(monkeypatch, machine)
    with pytest.raises(OSError, match=f"known for {name}"):
        kernel.calls({name: [321, 1]})
