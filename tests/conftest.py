"""For all tests: what they write lies on disk."""

from __future__ import annotations

import os
import tempfile

# Debian 13 keeps /tmp in memory, and there a sandbox's writable layer would count as the sandbox's memory.
if "TMPDIR" not in os.environ:
    tempfile.tempdir = "/var/tmp"
