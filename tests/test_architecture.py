"""The house and its walls. Directories are trust zones; this table is the law of who may know whom, and the test keeps it.

Imports are counted wherever they stand: at the top, in a function, for type checkers only, relative or absolute. A zone
may always import itself. ``lazily`` lists what may be imported inside of functions (or for types) only.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
EVERYTHING = "*"


@dataclass(frozen=True)
class Zone:
    imports: str  # zones, or packages of zones
    why: str
    lazily: str = ""
    third_party: str = ""


NOUNS = "errors limits names hosts urls shared_hosts network policy denial owner saved spec"
BOUNDARY_PARTS = (
    "boundaries.base boundaries.snapshot boundaries.forks boundaries.pipes boundaries.processes boundaries.stderr "
    "boundaries.life"
)

ZONES = {
    # nouns that cross layers
    "errors": Zone("", "everybody raises them, so they know nobody"),
    "limits": Zone("errors", "a noun", third_party="pydantic"),
    "names": Zone("errors", "a rule for nouns"),
    "hosts": Zone("errors", "a rule for nouns", third_party="idna"),
    "shared_hosts": Zone("", "what is known of hosts, for nouns", third_party="publicsuffixlist"),
    "urls": Zone("", "a rule for nouns"),
    "network": Zone("errors limits hosts urls shared_hosts", "a noun", third_party="pydantic packaging"),
    "policy": Zone("errors limits network", "a noun", third_party="pydantic"),
    "denial": Zone("", "a noun"),
    "owner": Zone("", "a noun"),
    "saved": Zone("", "a noun"),
    "spec": Zone("errors limits policy denial", "a noun"),
    "paths": Zone("errors", "where things are kept on this machine"),
    "secrets": Zone(
        "errors limits names network owner paths", "values by name, for the gateway only", third_party="pydantic"
    ),
    "secrets.ring_child": Zone("", "asks the keyring, and can be killed", third_party="keyring"),
    # the protocol, and what runs inside
    "wire": Zone("", "both sides share it: standard library, no I/O"),
    "agent": Zone("wire", "runs INSIDE: nothing of the host may be shipped with it", lazily="agent.kernels.ipython"),
    "agent.kernels.ipython": Zone("agent", "uses the image's IPython", third_party="IPython"),
    "agent_pyc": Zone("", "run by another interpreter, as one file"),
    "agent_bundle": Zone("agent_pyc spec errors paths", "packs the agent; reads its files, never imports them"),
    # boundaries carry bytes; they know no protocol, and no other boundary
    "boundaries": Zone("", "only a package"),
    "boundaries.base": Zone("spec errors boundaries.snapshot", "the contract"),
    "boundaries.snapshot": Zone("errors", "a noun of the contract"),
    "boundaries.forks": Zone("", "a part that boundaries share"),
    "boundaries.pipes": Zone("boundaries.forks", "a part"),
    "boundaries.processes": Zone("boundaries.forks", "a part"),
    "boundaries.stderr": Zone("boundaries.forks", "a part"),
    "boundaries.life": Zone("spec errors boundaries.base boundaries.pipes boundaries.processes", "a part"),
    "boundaries.fake": Zone(f"{NOUNS} {BOUNDARY_PARTS}", "a boundary"),
    "boundaries.gvisor": Zone(f"{NOUNS} runtime paths {BOUNDARY_PARTS}", "a boundary"),
    # what a machine needs to have
    "images": Zone("spec limits errors paths", "a sandbox only through the manager", third_party="pydantic packaging"),
    "images.inside": Zone("", "runs INSIDE, once, when an image is built"),
    "indexes": Zone("errors hosts network images.pip tool_settings", "asks this machine's pip and npm"),
    "tool_settings": Zone("", "reads what package tools are set to"),
    "locks": Zone("errors", "reads lock files, where a policy is written", third_party="packaging"),
    "runtime": Zone("errors paths", "finds a runsc"),
    "obtain": Zone("errors limits paths runtime images", "gets a runsc"),
    "doctor": Zone(
        f"{NOUNS} paths runtime images boundaries.base", "asks boundaries, does not know them", third_party="packaging"
    ),
    # the gateway: a process of its own, which knows no sandbox
    "egress": Zone("", "only a package: each of its parts has a line of its own"),
    "egress.verdict": Zone("", "a noun"),
    "egress.rules": Zone("network hosts egress.verdict", "pure: what rules say of a connection"),
    "egress.addresses": Zone("network", "pure: what is dialled for nobody"),
    "egress.terms": Zone("limits network", "a noun", third_party="pydantic"),
    # the gateway's process: it knows neither sandboxes nor the manager
    "egress.packets": Zone("", "what the two sides say to each other"),
    "egress.confine": Zone("", "a part: what the process gives up"),
    "egress.interfaces": Zone("", "a part"),
    "egress.resolving": Zone("", "a part"),
    "egress.dialling": Zone("egress.addresses egress.interfaces egress.resolving egress.verdict", "a part"),
    "egress.hello": Zone("", "a part: OpenSSL reads"),
    "egress.openings": Zone(
        "egress.hello egress.http.heads egress.http.messages egress.verdict", "a part", third_party="h11"
    ),
    "egress.meter": Zone("", "a part"),
    "egress.labels": Zone("", "a part"),
    "egress.unless": Zone("", "a part"),
    "egress.relay": Zone("egress.meter", "a part"),
    "egress.guests": Zone(
        "network egress.labels egress.meter egress.resolving egress.rules egress.terms egress.verdict",
        "one sandbox, as rules",
        lazily="egress.certificates",
    ),
    "egress.authority": Zone("errors limits egress.terms", "made by the manager", third_party="cryptography"),
    "egress.certificates": Zone("egress.authority egress.terms", "a part", third_party="cryptography"),
    "egress.http": Zone("", "only a package: each of its parts has a line of its own"),
    "egress.http.heads": Zone("hosts urls egress.http.messages egress.verdict", "pure", third_party="h11"),
    "egress.http.stream": Zone("egress.meter", "a part"),
    "egress.http.serving": Zone(
        "egress.http.heads egress.http.messages egress.http.stream egress.dialling egress.verdict",
        "a part",
        third_party="h11",
    ),
    "egress.http.upstream": Zone(
        "egress.http.heads egress.http.messages egress.http.stream egress.dialling egress.resolving",
        "a part",
        third_party="h11",
    ),
    "egress.services": Zone("", "only a package: each of its parts has a line of its own"),
    "egress.services.judgement": Zone(
        "urls network egress.http.messages egress.verdict", "pure: what a rule says of a request"
    ),
    "egress.services.credentials": Zone(
        "network egress.http.messages egress.services.judgement", "pure: a request with its secret"
    ),
    "egress.services.spelling": Zone("", "pure: how servers spell a text"),
    "egress.services.redaction": Zone(
        "network egress.http.messages egress.services.spelling", "pure: answers without it"
    ),
    "egress.services.requests": Zone(
        "network egress.http.messages egress.services.credentials egress.services.judgement egress.services.redaction "
        "egress.terms egress.verdict",
        "serves host rules",
        third_party="pydantic",
    ),
    "egress.services.objects": Zone(
        "network egress.dialling egress.http.messages egress.terms egress.verdict", "a service", third_party="botocore"
    ),
    "egress.services.choice": Zone(
        "network egress.http.messages egress.services egress.terms egress.verdict", "which service a rule has"
    ),
    "egress.services.packages": Zone(
        "limits hosts urls network egress.dialling egress.http.messages egress.terms egress.verdict",
        "answers requests for packages",
        third_party="packaging",
    ),
    "egress.served": Zone(
        "egress.http egress.services.choice egress.dialling egress.guests egress.verdict",
        "a connection that is answered here",
    ),
    "egress.http.messages": Zone("egress.verdict", "nouns"),
    "egress.passage": Zone(
        "egress.addresses egress.dialling egress.guests egress.http egress.openings egress.relay egress.served egress.unless "
        "egress.verdict",
        "one connection",
    ),
    "egress.gateway": Zone(
        "errors limits egress.dialling egress.guests egress.packets egress.passage egress.resolving egress.terms",
        "hears the manager",
    ),
    "egress.__main__": Zone(
        "hosts egress.certificates egress.confine egress.gateway egress.services.objects.signing",
        "python -m dayfly.egress",
    ),
    # the manager's side of it
    "egress.process": Zone("boundaries.forks boundaries.processes boundaries.stderr egress.packets", "starts it"),
    "egress.tunnel": Zone("boundaries.forks boundaries.pipes egress.verdict", "a connection, as bytes"),
    "egress.denials": Zone("egress.verdict", "a part"),
    "egress.heard": Zone("hosts egress.packets egress.tunnel egress.verdict", "a part: what is believed"),
    "egress.client": Zone(
        "errors network boundaries.forks egress.denials egress.heard egress.packets egress.process egress.terms egress.tunnel egress.verdict",
        "asks it, and believes as little as possible",
    ),
    # what a policy copies: this host's own requests to it
    "bucket": Zone(
        "errors network egress.services.objects.documents egress.services.objects.keys",
        "speaks S3 over a connection that it is given",
        third_party="h11",
    ),
    # lives
    "journal": Zone("spec errors names", "what happened; knows nobody who makes it happen", third_party="cryptography"),
    "sandbox": Zone(
        f"{NOUNS} wire boundaries.base boundaries.snapshot egress.client egress.verdict",
        "one life over one cell, never over a concrete boundary",
    ),
    "manager": Zone(
        f"{NOUNS} sandbox boundaries bucket images indexes secrets agent_bundle paths egress.authority egress.client "
        "egress.denials egress.terms egress.verdict",
        "many lives",
        third_party="cryptography",
    ),
    "server": Zone(
        f"{NOUNS} paths journal manager",
        "HTTP over the manager, which decides",
        third_party="fastapi uvicorn pydantic prometheus_client",
    ),
    # doors
    "client": Zone(NOUNS, "importable on any system", lazily="manager", third_party="aiohttp websockets yarl"),
    "dayfly": Zone("", "the public names, loaded when first used", lazily=f"{NOUNS} client"),
    # the proof: it attacks sandboxes as whoever holds one, and looks at the host
    "prove": Zone(
        f"{NOUNS} client journal prove.internet prove.services prove.world",
        "attacks what a caller holds; judges outside",
        third_party="pydantic",
    ),
    "prove.world": Zone(
        "errors egress.client network prove.internet prove.marks prove.probe prove.services", "a gateway's surroundings"
    ),
    "prove.services": Zone("network prove.marks", "what rules lend, and who asks there"),
    "prove.internet": Zone("", "namespaces, and a name server in them"),
    "prove.inside": Zone("", "runs INSIDE: standard library"),
    "prove.targets": Zone("errors images prove runtime dayfly", "other people's sandboxes; judges in a box or here"),
    "prove.targets.boxed": Zone("", "makes a box from inside: standard library"),
    "prove.targets.shims": Zone(
        "",
        "runs by a Python that has somebody's library",
        third_party="gvisor e2b_code_interpreter smolagents",
    ),
    "testing": Zone(EVERYTHING, "anything it tests"),
    "cli": Zone(EVERYTHING, "the composition root", third_party="typer rich"),
    "__main__": Zone("cli", "python -m dayfly"),
}

PORTABLE = (
    "dayfly",
    "errors",
    "limits",
    "names",
    "hosts",
    "shared_hosts",
    "urls",
    "network",
    "policy",
    "denial",
    "owner",
    "saved",
    "spec",
    "client",
)
"""Zones that must be importable where there is no Linux: a client of a server elsewhere."""

LINUX_ONLY = frozenset(
    [
        "crypt",
        "fcntl",
        "grp",
        "nis",
        "ossaudiodev",
        "posix",
        "pty",
        "pwd",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    ]
)

INSIDE = ("wire", "agent", "agent_pyc", "images.inside", "prove.inside", "testing.echo_agent")
"""What runs on the image's Python: 3.9 or newer, and nothing but its standard library."""

NOT_IN_EVERY_PYTHON = frozenset(
    [
        "tomllib",
        "asynchat",
        "asyncore",
        "distutils",
        "imp",
        "smtpd",
        "aifc",
        "audioop",
        "cgi",
        "cgitb",
        "chunk",
        "crypt",
        "imghdr",
        "mailcap",
        "msilib",
        "nis",
        "nntplib",
        "ossaudiodev",
        "pipes",
        "sndhdr",
        "spwd",
        "sunau",
        "telnetlib",
        "uu",
        "xdrlib",
        "lib2to3",
        "compression",
        "annotationlib",
    ]
)
"""Standard modules that came after 3.9 or went before 3.14."""

WIRE_IMPORTS = frozenset({"__future__", "_collections", "_json", "_struct"})
"""All that ``wire`` imports when it is loaded: the agent cannot answer before that, and inside gVisor imports are slow."""

MAX_LINES = 450
LONG_FILES: dict[str, str] = {}
"""Files that may be longer, with the reason."""

DYNAMIC = {
    "dayfly.prove.inside.run": "attempts, by the names that probes give",
    "dayfly": "loads public names when first used; tests/client holds its table",
    "dayfly.cli.commands": "loads a command when it is named; tests/cli holds its table",
    "dayfly.agent.core": "loads a part of the agent when first asked for",
    "dayfly.testing.hold_cell": "is told on its command line which subject to hold",
}
"""Modules that may import by a computed name, with the reason."""


@dataclass(frozen=True)
class Import:
    module: str  # who imports
    file: Path
    line: int
    target: str  # what: a module
    when: str  # "at import", "lazily" or "for types"

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.module} imports {self.target} {self.when}"


@dataclass
class _Collector(ast.NodeVisitor):
    module: str
    file: Path
    is_package: bool
    found: list[Import] = field(default_factory=list)
    when: str = "at import"

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._within("lazily", node)

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815 - ast's names

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.generic_visit(node)
            return
        for child in node.body:
            self._within("for types", child, visit=True)
        for child in node.orelse:
            self.visit(child)

    def _within(self, when: str, node: ast.AST, visit: bool = False) -> None:
        before, self.when = self.when, when
        self.visit(node) if visit else self.generic_visit(node)
        self.when = before

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            package = self.module.split(".") if self.is_package else self.module.split(".")[:-1]
            base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            self._add(node.lineno, inner if inner in modules() else base)

    def _add(self, line: int, target: str) -> None:
        self.found.append(Import(self.module, self.file, line, target, self.when))


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for file in sorted((SOURCE / "dayfly").rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


@cache
def imports() -> tuple[Import, ...]:
    found: list[Import] = []
    for module, file in modules().items():
        collector = _Collector(module, file, file.name == "__init__.py")
        collector.visit(tree(file))
        found += collector.found
    return tuple(found)


def zone_of(module: str) -> str:
    """The most specific zone that ``module`` lies in."""
    name = module.removeprefix("dayfly.")
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in ZONES:
            return ".".join(parts[:length])
    raise LookupError(f"{module} lies in no zone: give it a line in ZONES")


def covers(listed: str, target: str) -> bool:
    """Whether a list of zones and packages names ``target``, a module."""
    name = target.removeprefix("dayfly.")
    return any(one == EVERYTHING or name == one or name.startswith(f"{one}.") for one in listed.split())


def is_ours(target: str) -> bool:
    return target.partition(".")[0] == "dayfly"


def broken(rule: str, found: Iterator[Import]) -> None:
    """Fail with every place where ``rule`` is broken."""
    places = [str(one) for one in found]
    if places:
        pytest.fail(f"{rule}\n  " + "\n  ".join(places), pytrace=False)


def test_every_module_lies_in_a_zone() -> None:
    for module in modules():
        zone_of(module)


@pytest.mark.parametrize("name", ZONES)
def test_a_zone_imports_what_its_line_lists(name: str) -> None:
    zone = ZONES[name]
    broken(
        f"{name} ({zone.why}) may import: {zone.imports or 'nothing of dayfly'}"
        + (f"; lazily: {zone.lazily}" if zone.lazily else ""),
        (
            one
            for one in imports()
            if zone_of(one.module) == name and is_ours(one.target) and zone_of(one.target) != name
            if not covers(zone.imports, one.target)
            if one.when == "at import" or not covers(zone.lazily, one.target)
        ),
    )


NOT_COUNTED = frozenset(NOUNS.split()) | {EVERYTHING}
"""Nouns are listed together, and whoever has them may have all."""


@pytest.mark.parametrize("name", ZONES)
def test_a_zone_lists_nothing_that_it_does_not_use(name: str) -> None:
    zone = ZONES[name]
    used = [one.target for one in imports() if zone_of(one.module) == name]
    listed = {*zone.imports.split(), *zone.lazily.split()} - NOT_COUNTED
    assert {one for one in listed if not any(covers(one, target) for target in used)} == set()
    assert set(zone.third_party.split()) <= {target.partition(".")[0] for target in used}


@pytest.mark.parametrize("name", ZONES)
def test_a_zone_uses_the_third_parties_that_its_line_lists(name: str) -> None:
    listed = ZONES[name].third_party
    broken(
        f"{name} may use: {listed or 'the standard library only'}",
        (
            one
            for one in imports()
            if zone_of(one.module) == name and not is_ours(one.target)
            if one.target.partition(".")[0] not in {*sys.stdlib_module_names, *listed.split()}
        ),
    )


def test_third_parties_are_declared_by_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {line.split(">")[0].split("<")[0].split("=")[0].strip().lower().replace("-", "_") for line in lines}
    used = {name for zone in ZONES.values() for name in zone.third_party.split()} - {"IPython"}  # that is the image's
    used -= set(ZONES["prove.targets.shims"].third_party.split())  # of another Python than dayfly's
    assert used <= declared, f"used and not declared in pyproject.toml: {used - declared}"


def test_the_table_itself_has_no_cycle() -> None:
    """So a cycle between zones cannot come about lazily either."""
    edges = {
        name: [other for other in ZONES if other != name and covers(zone.imports, other) and zone.imports != EVERYTHING]
        for name, zone in ZONES.items()
    }
    _refuse_cycles(edges)


def test_no_module_imports_itself_in_a_circle() -> None:
    edges: dict[str, list[str]] = {module: [] for module in modules()}
    for one in imports():
        if one.when == "at import" and is_ours(one.target):
            edges[one.module].append(one.target)
    _refuse_cycles(edges)


def _refuse_cycles(edges: dict[str, list[str]]) -> None:
    done: set[str] = set()

    def walk(node: str, path: tuple[str, ...]) -> None:
        if node in path:
            pytest.fail("a circle of imports: " + " -> ".join([*path[path.index(node) :], node]), pytrace=False)
        if node not in done:
            for other in edges.get(node, []):
                if other != node:
                    walk(other, (*path, node))
            done.add(node)

    for node in edges:
        walk(node, ())


@pytest.mark.parametrize("name", PORTABLE)
def test_what_any_system_may_import_needs_no_linux(name: str) -> None:
    broken(
        f"{name} is importable on any system: {', '.join(sorted(LINUX_ONLY))} only inside of functions",
        (
            one
            for one in imports()
            if zone_of(one.module) == name and one.when == "at import" and one.target.partition(".")[0] in LINUX_ONLY
        ),
    )


def test_what_runs_inside_uses_only_modules_that_every_python_has() -> None:
    broken(
        "inside there is the image's Python, 3.9 or newer",
        (
            one
            for one in imports()
            if covers(" ".join(INSIDE), one.module) and one.target.partition(".")[0] in NOT_IN_EVERY_PYTHON
        ),
    )


def test_the_wire_imports_only_the_cheapest_parts_of_the_library() -> None:
    broken(
        f"when it is loaded, wire imports {', '.join(sorted(WIRE_IMPORTS))} and itself",
        (
            one
            for one in imports()
            if zone_of(one.module) == "wire" and one.when == "at import"
            if not is_ours(one.target) and one.target not in WIRE_IMPORTS
        ),
    )


def inside() -> list[str]:
    return [module for module in modules() if covers(" ".join(INSIDE), module)]


@pytest.mark.parametrize("module", inside())
def test_what_runs_inside_is_written_for_python_3_9(module: str) -> None:
    file = modules()[module]
    text = file.read_text("utf-8")
    ast.parse(text, str(file), feature_version=(3, 9))  # match, except*, type parameters, type statements
    places = [f"{file.relative_to(ROOT)}:{line}: {what}" for line, what in _newer_than_3_9(tree(file))]
    assert not places, "inside there may be Python 3.9:\n  " + "\n  ".join(places)


NEWER_ARGUMENTS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only")}
NEWER_NAMES = frozenset({"aiter", "anext", "pairwise", "ExceptionGroup", "BaseExceptionGroup", "bit_count", "StrEnum"})


def _newer_than_3_9(module: ast.Module) -> Iterator[tuple[int, str]]:
    annotated = any(isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation for node in ast.walk(module))
    futures = {
        a.name for n in module.body if isinstance(n, ast.ImportFrom) and n.module == "__future__" for a in n.names
    }
    if annotated and "annotations" not in futures:
        yield 1, "annotations are evaluated without `from __future__ import annotations`"
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for keyword in node.keywords:
                if (name, keyword.arg) in NEWER_ARGUMENTS:
                    yield node.lineno, f"{name}({keyword.arg}=) is newer"
            if name in ("isinstance", "issubclass") and any(isinstance(arg, ast.BinOp) for arg in node.args[1:]):
                yield node.lineno, f"{name}() with a union is newer"
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in NEWER_NAMES:
            yield node.lineno, f"{name} is newer"


def test_imports_by_a_computed_name_are_known() -> None:
    found = {}
    for module, file in modules().items():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
                found.setdefault(module, f"{file.relative_to(ROOT)}:{node.lineno}")
    unknown = [place for module, place in found.items() if module not in DYNAMIC]
    assert not unknown, f"an import that this test cannot see through: {unknown}"
    assert set(DYNAMIC) <= set(found), "DYNAMIC lists what is not there any more"


def test_a_file_is_short_enough_to_be_read() -> None:
    lengths = {
        str(file.relative_to(SOURCE / "dayfly")): len(file.read_text("utf-8").splitlines())
        for file in modules().values()
    }
    long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
    assert set(long) <= set(LONG_FILES), f"over {MAX_LINES} lines: split it, or list it with the reason: {long}"
    assert set(LONG_FILES) <= set(long), "LONG_FILES lists what is short by now"


def test_the_collector_sees_imports_wherever_they_stand() -> None:
    text = """
import fcntl
from . import policy
from .wire import frames as f, nothing
if TYPE_CHECKING:
    import grp
else:
    import pwd
def later():
    from dayfly.manager import Manager
    class Inner:
        import resource
try:
    import tty
except ImportError:
    pass
"""
    collector = _Collector("dayfly.client", Path("x"), is_package=False)
    collector.visit(ast.parse(text))
    assert [(one.target, one.when) for one in collector.found] == [
        ("fcntl", "at import"),
        ("dayfly.policy", "at import"),
        ("dayfly.wire.frames", "at import"),
        ("dayfly.wire", "at import"),
        ("grp", "for types"),
        ("pwd", "at import"),
        ("dayfly.manager", "lazily"),
        ("resource", "lazily"),
        ("tty", "at import"),
    ]


def test_a_circle_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="b -> c -> b"):
        _refuse_cycles({"a": ["b"], "b": ["c"], "c": ["b"]})


def test_newer_python_is_found() -> None:
    text = "x: int = 1\nzip(a, b, strict=True)\nisinstance(a, int | str)\nn.bit_count()"
    assert [line for line, _ in _newer_than_3_9(ast.parse(text))] == [1, 2, 3, 4]
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass", feature_version=(3, 9))
