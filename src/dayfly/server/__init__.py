"""The HTTP API over one manager: who is asking, what may come in, what goes out. It decides nothing that the manager can.

Law: until a request has shown whose it is, it learns nothing, and costs next to nothing.

What is here needs no web framework, which takes half a second to load: ``dayfly keys`` and ``dayfly ps`` do without. What
serves is in modules of its own: ``app``, ``services``, ``serving``.
"""

from dayfly.server.config import Configuration, load_configuration
from dayfly.server.keys import Key, Keys
from dayfly.server.logs import start_logging
from dayfly.server.places import Places
from dayfly.server.readiness import Readiness

__all__ = [
    "Configuration",
    "Key",
    "Keys",
    "Places",
    "Readiness",
    "load_configuration",
    "start_logging",
]
