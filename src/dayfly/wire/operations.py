"""What can be asked over a channel: one table of operations, with the shape of everything that may travel on each.

Every operation is one channel. The opener sends ``Open(op, params)``; then ``Event``s, ``Data`` and ``Eof`` go both ways as
listed; the acceptor ends it with ``Finish(value)`` or ``Fail(code, message)``. Paths are text in which undecodable
bytes are lone surrogates (PEP 383). Sizes are bytes, times seconds.

A shape maps a name to a type, or to a tuple of admissible types; ``None`` in the tuple makes the field optional. Unknown
fields are refused, so that both sides always agree on what was said.
"""

from __future__ import annotations

from dayfly.wire.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Streams of bytes on a channel.
STDIN = 0  # also: the content of a file or tar on its way in
STDOUT = 1  # also: the content of a file or tar on its way out
STDERR = 2
RESULTS = 3  # records of rich results: 4 bytes of length (big endian), then JSON {"data", "metadata", "main"}

NUMBER = (int, float)
MAYBE_INT = (int, type(None))
MAYBE_STR = (str, type(None))

# Codes of Fail. The file codes are the values of dayfly.errors.FileProblem.
BAD_REQUEST = "bad_request"
UNKNOWN_LANGUAGE = "unknown_language"
NO_SUCH_PROCESS = "no_such_process"
NO_SUCH_CONTEXT = "no_such_context"
BUSY = "busy"
CANNOT_START = "cannot_start"  # the program does not exist, or a limit forbids another process
DENIED = "denied"  # a destination that no rule allows
UNREACHABLE = "unreachable"  # one that is allowed, and did not answer
REFUSED = "refused"  # a port inside on which nobody listens
CANCELLED = "cancelled"

Shape = dict


class Operation:
    """One line of the table. ``opener`` is "host" or "agent"; ``to_acceptor``/``to_opener`` are events by name."""

    __slots__ = ("finish", "name", "opener", "params", "to_acceptor", "to_opener")

    def __init__(
        self,
        name: str,
        params: dict[str, object],
        *,
        finish: dict[str, object] | None = None,
        to_acceptor: dict[str, dict[str, object]] | None = None,
        to_opener: dict[str, dict[str, object]] | None = None,
        opener: str = "host",
    ) -> None:
        self.name = name
        self.params = params
        self.finish = finish or {}
        self.to_acceptor = to_acceptor or {}
        self.to_opener = to_opener or {}
        self.opener = opener


_EXIT = {"exit_code": MAYBE_INT, "signal": MAYBE_INT}  # exactly one is a number
PROCESS = {"pid": int, "argv": list, "cwd": str, "running": bool, "pty": bool, **_EXIT}
STAT = {"name": str, "path": str, "kind": str, "size": int, "mode": int, "modified": NUMBER, "target": MAYBE_STR}

EXECUTE = Operation(
    "execute",
    # context: name; made on first use. cpu_seconds, output: caps of this run, kept by the agent (output by the host again).
    # silent: nobody's run, before the sandbox is somebody's: it is not counted, and the kernel is as unused as before.
    {
        "context": str,
        "language": str,
        "code": str,
        "cpu_seconds": NUMBER,
        "output": int,
        "silent": (bool, type(None)),
    },
    # interrupt: SIGINT, and after ``grace`` seconds SIGKILL for what is left of the run.
    to_acceptor={"interrupt": {"grace": NUMBER}},
    finish={
        "count": int,  # of the context's runs, from 1; 0: it never began
        "status": str,  # ok | error | interrupted | cpu_limit | died (the kernel ended: exit_code or signal)
        "error": (dict, type(None)),  # {"name", "value", "traceback"}: text
        "state_survived": bool,
        "limit": MAYBE_STR,  # the field of Limits that the error comes from, as far as the agent can tell
        "dropped": int,  # bytes beyond ``output``
        "cpu_seconds": NUMBER,
        **_EXIT,
    },
)
CONTEXT_LIST = Operation("context.list", {}, finish={"contexts": list})  # [{"name", "language", "busy", "pid"}]
CONTEXT_REMOVE = Operation("context.remove", {"context": str})  # kills the kernel and all it started
CONTEXT_PREPARE = Operation("context.prepare", {"context": str, "language": str}, finish={"pid": int})

PROCESS_START = Operation(
    "process.start",
    {
        "argv": list,  # of text; a shell line is ["/bin/bash", "-c", line], made by the host
        "env": dict,  # text to text; added to the sandbox's environment
        "cwd": str,
        "pty": (dict, type(None)),  # {"rows": int, "cols": int}
        "stdin": bool,  # false: /dev/null
        "output": int,
        "cpu_seconds": NUMBER,
        "detached": bool,  # true: goes on when this channel is cancelled; the last 256 KiB of output stay for a connect
    },
    to_acceptor={"resize": {"rows": int, "cols": int}, "signal": {"signal": int}, "stop": {"grace": NUMBER}},
    to_opener={"started": {"pid": int}},
    # leftovers: processes of the command that were still alive when it ended and were killed (never for detached ones)
    finish={**_EXIT, "dropped": int, "limit": MAYBE_STR, "leftovers": int},
)
PROCESS_CONNECT = Operation(
    "process.connect",  # replays what is kept of the output, then follows; cancelling leaves the process running
    {"pid": int, "output": int},
    to_acceptor=PROCESS_START.to_acceptor,
    to_opener=PROCESS_START.to_opener,
    finish=PROCESS_START.finish,
)
PROCESS_LIST = Operation("process.list", {}, finish={"processes": list})  # of PROCESS
PROCESS_SIGNAL = Operation("process.signal", {"pid": int, "signal": int})  # to the process group

# Paths are absolute or relative to the home. Every step is opened by descriptor without following links; a link is
# followed only where it stays below what the path names (see agent/files.py).
FILE_READ = Operation("file.read", {"path": str, "offset": int, "length": MAYBE_INT}, finish={"size": int})
FILE_WRITE = Operation(
    "file.write",  # content on STDIN. mode "replace" is atomic (a temporary file, renamed), "append", "create" (must not exist)
    {"path": str, "how": str, "mode": int, "parents": bool},
    finish={"size": int},
)
FILE_STAT = Operation("file.stat", {"path": str, "follow": bool}, finish=STAT)
FILE_LIST = Operation(
    "file.list",  # sorted by name as bytes; ``after`` is the last name of the previous page
    {"path": str, "after": MAYBE_STR, "limit": int},
    finish={"entries": list, "more": bool},
)
FILE_MKDIR = Operation("file.mkdir", {"path": str, "parents": bool, "mode": int}, finish={"created": bool})
FILE_RENAME = Operation("file.rename", {"path": str, "to": str, "replace": bool})
FILE_REMOVE = Operation("file.remove", {"path": str, "recursive": bool}, finish={"removed": int})
FILE_WATCH = Operation(
    "file.watch",  # until cancelled. kind: created | modified | removed | renamed (path = new name) | overflow
    {"path": str, "recursive": bool},
    to_opener={"ready": {}, "change": {"kind": str, "path": str}},
)
TREE_PACK = Operation("tree.pack", {"path": str}, finish={"members": int, "size": int})  # a tar on STDOUT
TREE_UNPACK = Operation("tree.unpack", {"path": str}, finish={"members": int, "size": int})  # a tar on STDIN

PORT_CONNECT = Operation("port.connect", {"port": int}, to_opener={"connected": {}})  # bytes on STDIN/STDOUT

NETWORK = Operation(
    # The names that exist inside from now on, in the place of those before: [{"host": str, "ports": [int]}]. A host is in
    # canonical form (hosts.py) or "*." and one, which stands for every name with exactly one label more. [] is no network:
    # no resolver, no listener.
    # authority: PEM of one more certificate authority that programs inside believe, beside the image's. env: text to text,
    # variables that clients inside read, of everything that is started from now on and of live kernels; where the user has set
    # one, it stays. Both in the place of those before: what is missing is taken away.
    "network",
    {"names": list, "authority": MAYBE_STR, "env": (dict, type(None))},
)
TUNNEL = Operation(
    # A connection that code inside makes to one of the names. STDIN: what it sends; STDOUT: what it receives. Failures are
    # DENIED, whose message is text for whoever runs the code, and UNREACHABLE.
    "tunnel",
    {"host": str, "port": int},
    to_opener={"connected": {}},
    opener="agent",
)
NAMES_REFUSED = Operation(
    # Names that code asked for and that are not on the list: [{"host": str, "count": int}]. Claims.
    "names.refused",
    {"names": list},
    opener="agent",
)

CONFIGURE = Operation(
    "configure",  # personalise: environment of everything started from now on; limits can only tighten
    {"env": dict, "limits": dict, "hostname": MAYBE_STR},
)
RENEW = Operation(
    "renew",  # after a restore: what user space has drawn at random, and the host name
    # keep_seeds: generators that code may have seeded go on as they were (a fork of somebody's sandbox)
    {"hostname": str, "keep_seeds": bool},
    finish={"renewed": list, "kept": list, "unanswered": list},  # of text; unanswered: contexts
)
USAGE = Operation(  # claims. busy: something goes on by itself
    "usage", {}, finish={"processes": int, "cpu_seconds": NUMBER, "memory": int, "busy": bool}
)

OPERATIONS = {
    operation.name: operation
    for operation in (
        EXECUTE, CONTEXT_LIST, CONTEXT_REMOVE, CONTEXT_PREPARE,
        PROCESS_START, PROCESS_CONNECT, PROCESS_LIST, PROCESS_SIGNAL,
        FILE_READ, FILE_WRITE, FILE_STAT, FILE_LIST, FILE_MKDIR, FILE_RENAME, FILE_REMOVE, FILE_WATCH,
        TREE_PACK, TREE_UNPACK, PORT_CONNECT, NETWORK, TUNNEL, NAMES_REFUSED, CONFIGURE, RENEW, USAGE,
    )
}  # fmt: skip

# Options of Hello. limits: rlimits for everything that is started inside.
HELLO_OPTIONS = {
    "limits": dict,  # {"data", "processes", "open_files", "file_size"}: int
    "env": dict,  # text to text
    "user": (dict, type(None)),  # {"uid", "gid", "home"}; None: do not change user (the fake boundary)
    "prestart": list,  # languages whose default kernel starts at once
    "lent": (dict, type(None)),  # variables that say what network there is, until ``network`` does; text to text
}
# Facts of Welcome: claims, for people.
WELCOME_FACTS = {"python": str, "languages": list, "pid": int}


def check(value: object, shape: Mapping[str, object], what: str, error: type[ProtocolError]) -> dict[str, object]:
    """``value`` if it has exactly the shape's fields and types (optional ones may be missing). Raises ``error``."""
    if not isinstance(value, dict):
        raise error(f"{what} is not an object")
    unknown = [name for name in value if name not in shape]
    if unknown:
        raise error(f"{what} has unknown fields: {ascii(unknown[:3])[:200]}")
    for name, kinds in shape.items():
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if type(value.get(name)) not in kinds:
            raise error(f"{what}.{name} is missing or of the wrong type")
    return value
