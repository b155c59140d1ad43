"""The HTTP API over one manager: who is asking, what may come in, what goes out. It decides nothing that the manager can.

Law: until a request has shown whose it is, it learns nothing, and costs next to nothing.
"""

from dayfly.server.app import create_app
from dayfly.server.backup import back_up
from dayfly.server.config import Configuration, load_configuration
from dayfly.server.keys import Key, Keys
from dayfly.server.logs import start_logging
from dayfly.server.paused import PausedRecords
from dayfly.server.places import Places
from dayfly.server.readiness import Readiness
from dayfly.server.retention import retire_daily
from dayfly.server.services import Services
from dayfly.server.serving import Listener, serve

__all__ = [
    "Configuration",
    "Key",
    "Keys",
    "Listener",
    "PausedRecords",
    "Places",
    "Readiness",
    "Services",
    "back_up",
    "create_app",
    "load_configuration",
    "retire_daily",
    "serve",
    "start_logging",
]
