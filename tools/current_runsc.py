"""Builds runsc from gVisor's current source with the Go toolchain of this machine, and prints where it is.

In a data directory of its own, so that this user's sandboxes stay with the runsc that they have.
"""

from __future__ import annotations

import sys

from dayfly.errors import DayflyError
from dayfly.obtain import from_go
from dayfly.paths import Paths, default_paths

places = default_paths()
try:
    sys.stdout.write(f"{from_go(Paths(places.data / 'current', places.run)).path}\n")
except DayflyError as error:
    sys.exit(str(error))
