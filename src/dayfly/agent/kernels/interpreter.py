"""From a fork of the agent to an ordinary Python of the user's, as if it had been started for the purpose."""

from __future__ import annotations

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.abc import PathEntryFinder

NO_INPUT = "{} gets no answer here: nobody is at the keyboard. Put the value into the code."

PIP_DEFAULTS = {
    "PIP_RETRIES": "0",  # without a network, five retries with pauses look like a hang
    "PIP_DEFAULT_TIMEOUT": "15",
    "PIP_NO_INPUT": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",  # what is there already counts, what is not goes to the user's own directory
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def become_ordinary(environment: Mapping[str, str], home: str) -> None:
    """Leave nothing of the agent but what is in memory."""
    import gc

    gc.freeze()
    set_environment(environment)
    _go_home(home)
    sys.argv = [""]
    _undo_isolation()
    sys.path[0] = ""
    _add_packages(environment.get("PYTHONPATH", ""), home)
    builtins.input = _no_input


def main_namespace() -> dict[str, object]:
    """The names of a new, empty ``__main__``."""
    module = type(sys)("__main__")
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    return module.__dict__


def set_environment(environment: Mapping[str, str]) -> None:
    """What the kernel has chosen for itself (the figures' backend) stays unless ``environment`` says otherwise."""
    own = {"MPLBACKEND": os.environ["MPLBACKEND"]} if "MPLBACKEND" in os.environ else {}
    os.environ.clear()
    os.environ.update({**PIP_DEFAULTS, **own, **environment})


def change_environment(rows: list[tuple[str, str | None, str | None]]) -> None:
    """Each variable gets its new value if it has the one that is expected; see lent.py."""
    for name, before, after in rows:
        if os.environ.get(name) != before:
            continue
        if after is None:
            del os.environ[name]
        else:
            os.environ[name] = after


def hide_the_agent() -> None:
    """Its modules would shadow packages of the user's; what is loaded stays loaded. Nor does its finder serve any more."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "archive")]
    for name in [name for name in sys.modules if name == "dayfly" or name.startswith("dayfly.")]:
        del sys.modules[name]


def forbid_getpass(code: str) -> None:
    """Before a cell that speaks of it: the module costs 5 ms. (Unmended it fails as well, but does not say why.)"""
    if "getpass" in code:
        import getpass

        getpass.getpass = _no_getpass


def _go_home(home: str) -> None:
    try:
        os.chdir(home)
    except OSError:
        os.chdir("/")


def _undo_isolation() -> None:
    """The agent may have been started isolated (-I -S): a kernel is not, nor what it starts with the same flags."""
    if sys.flags.no_site:
        import site

        site.main()
    sys.flags = OrdinaryFlags(sys.flags)  # type: ignore[assignment]


class OrdinaryFlags:
    """``sys.flags`` as if none of the isolating ones had been given; ``multiprocessing`` hands them on."""

    def __init__(self, flags: object) -> None:
        for name in dir(flags):
            value = getattr(flags, name)
            if not name.startswith("_") and isinstance(value, int):
                setattr(self, name, value)
        for name in ("isolated", "ignore_environment", "no_user_site", "no_site", "safe_path"):
            if hasattr(self, name):
                setattr(self, name, type(getattr(self, name))(0))


def _add_packages(python_path: str, home: str) -> None:
    """What the isolation left out, and where ``pip install --user`` puts things (site looked for the agent's user)."""
    sys.path[1:1] = [entry for entry in python_path.split(":") if entry and entry not in sys.path]
    user = f"{home}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if user not in sys.path:
        at = next((i for i, entry in enumerate(sys.path) if entry.endswith("-packages")), len(sys.path))
        sys.path.insert(at, user)
    if user not in sys.path_importer_cache:
        sys.path_importer_cache[user] = _finder(user)


def _finder(directory: str) -> PathEntryFinder:
    """As Python makes them, also where there is no such directory yet: it would remember that for good, and what is installed
    later would not be found."""
    from importlib import machinery

    return machinery.FileFinder(
        directory,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


def _no_input(prompt: object = "") -> str:
    raise EOFError(NO_INPUT.format("input()"))


def _no_getpass(prompt: str = "Password: ", stream: object = None, **more: object) -> str:
    raise EOFError(NO_INPUT.format("getpass()"))
