"""Which branches of some modules an input takes, and how often: their functions are compiled once more, with a counter at every branch.

Law: what an instrumented function does is what it did before. Functions keep their identity, whoever holds them: only their code
is another one, and their own again when it is over. A counter costs some 50 ns, a tracing hook ten times as much on Python 3.11.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

__all__ = ["Coverage", "constants", "covered"]

_COUNTS = "__fuzz_counts__"
"""The global under which a module has the counters. No name of a class's own: those are changed by the compiler."""

_BUCKETS = (1, 2, 3, 4, 8, 16, 32, 128)
"""How often a branch was taken counts as so many different things: once is not twice, and 40 times is as good as 50."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)

Key = tuple[str, int]


class Coverage:
    """``features`` are what has been taken since ``clear``: branches, each with how often, about."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    def new(self) -> int:
        """The number of one more branch."""
        self._counts.append(0)
        return len(self._counts) - 1

    @property
    def counts(self) -> list[int]:
        return self._counts

    @property
    def branches(self) -> int:
        """How many there are."""
        return len(self._counts)

    def clear(self) -> None:
        self._counts[:] = [0] * len(self._counts)

    def features(self) -> set[tuple[int, int]]:
        return {(number, _bucket(count)) for number, count in enumerate(self._counts) if count}


def _bucket(count: int) -> int:
    return sum(count >= least for least in _BUCKETS)


class _Counting(ast.NodeTransformer):
    """Puts a counter at the beginning of each function and of each way that a statement or expression can go."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._inside = 0  # of functions: what runs when a module is loaded has been run

    def _increment(self) -> ast.expr:
        """An expression that counts and is false."""
        number = self._coverage.new()
        return ast.parse(f"{_COUNTS}.__setitem__({number}, {_COUNTS}[{number}] + 1)", mode="eval").body

    def _counted(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [ast.Expr(self._increment()), *body]

    def _noted(self, value: ast.expr) -> ast.expr:
        return ast.BoolOp(ast.Or(), [self._increment(), value])

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._inside += 1
        node.body = [self.visit(one) for one in node.body]
        self._inside -= 1
        node.body = self._counted(node.body)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - ast's names

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._inside += 1
        node.body = self._noted(self.visit(node.body))
        self._inside -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if not self._inside:
            return node
        if isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While):
            node.body, node.orelse = self._counted(node.body), self._counted(node.orelse)
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            node.body = self._counted(node.body)
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = self._noted(node.body), self._noted(node.orelse)
        elif isinstance(node, ast.BoolOp):
            node.values[1:] = [self._noted(value) for value in node.values[1:]]
        elif isinstance(node, _COMPREHENSIONS):
            node.elt = self._noted(node.elt)
        return node


@contextmanager
def covered(modules: Iterable[ModuleType]) -> Iterator[Coverage]:
    """Their functions count until the end of the block. One block at a time may have a module."""
    coverage = Coverage()
    changed: list[tuple[FunctionType, CodeType]] = []
    try:
        for module in modules:
            changed += _instrument(module, coverage)
        yield coverage
    finally:
        for function, code in changed:
            function.__code__ = code


def _instrument(module: ModuleType, coverage: Coverage) -> list[tuple[FunctionType, CodeType]]:
    path = str(module.__file__)
    tree = _Counting(coverage).visit(ast.parse(Path(path).read_text("utf-8"), path))
    codes = _codes(compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True))
    module.__dict__[_COUNTS] = coverage.counts
    changed = []
    for function in _functions(module):
        code = codes.get(_key(function.__code__))
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            changed.append((function, function.__code__))
            function.__code__ = code
    return changed


def _functions(module: ModuleType) -> list[FunctionType]:
    own = module.__dict__
    return [one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__globals__ is own]


def _codes(root: CodeType) -> dict[Key, CodeType]:
    """Of all functions, wherever they are defined. Two lambdas of one line are told apart by nothing, and left alone."""
    found: dict[Key, CodeType | None] = {}
    waiting = [root]
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
        found[_key(code)] = None if _key(code) in found else code
    return {key: code for key, code in found.items() if code is not None}


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def constants(modules: Iterable[ModuleType]) -> tuple[bytes, ...]:
    """What the modules compare with, as an input might have it: the words of a mutation."""
    found: set[bytes] = set()
    for module in modules:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
            if isinstance(node, ast.Constant):
                found.update(_spellings(node.value))
    return tuple(sorted(one for one in found if 0 < len(one) <= _LONGEST_WORD))


_LONGEST_WORD = 40


def _spellings(value: object) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode("utf-8", "replace")
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        yield str(value).encode()
        yield from (value.to_bytes(size, "big") for size in (1, 2, 3, 4, 8) if value < 1 << 8 * size)
