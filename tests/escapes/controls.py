"""Where every probe of a closed sandbox must succeed: gVisor with one wall taken away, or the attempt aimed at what is allowed.

Nothing here runs an attempt against the host's own kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dayfly.prove.bundle import bundle
from dayfly.prove.marks import fill, token_of
from dayfly.prove.probe import Probe
from tests.escapes.unwalled import Missing, run

__all__ = ["CONTROLS", "Control", "all_attempted"]

OWN = 18765
"""Of ``inside/network.py``."""

PLAIN = Missing(shell="{program}")
"""A bare gVisor: no network, no root, no mounts, and none of dayfly's caps."""


@dataclass(frozen=True)
class Control:
    """``arguments`` replace those of the probe; ``attempt``: it is made through that one."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    missing: Missing = field(default_factory=lambda: PLAIN)
    attempt: str = ""


def all_attempted(probes: Sequence[Probe], marks: Mapping[str, Any], directory: Path) -> dict[str, dict[str, Any]]:
    """What the probes' program says of each, in bare ``runsc run``: those together that miss the same wall."""
    (directory / "proof.pyz").write_bytes(bundle())
    together: dict[str, list[Probe]] = {}
    for probe in probes:
        together.setdefault(repr(_control(probe).missing), []).append(probe)
    return {name: row for group in together.values() for name, row in _attempted(group, marks, directory).items()}


def _attempted(probes: Sequence[Probe], marks: Mapping[str, Any], directory: Path) -> dict[str, dict[str, Any]]:
    questions = [json.dumps(_asked(probe, marks)) for probe in probes]
    (directory / "asked").write_text("".join(f"{question}\n" for question in questions))
    missing = _control(probes[0]).missing
    told = {**marks, "program": 'python3 -I "$0" </attacks/asked'}
    filled = replace(
        missing,
        shell=fill(missing.shell, told),
        env=fill(missing.env, told),
    )
    said = run(directory / "proof.pyz", filled, {}).splitlines()
    assert len(said) == len(probes), said[-1:]
    return {probe.id: json.loads(line) for probe, line in zip(probes, said, strict=True)}


def _control(probe: Probe) -> Control:
    return CONTROLS[probe.attempt](probe)


def _asked(probe: Probe, marks: Mapping[str, Any]) -> dict[str, Any]:
    control = _control(probe)
    arguments = {**probe.arguments, **control.arguments}
    if control.attempt:
        if control.attempt == "processes.own_child":
            del arguments["target"]
        arguments = {"attempt": probe.attempt.split(".")[1], "arguments": arguments}
    filled = fill(arguments, {**marks, "token": token_of(probe)})
    return {"attempt": control.attempt or probe.attempt, "arguments": filled, "seconds": 30}


def more(name: str, *items: Any) -> Callable[[Probe], Control]:
    """The list has something besides that is allowed."""
    return lambda probe: Control({name: [*_items(probe, name), *items]})


def _items(probe: Probe, name: str) -> Sequence[Any]:
    found = probe.arguments[name]
    return [] if isinstance(found, str) else found


def with_(**arguments: Any) -> Callable[[Probe], Control]:
    return lambda probe: Control(arguments)


def without(missing: Missing, **arguments: Any) -> Callable[[Probe], Control]:
    return lambda probe: Control(arguments, missing)


def through(attempt: str, **arguments: Any) -> Callable[[Probe], Control]:
    return lambda probe: Control(arguments, attempt=attempt)


AS_ROOT = Missing(shell="{program}", root=True)
HERE = [["127.0.0.1", OWN]]

CONTROLS: dict[str, Callable[[Probe], Control]] = {
    "kernel.calls": lambda probe: Control({"numbers": {**probe.arguments["numbers"], "getpid": [39]}}),
    "kernel.writable": more("paths", "/dev/null"),
    "kernel.readable": more("paths", "/etc/passwd"),
    "kernel.devices": more("names", "null"),
    "kernel.node": without(AS_ROOT, kind=0o20000, major=1, minor=3),
    "kernel.identity": with_(path="/etc/os-release", host="mine"),
    "kernel.mounts": lambda probe: Control({"flags": 0, "own": False}, AS_ROOT),
    "processes.named": without(Missing(shell='sh -c "read x" "{nonce}" </dev/zero & {program}; kill $!')),
    "processes.signalled": with_(pid=1),
    "processes.programs": more("words", "python3", "sh"),
    "processes.told_by": with_(harmless=[]),
    **{
        f"processes.{name}": through("processes.own_child")
        for name in ("memory", "read_by_call", "descriptors", "root", "traced", "stopped")
    },
    "processes.forged": through("processes.own_child"),
    "processes.forged_everywhere": without(
        Missing(shell="sleep 60 2>/dev/null | cat >/dev/null 2>&1 & {program}; kill $!"),
        said=["20"],  # a blank: some of what is open there is this program's own output
    ),
    "processes.left_open": without(Missing(shell="exec 7</etc/passwd; {program}")),
    "processes.core": with_(),
    "privileges.superuser": without(AS_ROOT),
    "privileges.capabilities": without(AS_ROOT),
    "privileges.obtainable": without(AS_ROOT),
    "privileges.identity_changed": without(AS_ROOT),
    "privileges.marked_files": without(
        Missing(shell="cp /bin/true /tmp/marked; chmod u+s /tmp/marked; {program}"), tops=["/tmp"]
    ),
    "privileges.sudo": without(Missing(shell="cp /bin/true /tmp/sudo; PATH=/tmp:$PATH; export PATH; {program}")),
    "privileges.unlimited": without(AS_ROOT),
    "files.host_file": with_(),
    "files.above_the_root": without(AS_ROOT),
    "files.told_paths": with_(words=["/proc"]),
    "files.made_in": more("folders", "/tmp"),
    "files.changed": without(Missing(shell="touch /tmp/own; {program}"), paths=["/tmp/own"]),
    "files.given_away": without(AS_ROOT, places=["/tmp"]),
    "files.present": more("patterns", "/etc/passwd"),
    "leaks.variables": without(Missing(shell="{program}", env={"AWS_SECRET_ACCESS_KEY": "x"})),
    "leaks.value_anywhere": without(Missing(shell="{program}", env={"LEAKED": "{secret}"}), files=["environ"]),
    "leaks.sockets": more("names", "PATH"),
    "network.many_tcp": through("network.own_servers", places=HERE),
    "network.udp": through("network.own_servers", places=HERE),
    "network.udp_answered": through("network.own_servers", port=OWN),
    "network.unix": through("network.own_servers", names=["@own"]),
    "network.echoed": with_(addresses=["127.0.0.1"]),
    "network.families": lambda probe: Control({"kinds": {**probe.arguments["kinds"], "stream": [2, 1, 0]}}),
    "network.raw_with_namespaces": without(Missing(shell="{program}", network="host"), kinds={"stream": [2, 1, 0]}),
    "network.interfaces": with_(known=[]),
    "network.routes": with_(tables=["{directory}/routes"]),
    "network.listeners": through("network.own_servers"),
    "network.unix_listeners": through("network.own_servers"),
    "network.ports": through("network.own_servers", numbers=[OWN]),
    "network.resolved": more("names", "127.0.0.1"),
    "network.queried": through("network.own_servers", servers=HERE),
    "network.asked_over_tcp": through("network.own_servers", servers=HERE),
    "network.told_resolvers": with_(paths=["{directory}/resolvers"]),
    "network.reversed_name": with_(addresses=["127.0.0.1"]),
    "network.environment_pointing": without(Missing(shell="{program}", env={"IDENTITY_ENDPOINT": "http://192.0.2.1"})),
}
"""By the attempt's name."""
