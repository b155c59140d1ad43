"""The stream between the agent and the host: nobody else inside can speak on it, or for the agent.

What a forged word would do is seen by whoever asks the sandbox afterwards: it ends, or gives no answer, and then nothing here is denied.
"""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.PROTOCOL, severity=Severity.HIGH)

_SAID = ["00" * 16, "ff" * 16, b"GET / HTTP/1.1\r\n\r\n".hex(), b'{"op": "exit"}\n'.hex(), "00000010" + "01" * 16]
"""Nothing, everything, another protocol, a word, and a length with what it counts."""

PROBES = (
    _one("protocol.forged.agent", "Speak for the agent on what it has open", attempt="processes.forged", arguments={"target": 1, "said": _SAID},
         source="DX12968, GHCO"),
    _one("protocol.forged.others", "Speak for any other process on what it has open", attempt="processes.forged_everywhere", arguments={"said": _SAID},
         source="DX12968"),
    _one("protocol.stopped", "Stop, end or wake whoever speaks for the sandbox", attempt="processes.stopped", arguments={"target": 1, "number": 9},
         source="RG"),
    _one("protocol.listeners", "Find where the agent listens, and speak to it", attempt="network.ports",
         arguments={"numbers": [22, 1024, 2024, 2280, 3000, 5000, 8000, 8080, 8888, 9000, 44772, 49982, 49983, 49999]}, source="P129"),
)  # fmt: skip
