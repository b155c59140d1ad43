"""Starting the JavaScript kernel. Its program is given on the command line: so it needs no file inside."""

from __future__ import annotations

from dayfly.agent.kernels import find_program
from dayfly.agent.kernels.codec import Codec
from dayfly.agent.kernels.scripts import source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.codec import Launch
    from dayfly.agent.supervisor import Child

SIGTRAP, SIGABRT = 5, 6


class NodeCodec(Codec):
    memory_signals = (SIGTRAP, SIGABRT)  # V8 has no other way to say it
    # What it waits for may be born after the interrupt, and until that ends it breaks nothing off.
    loses_interrupts = True
    settles = True

    def start(self, launch: Launch) -> Child:
        program = find_program("node", launch.environment.get("PATH", "")) or "node"
        return launch.program([program, "-e", source("driver.js")], {"DAYFLY_CONTROL": str(launch.control)})
