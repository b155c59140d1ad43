"""Results on their way from a kernel to the agent."""

from __future__ import annotations

import sys

from dayfly.agent.kernels import display
from dayfly.agent.kernels.records import HARD_LIMIT, encode
from dayfly.agent.kernels.streams import flush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.link import Link


class Publisher:
    """Sends bundles. ``cap`` is the run's output cap: a bundle beyond it is not sent but reported as left out."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.cap = HARD_LIMIT

    def publish(self, data: object, metadata: object = None, *, main: bool) -> None:
        """Send one bundle."""
        encoded = self._encoded(data, metadata, main)
        if encoded:
            self._link.send_bytes(encoded)

    def publish_last(self, data: object, metadata: object = None) -> None:
        """Send the cell's value, which is followed by the run's answer at once (or ``flush``)."""
        encoded = self._encoded(data, metadata, True)
        if encoded:
            self._link.send_with_next(encoded)

    def flush(self) -> None:
        self._link.flush()

    def _encoded(self, data: object, metadata: object, main: bool) -> bytes:
        if not self._link.is_mine:
            return b""
        self._flush_streams()
        bundle, more = display.clean(data, metadata)
        size = sum(len(value) for value in bundle.values() if isinstance(value, str))
        encoded = None if size > self.cap else _record(bundle, more, main, 0)
        if encoded is None or len(encoded) > self.cap:
            encoded = _record({}, {}, main, max(size, len(encoded or b"")))
        return encoded

    @staticmethod
    def _flush_streams() -> None:
        """What was printed before comes before."""
        for stream in (sys.stdout, sys.stderr):
            flush(stream)


def _record(data: dict[str, object], metadata: dict[str, object], main: bool, omitted: int) -> bytes:
    return encode({"display": {"data": data, "metadata": metadata, "main": main, "omitted": omitted}})
