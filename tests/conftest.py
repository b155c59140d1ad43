"""For all tests: what they write lies on disk, and a machine that is busy is no failure."""

from __future__ import annotations

import os
import signal
import tempfile

from hypothesis import settings

# Debian 13 keeps /tmp in memory, and there a sandbox's writable layer would count as the sandbox's memory.
if "TMPDIR" not in os.environ:
    tempfile.tempdir = "/var/tmp"

# A shell starts its background jobs with this ignored, and whatever they start inherits it: Control-C would do nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")
