"""Runs cells of Python in one namespace: top-level await, the last expression's value, source lines for tracebacks."""

from __future__ import annotations
import __future__

import _ast

from dayfly.agent.kernels import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine
    from types import CodeType

COROUTINE = 0x80  # inspect.CO_COROUTINE, whose module costs 10 ms inside gVisor
FUTURES = __future__.annotations.compiler_flag | __future__.barry_as_FLUFL.compiler_flag


class Cell:
    """One parsed cell: its statements, its last expression if it ends with one, and whether that is to be shown."""

    __slots__ = ("body", "expression", "name", "quiet", "source")

    def __init__(self, tree: _ast.Module, source: str, name: str) -> None:
        self.body = tree
        self.source = source
        self.name = name
        self.expression: _ast.Expression | None = None
        self.quiet = False
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = tree.body.pop()
            assert isinstance(last, _ast.Expr)
            self.expression = _ast.Expression(last.value)
            self.quiet = ";" in source and _ends_with_semicolon(source, last)


def _ends_with_semicolon(source: str, last: _ast.Expr) -> bool:
    """Whether a semicolon follows the last expression: a notebook's way of saying that its value is of no interest."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    rest = lines[(last.end_lineno or 1) - 1].encode("utf-8", "surrogatepass")[last.end_col_offset or 0 :]
    return rest.lstrip().startswith(b";")


class Executor:
    """``show`` gets the value of a last expression that is not ``None``. Everything raised is the user code's own."""

    def __init__(self, namespace: dict[str, object], show: Callable[[object], None]) -> None:
        self.namespace = namespace
        self._show = show
        self._flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._loop: AbstractEventLoop | None = None
        self._last: object = None

    def parse(self, source: str, name: str) -> Cell:
        """Raises ``SyntaxError`` and whatever else the parser does."""
        sources.remember(name, source)
        return Cell(self._compile(source, name, _ast.PyCF_ONLY_AST), source, name)  # type: ignore[arg-type]

    def run(self, cell: Cell) -> None:
        """Run the statements, then the last expression, and show its value."""
        if cell.body.body:
            self._evaluate(self._code(cell.body, cell.name, "exec"))
        if cell.expression is not None:
            value = self._evaluate(self._code(cell.expression, cell.name, "eval"))
            if value is not None and not cell.quiet:
                self._keep(value)
                self._show(value)

    def _compile(self, source: object, name: str, flags: int = 0, mode: str = "exec") -> object:
        return compile(source, name, mode, self._flags | flags, True)  # type: ignore[call-overload]

    def _code(self, tree: _ast.Module | _ast.Expression, name: str, mode: str) -> CodeType:
        code: CodeType = self._compile(tree, name, 0, mode)  # type: ignore[assignment]
        self._flags |= code.co_flags & FUTURES  # a __future__ import holds for the cells that follow
        return code

    def _evaluate(self, code: CodeType) -> object:
        value = eval(code, self.namespace)
        return self._drive(value) if code.co_flags & COROUTINE else value

    def _drive(self, coroutine: Coroutine[object, object, object]) -> object:
        """Run a cell that awaits, on one loop for all cells, so that what one made (a session, a lock) serves the next."""
        import asyncio  # 114 ms inside gVisor

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted: else it would go on with the next cell that awaits
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task], timeout=1))
            raise

    def _keep(self, value: object) -> None:
        """``_`` is the last value shown, unless the user has a ``_`` of their own."""
        if self.namespace.get("_", self._last) is self._last:
            self.namespace["_"] = self._last = value
