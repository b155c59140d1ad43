"""One attempt as the text of one Python program: what a target is given. It prints one line of JSON, and needs no file and no argument."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dayfly.prove.targets.running import Output

__all__ = ["attempt", "challenge", "row_in", "sign_of_life"]

_HOME = Path(__file__).parents[1] / "inside"

_PROGRAM = """
import base64, importlib.abc, importlib.util, json, sys
TEXTS = json.loads(base64.b64decode({texts!r}))

class Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in TEXTS else None

    def exec_module(self, module):
        exec(TEXTS[module.__name__], module.__dict__)

sys.meta_path.insert(0, Modules())
import run
print(json.dumps(run.apart(json.loads(base64.b64decode({asked!r})))), flush=True)
"""

_CHALLENGE = """
import hashlib
print('{"answer": "' + hashlib.sha256(%r).hexdigest() + '"}', flush=True)
"""


def attempt(name: str, arguments: Mapping[str, Any], seconds: float) -> bytes:
    """``name``: ``module.function`` of ``prove.inside``. What it is asked is in base64: a message that shows the program tells no mark."""
    texts = {one: (_HOME / f"{one}.py").read_text("utf-8") for one in ("run", name.split(".")[0])}
    asked = {"attempt": name, "arguments": dict(arguments), "seconds": seconds}
    return _PROGRAM.format(texts=_packed(texts), asked=_packed(asked)).encode()


def challenge(word: str) -> bytes:
    """A question that nobody could foresee."""
    return (_CHALLENGE % word.encode()).encode()


def sign_of_life(output: Output, word: str) -> str:
    """Why it is none; empty: it is one."""
    said = row_in(output)
    if isinstance(said, dict) and said.get("answer") == hashlib.sha256(word.encode()).hexdigest():
        return ""
    return f"it cannot run a program that answers: {output.why or output.last_line() or 'it said nothing'}"


def row_in(output: Output) -> object:
    """The last line of its output, as JSON; ``None``: it is none."""
    lines = [line for line in output.stdout.splitlines() if line.strip()]
    try:
        return json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        return None


def _packed(value: Mapping[str, Any]) -> str:
    return b64encode(json.dumps(value).encode()).decode()
