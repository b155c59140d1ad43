"""A value that must never be seen, and a look at everything in which it could be."""

from __future__ import annotations

import base64
import traceback
from urllib.parse import quote

CANARY = "sk-canary/9f3+a7b2=c4e1&d6f8"
SPELLINGS = (
    CANARY,
    CANARY[3:18],
    quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode().rstrip("="),
    repr(CANARY)[1:-1],
)


def seen_in(text: str) -> bool:
    return any(one in text for one in SPELLINGS)


def told(error: BaseException) -> str:
    """All that a logger or a service for crash reports could make of it: causes, contexts, locals, attributes."""
    found, queue = [], [error]
    while queue and (one := queue.pop()):
        shown = traceback.TracebackException.from_exception(one, capture_locals=True)
        found += [*shown.format(), repr(one), str(one), repr(one.args), repr(vars(one))]
        queue += [other for other in (one.__cause__, one.__context__) if other is not None]
    ours = [text for text in found if "def test_" not in text]
    return "\n".join(ours)
