"""What a sandbox's agent answers to calls: a live sandbox over an agent whose every word on the call's channel is the input's."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from dayfly.errors import DayflyError
from dayfly.limits import Limits
from dayfly.manager import offered
from dayfly.manager.offered import MOST_TOLD, Offered
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Output
from dayfly.policy import Policy
from dayfly.sandbox import (
    Life,
    accepted,
    call,
    collect,
    exchange,
    executions,
    failures,
    files,
    link,
    network,
    processes,
    runs,
)
from dayfly.sandbox.processes import RunningProcess
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedBoundary, scripted_spec
from dayfly.wire.messages import BY_CLASS, BY_KIND, Data, Eof, Event, Fail, Finish, Message
from dayfly.wire.operations import OPERATIONS, RESULTS
from tests.fuzz.target import JSON_WORDS, MIB, Target, held, may_be_shown

OUTPUT = 4096
_GOES_ON = 128
"""Kinds from here on: what comes behind an answer is still said on its channel."""
RECORD = 4  # kind, stream, length in two bytes


async def _run(life: Life) -> object:
    done = await life.execute("1", timeout=5, output=OUTPUT)
    assert len(done.stdout) + len(done.stderr) <= OUTPUT
    assert done.dropped >= 0
    assert done.cpu_seconds >= 0
    return done


async def _command(life: Life) -> object:
    return await _waited(await life.start_process(["true"], timeout=5, output=OUTPUT))


async def _connected(life: Life) -> object:
    return await _waited(await life.connect_process(1, output=OUTPUT))


async def _waited(process: RunningProcess) -> object:
    done = await process.wait()
    assert len(done.stdout) + len(done.stderr) <= OUTPUT
    assert done.dropped >= 0
    return done


async def _read(life: Life) -> object:
    return b"".join([piece async for piece in life.read_file("x", length=64)])


async def _listed(life: Life) -> object:
    """And what of it would be saved: names of which keys can be made, and no more than may be told."""
    found = Offered(cast(RecordedLife, life))
    for one in await found.below(ONE):
        assert not {"", ".", ".."} & set(one.below.split("/"))
        assert "\0" not in one.below
        one.below.encode("utf-8", "surrogateescape")
        assert one.size >= 0
    assert len(found.left_out) <= MOST_TOLD
    return found


async def _stat(life: Life) -> object:
    one = await life.stat("x")
    assert one.size >= 0
    assert 0 <= one.mode <= 0o7777
    return one


async def _watched(life: Life) -> object:
    return [one async for one in life.watch("x")]


async def _packed(life: Life) -> object:
    return [one async for one in life.pack_tree("x")]


ONE = Output(bucket="lake", prefix="out/", endpoint="https://s3.example.com", credentials="key", **{"from": "out"})
CALLS: tuple[Callable[[Life], Awaitable[object]], ...] = (
    _run, _command, _read, _listed, _stat, _watched, _packed, lambda life: life.contexts(), lambda life: life.list_processes(),
    lambda life: life.make_directory("x"), lambda life: life.remove("x"), _connected,
)  # fmt: skip


def answers(data: bytes) -> None:
    """The call gives a value or a typed error in time, and its sandbox lives on or has ended with a typed reason."""
    held(_called(CALLS[data[0] % len(CALLS)] if data else _run, data[1:]))


async def _called(make: Callable[[Life], Awaitable[object]], said: bytes) -> None:
    records = iter(_records(said))

    async def script(asked: Asked) -> None:
        """Up to the answer; what follows is for the next question, and after the last one's answer for nobody."""
        with suppress(OSError):
            for kind, stream, payload in records:
                message = BY_KIND.get(kind % 18, BY_CLASS[Data]).cls
                _forge(asked, message, stream, payload)
                await asked.agent.flush()
                if message in (Finish, Fail) and kind < _GOES_ON:
                    return
            await asked.fail("busy", "no more to say")

    policy = Policy(limits=Limits(lifetime_seconds=600))
    life = await Life.open(ScriptedBoundary(script), scripted_spec(policy.limits), policy, env={}, prestart=())
    try:
        await make(life)
    except DayflyError as error:
        may_be_shown(error.message)
    finally:
        await life.close()
    assert life.end_reason in (EndReason.STOPPED, EndReason.PROTOCOL_VIOLATION, EndReason.UNRESPONSIVE), life.end_reason


def _forge(asked: Asked, kind: type[Message], stream: int, payload: bytes) -> None:
    """A frame with the right numbers, which the agent's own machine might refuse to send."""
    row = BY_CLASS[kind]
    channel = 0 if row.control else asked.channel
    asked.agent.connection._ledger.emit(row, channel, stream if kind in (Data, Eof) else 0, payload[: row.limit])


def _records(data: bytes) -> list[tuple[int, int, bytes]]:
    found, position = [], 0
    while position + RECORD <= len(data):
        kind, stream, *size = data[position : position + RECORD]
        position += RECORD
        found.append((kind, stream % 4, data[position : position + int.from_bytes(size, "big")]))
        position += int.from_bytes(size, "big")
    return found


# --- seeds ------------------------------------------------------------------------------------------------------------

_SAMPLES: dict[type, Any] = {int: 1, float: 0.5, str: "x", bool: True, dict: {}, list: [], type(None): None}
_ROWS = {"entries": {"name": "a", "path": "out/a", "kind": "directory", "size": 1, "mode": 420, "modified": 1.5, "target": None},
         "processes": {"pid": 1, "argv": ["a"], "cwd": "/", "running": False, "pty": False, "exit_code": 0, "signal": None},
         "contexts": {"name": "a", "language": "python", "busy": False, "pid": 1}}  # fmt: skip
_OF_CALLS = ("execute", "process.start", "file.read", "file.stat", "file.stat", "file.watch", "tree.pack", "context.list", "process.list",
             "file.mkdir", "file.remove", "process.connect")  # fmt: skip


def _example(shape: dict[str, object]) -> dict[str, Any]:
    found = {}
    for name, kinds in shape.items():
        first = kinds[0] if isinstance(kinds, tuple) else kinds
        found[name] = [_ROWS[name]] if name in _ROWS else _SAMPLES[cast(type, first)]
    return found


def _record(kind: type[Message], value: object, stream: int = 0) -> bytes:
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    return bytes([BY_CLASS[kind].kind, stream]) + len(payload).to_bytes(2, "big") + payload


def _seeds() -> tuple[bytes, ...]:
    found = []
    for number, name in enumerate(_OF_CALLS):
        operation = OPERATIONS[name]
        events = b"".join(
            _record(Event, {"name": one, "fields": _example(shape)}) for one, shape in operation.to_opener.items()
        )
        spoken = b"".join(_record(Data, b"said", stream) for stream in (1, 2))
        found.append(bytes([number]) + events + spoken + _record(Finish, {"value": _example(operation.finish)}))
        found.append(bytes([number]) + events + _record(Fail, {"code": "not_found", "message": "\x1b[0m"}))
    result = json.dumps({"data": {"text/plain": "x"}, "metadata": {}, "main": True}).encode()
    found.append(b"\0" + _record(Data, len(result).to_bytes(4, "big") + result, RESULTS))
    directory = {"value": {**_example(OPERATIONS["file.stat"].finish), "kind": "directory"}}
    listing = {"value": _example(OPERATIONS["file.list"].finish)}
    found.append(b"\3" + _record(Finish, directory) + _record(Finish, listing) + _record(Finish, listing))
    for names in ("abc", ["a", "b/../c"], ["a", "..", "\udcff"]):
        files = {
            "value": {"entries": [{**_ROWS["entries"], "name": name, "kind": "file"} for name in names], "more": False}
        }
        found.append(b"\3" + _record(Finish, directory) + _record(Finish, files))
    return tuple(found)


_WORDS = (
    *JSON_WORDS,
    b"../",
    b"/",
    b"file",
    b"directory",
    *(name.encode() for one in OPERATIONS.values() for name in (*one.finish, *one.to_opener)),
)

TARGETS = (
    Target(
        "answers",
        answers,
        (accepted, call, collect, exchange, executions, failures, files, link, network, offered, processes, runs),
        _seeds(),
        memory=16 * MIB,
        longest=4096,
        examples=200,
        words=_WORDS,
    ),
)
