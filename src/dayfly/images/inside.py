"""Runs INSIDE a throw-away sandbox, once, when an image is built. Standard library only, Python 3.9 and newer.

Its source is sent there, followed by a call of ``collect``; what that prints is judged by ``dayfly.images.warm``.
"""

from __future__ import annotations

import base64
import json
import os

PLACES = (".cache", ".config")
FILE_CAP = 1 << 20  # of one file; a font list has 27 kB


def collect(code):  # type: (str) -> str
    """Run ``code``, which fills caches in the home, and return their files as one line of JSON."""
    exec(code, {"__name__": "__warm__"})  # noqa: S102  # the recipe's own line, in the sandbox
    home = os.path.expanduser("~")  # noqa: PTH111
    found = {}
    for place in PLACES:
        for directory, _, names in os.walk(os.path.join(home, place)):  # noqa: PTH118
            for name in names:
                path = os.path.join(directory, name)  # noqa: PTH118
                if os.path.isfile(path) and os.path.getsize(path) <= FILE_CAP:  # noqa: PTH113, PTH202
                    with open(path, "rb") as file:  # noqa: PTH123
                        found[os.path.relpath(path, home)] = base64.b64encode(file.read()).decode("ascii")
    return json.dumps(found)
