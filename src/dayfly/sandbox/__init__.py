"""One sandbox's life over one cell: the host's side of the stream, the clock it lives by, and what can be asked of it.

Law: the agent is hostile. What it sends is bounded and typed by ``dayfly.wire``, checked against the table of operations
here, and everything about time and ends is decided by the host's clock and the boundary's word, never by the agent's.
"""

from dayfly.sandbox.executions import ExecutionSink
from dayfly.sandbox.life import Life
from dayfly.sandbox.network import WayOut
from dayfly.sandbox.snapshot import Suspended

__all__ = ["ExecutionSink", "Life", "Suspended", "WayOut"]
