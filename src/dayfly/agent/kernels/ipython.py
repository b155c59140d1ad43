"""The Python kernel of an image with IPython: magics, rich results, figures.

IPython gives the transformations of cells, the magics and the formatters. Running cells, errors and results are dayfly's
own (``executor``, ``failure``, ``publisher``), for both kernels alike: faster, without colours, and without a history.
What IPython does at start and nobody here needs is overridden: a profile on disk, SQLite, completion (45 -> 11 ms).
"""

from __future__ import annotations

import builtins
import os
import sys

from dayfly.agent.kernels import failure, sources
from dayfly.agent.kernels.executor import Cell, Executor
from dayfly.agent.kernels.slim import without_logging_config

with without_logging_config():
    import IPython
    from IPython.core import application
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.history import HistoryAccessorBase
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.publisher import Publisher

NO_PIP = (
    "%pip ended with exit code {code}. A sandbox without a network can install nothing: packages come with the image "
    "(dayfly images build --from data --add NAME)."
)
INLINE = "module://matplotlib_inline.backend_inline"


class IPythonKernel:
    """Runs cells in ``namespace``. ``hidden`` are directories whose frames no traceback shows."""

    name = "ipython"
    hidden = (os.path.dirname(IPython.__file__),)

    def __init__(self, namespace: dict[str, object], publisher: Publisher) -> None:
        os.environ.setdefault("MPLBACKEND", INLINE)
        self._publisher = publisher
        self._executor = Executor(namespace, self._show)
        self._shell = Shell.instance(user_module=sys.modules["__main__"], colors="nocolor")
        self._shell.connect(publisher)
        self._shell.events.print_on_error = False
        for name in ("_", "__", "___"):
            namespace.pop(name, None)
        names = {"exit": sys.exit, "quit": sys.exit, "open": builtins.open}
        namespace.update(names)
        self._shell.user_ns_hidden.update(names)
        self._shell.builtin_trap.__enter__()  # for good: threads want ``get_ipython`` between the runs too
        self._shell.display_trap.__enter__()
        self._cleanups = len(self._shell.input_transformers_cleanup)
        self._callbacks = len(self._shell.events.callbacks["post_execute"])

    def run(self, source: str, number: int) -> None:
        """Run one cell. Raises what it raises."""
        shell = self._shell
        shell.execution_count = number
        shell.shown = None
        shell.events.trigger("pre_execute")
        if shell.events.callbacks["pre_run_cell"]:
            shell.events.trigger("pre_run_cell", CellInfo(source))
        self._executor.run(self._parse(source, f"<cell {number}>"))

    def finish(self) -> None:
        """After the cell, still part of the run: figures are drawn here. Raises what magics and callbacks only showed."""
        shell = self._shell
        if len(shell.events.callbacks["post_execute"]) != self._callbacks:  # figures, as a rule: they take their time
            self._publisher.flush()
        shell.events.trigger("post_execute")
        if shell.events.callbacks["post_run_cell"]:
            shell.events.trigger("post_run_cell", ExecutionResult(None))
        shown, shell.shown = shell.shown, None
        if shown is not None:
            raise shown

    def _parse(self, source: str, name: str) -> Cell:
        """As Python if it is Python, else as IPython's language: transforming costs ten times what parsing does."""
        if self._is_magic(source):
            return self._transformed(source, name)
        try:
            return self._executor.parse(source, name)
        except SyntaxError:
            pass  # not the context of what the transformed cell raises
        return self._transformed(source, name)

    def _is_magic(self, source: str) -> bool:
        """Whether IPython reads it otherwise although it is valid Python: ``ls``, or what extensions transform."""
        shell = self._shell
        if shell.input_transformers_post or len(shell.input_transformers_cleanup) != self._cleanups:
            return True
        if "\n" in source:
            return False
        words = source.split(None, 1)
        return bool(words) and words[0].isidentifier() and self._is_automagic(words[0])

    def _is_automagic(self, word: str) -> bool:
        if word in self._executor.namespace or hasattr(builtins, word) or not self._shell.automagic:
            return False
        return self._shell.find_line_magic(word) is not None

    def _transformed(self, source: str, name: str) -> Cell:
        cell = self._executor.parse(self._shell.transform_cell(source), name)
        sources.remember(name, source)
        for transformer in self._shell.ast_transformers:
            cell.body = transformer.visit(cell.body)
        return cell

    def _show(self, value: object) -> None:
        data, metadata = self._shell.display_formatter.format(value)
        if data:
            self._publisher.publish_last(data, metadata)


class CellInfo:
    """What callbacks are told before a cell runs."""

    def __init__(self, source: str) -> None:
        self.raw_cell = self.transformed_cell = source
        self.store_history = self.silent = False
        self.shell_futures = True
        self.cell_id = None


class Publishing(DisplayPublisher):  # type: ignore[misc]
    """Where ``display()`` sends things. An update of a display is another display."""

    def publish(self, data: object, metadata: object = None, *args: object, **kwargs: object) -> None:
        self.shell.publisher.publish(data, metadata, main=False)

    def clear_output(self, wait: bool = False) -> None:
        """What was sent is sent."""


class Hook(DisplayHook):  # type: ignore[misc]
    """For cells that run by ``get_ipython().run_cell``, as some magics do."""

    def __call__(self, result: object = None) -> None:
        if result is None:
            return
        self.fill_exec_result(result)
        data, metadata = self.compute_format_data(result)
        if data:
            self.shell.publisher.publish(data, metadata, main=True)


class Profile(application.ProfileDir):  # type: ignore[misc]
    """A profile directory that is not made before something is stored in it."""

    def _location_changed(self, change: object) -> None:
        pass

    def check_dirs(self) -> None:
        pass


class NoHistory(HistoryAccessorBase):  # type: ignore[misc]
    """Remembers nothing, in the shape that IPython expects."""

    enabled = False
    session_number = 0

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.reset()

    def reset(self, new_session: bool = True) -> None:
        self.input_hist_parsed, self.input_hist_raw = [""], [""]
        self.dir_hist = [os.getcwd()]
        self.output_hist: dict[int, object] = {}
        self.output_hist_reprs: dict[int, str] = {}
        self.exceptions: dict[int, object] = {}
        self.outputs = Nowhere()

    def store_inputs(self, *args: object, **kwargs: object) -> None:
        pass

    store_output = end_session = close = writeout_cache = store_inputs

    def get_tail(self, *args: object, **kwargs: object) -> list[object]:
        return []

    search = get_range = get_range_by_str = get_tail


class Nowhere(dict):  # type: ignore[type-arg]
    """A table whose every entry is a list that is thrown away."""

    def __missing__(self, key: object) -> list[object]:
        return []


class Shell(InteractiveShell):  # type: ignore[misc]
    """IPython's shell without a terminal, a history, a profile and completion. ``shown``: an error a magic only showed."""

    shown: BaseException | None
    publisher: Publisher
    display_pub_class = Publishing
    displayhook_class = Hook

    def connect(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.shown = None
        self.register_magic_function(self._pip, "line", "pip")

    def init_ipython_dir(self, ipython_dir: object) -> None:
        pass

    def init_profile_dir(self, profile_dir: object) -> None:
        self.profile_dir = Profile(location=os.path.expanduser("~/.ipython/profile_default"))

    def init_virtualenv(self) -> None:
        pass

    def init_history(self) -> None:
        self.history_manager = NoHistory(parent=self)

    def init_completer(self) -> None:
        self.Completer = None

    def init_payload(self) -> None:
        pass

    def enable_gui(self, gui: object = None) -> None:
        """There is no screen."""

    def ask_exit(self) -> None:
        """The kernel is the agent's to end."""

    def system(self, cmd: str) -> None:
        """``!cmd``: its output goes straight to this process's stdout, while it is produced."""
        import subprocess

        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        shell = os.environ.get("SHELL") or ("/bin/bash" if os.path.exists("/bin/bash") else None)
        code = subprocess.call(self.var_expand(cmd, depth=1), shell=True, executable=shell)
        self.user_ns["_exit_code"] = code
        if code and getattr(self, "system_raise_on_error", False):
            raise subprocess.CalledProcessError(code, cmd)

    system_piped = system_raw = system

    def showtraceback(self, exc_tuple: object = None, *args: object, **kwargs: object) -> None:
        """Magics show an error and go on: it is the run's error. A formatter's, given as a tuple, is only a message."""
        if isinstance(exc_tuple, tuple):
            print(failure.describe(exc_tuple[1], IPythonKernel.hidden)["traceback"], file=sys.stderr)
        else:
            self.shown = sys.exc_info()[1] or self.shown

    def showsyntaxerror(self, *args: object, **kwargs: object) -> None:
        self.showtraceback()

    def _pip(self, line: str) -> None:
        """Run pip for this interpreter."""
        import importlib
        import shlex

        self.system(f"{shlex.quote(sys.executable)} -m pip {line}")
        importlib.invalidate_caches()
        code = self.user_ns["_exit_code"]
        if code:
            print(NO_PIP.format(code=code), file=sys.stderr)
