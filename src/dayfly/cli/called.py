"""The name by which this command line was called: what it advises to type must work where it is read."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["command", "typeable"]

_ADVICE = re.compile(
    r"(?<![\w./-])(?<!-m )dayfly (?=(?:run|shell|setup|doctor|prove|images|serve|keys|secrets|identity|journal|ps|logs|backup|stop|pause|resume|usage|templates|--)(?![\w/]))"
)

_PIP = re.compile(r"(?<![\w./-])pip install 'dayfly\[")


def command() -> str:
    """``dayfly`` where a shell finds it, else the path that was typed (``python -m dayfly`` has no path)."""
    called = Path(sys.argv[0] if sys.argv else "")
    as_module = called.name == "__main__.py" and called.parent.name == "dayfly"
    if called.name != "dayfly" and not as_module:
        return "dayfly"  # a program of its own that uses this
    script = Path(sys.executable).parent / "dayfly" if as_module else called
    found = shutil.which("dayfly")
    if found is not None and script.exists() and Path(found).samefile(script):
        return "dayfly"
    return f"{shlex.quote(sys.orig_argv[0])} -m dayfly" if as_module else shlex.quote(sys.argv[0])


def typeable(text: str) -> str:
    """``text`` with every ``dayfly COMMAND`` in it as it can be typed here, and ``pip install`` of its extras."""
    called = command()
    return _PIP.sub(lambda _: f"{_pip(called)} install 'dayfly[", _ADVICE.sub(lambda _: f"{called} ", text))


def _pip(called: str) -> str:
    """The one of the environment that this runs in: another would install where nothing is found."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent.resolve() == Path(sys.executable).parent.resolve():
        return "pip"
    beside = Path(shlex.split(called)[0]).with_name("python")
    python = beside if "/" in called and beside.exists() else Path(sys.executable)
    return f"{shlex.quote(str(python))} -m pip"
