"""Results on their way from a kernel to the agent."""

from __future__ import annotations

import sys

from dayfly.agent.kernels import display
from dayfly.agent.kernels.records import HARD_LIMIT, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.link import Link


class Publisher:
    """Sends bundles. ``cap`` is the run's output cap: a bundle beyond it is not sent but reported as left out."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.cap = HARD_LIMIT

    def publish(self, data: object, metadata: object = None, *, main: bool) -> None:
        if not self._link.is_mine:
            return
        self._flush()
        bundle, more = display.clean(data, metadata)
        size = sum(len(value) for value in bundle.values() if isinstance(value, str))
        encoded = None if size > self.cap else _record(bundle, more, main, 0)
        if encoded is None or len(encoded) > self.cap:
            encoded = _record({}, {}, main, max(size, len(encoded or b"")))
        self._link.send_bytes(encoded)

    @staticmethod
    def _flush() -> None:
        """What was printed before comes before."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # the user's own stream
                continue


def _record(data: dict[str, object], metadata: dict[str, object], main: bool, omitted: int) -> bytes:
    return encode({"display": {"data": data, "metadata": metadata, "main": main, "omitted": omitted}})
