"""What a policy's ``inputs`` name, as files inside: listed, judged as a whole, then copied. Nothing half: whoever asks for this ends the
sandbox if it is not done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dayfly.bucket.client import BucketClient, Dial
from dayfly.bucket.listing import Listed
from dayfly.bucket.names import BadName, file_below, refuse_clashes, shown
from dayfly.errors import InputError, SandboxFileError, StoreFailed
from dayfly.limits import size_text
from dayfly.manager.copied import Tale
from dayfly.manager.courier import AT_ONCE, admitted, all_of
from dayfly.manager.handful import LARGEST, Handful
from dayfly.manager.outlet import Outlet
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Input

__all__ = ["INPUT_SECONDS", "MOST_OBJECTS", "bring"]

INPUT_SECONDS = 120.0
"""For all inputs of a sandbox together. Whoever asks over HTTP waits for them, for 180 s at most."""

MOST_OBJECTS = 10_000
"""Of all inputs of a sandbox together: what takes a minute where the store answers in 50 ms. Beyond it, an archive is one object."""

MOST_PAGES = 100
"""Of one listing. A store may end a page early; one that goes on with empty ones never ends."""


@dataclass
class _Load:
    """What is to be copied, of all inputs so far."""

    most_bytes: int
    count: int = 0
    size: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


async def bring(life: RecordedLife, outlet: Outlet) -> None:
    """Raises ``StoreFailed``, ``InputError`` for what cannot be files or is too much, ``PolicyError``, ``HostError``, ``SandboxEnded``."""
    load = _Load(life.policy.limits.disk)
    try:
        async with asyncio.timeout(INPUT_SECONDS):
            for index, one in enumerate(life.policy.inputs):
                await _bring(life, outlet, index, one, load)
    except TimeoutError:
        message = f"the inputs were not there within {INPUT_SECONDS:g} s"
        raise StoreFailed(message, remedy="copy less, or one archive instead of many objects") from None
    if life.policy.inputs:
        life.tell_copied({"objects": load.count, "bytes": load.size, "inputs": load.rows})


async def _bring(life: RecordedLife, outlet: Outlet, index: int, one: Input, load: _Load) -> None:
    place, rule = f"inputs[{index}]", one.rule
    async with admitted(outlet, f"{life.id}/inputs/{index}", rule, life.owner, life.copying) as dial:
        async with BucketClient(one, dial) as client:
            listed = await _listed(client, place, load)
        files = _files(listed, one, place, load)
        await _make_directory(life, one.directory, one.prefix)
        work = iter(files)
        await all_of([_carry(life, one, dial, work) for _ in range(min(AT_ONCE, len(files)))])
    tale = Tale(one)
    for key, _, size in files:
        tale.add(key, size)
    load.rows.append(tale.facts)


async def _listed(client: BucketClient, place: str, load: _Load) -> Sequence[Listed]:
    found: list[Listed] = []
    token = ""
    for _ in range(MOST_PAGES):
        page = await client.page(token)
        found += page.objects
        if load.count + len(found) > MOST_OBJECTS:
            message = f"{place}: there are more than {MOST_OBJECTS} objects to copy"
            raise InputError(message, remedy="name a prefix further down, or put an archive there")
        token = page.token
        if not token:
            return found
    message = f"{place}: the listing does not end within {MOST_PAGES} pages"
    raise StoreFailed(
        message, remedy="name a prefix further down; if that has few objects, the store does not list as S3 does"
    )


_File = tuple[str, str, int]
"""Key, path below the directory, bytes."""


def _files(listed: Sequence[Listed], one: Input, place: str, load: _Load) -> Sequence[_File]:
    """All of it is judged before any of it is copied. Raises ``InputError``."""
    found: list[_File] = []
    for row in listed:
        try:
            path = file_below(one.prefix, row.key)
            if (not path or path.endswith("/")) and row.size:
                raise BadName("is a directory's name, and has a content")
        except BadName as error:
            raise _unfit(place, row.key, str(error)) from None
        if path:
            found.append((row.key, path, row.size))
    try:
        refuse_clashes(path for _, path, _ in found)
    except BadName as error:
        path, why = error.args
        raise _unfit(place, one.prefix + path, why) from None
    size = sum(size for _, _, size in found)
    load.count += len(found)
    load.size += size
    _check_size(place, load.size, "limits.disk", load.most_bytes)
    _check_size(place, size, "max_bytes", one.max_bytes)
    return found


def _unfit(place: str, key: str, why: str) -> InputError:
    return InputError(
        f"{place}: the key {shown(key)} {why}", remedy="rename the object, or name a prefix that it is not below"
    )


def _check_size(place: str, size: int, name: str, most: int | None) -> None:
    """Before a byte is copied. Raises ``InputError``."""
    if most is not None and size > most:
        message = f"{place}: {size_text(size)} are to be copied, and {name} is {size_text(most)}"
        raise InputError(message, remedy=f"copy less, or raise {name}")


async def _carry(life: RecordedLife, one: Input, dial: Dial, work: Iterator[_File]) -> None:
    """One after another, as long as there are any; small ones are handed in together."""
    small = Handful()
    async with BucketClient(one, dial) as client:
        for key, path, size in work:
            if path.endswith("/"):
                await _make_directory(life, f"{one.directory}/{path}".removesuffix("/"), key)
                continue
            async with client.object(key, size) as content:
                if size <= LARGEST:
                    small.add(path, b"".join([piece async for piece in content]))
                else:
                    with _telling(key):
                        await life.write_file(f"{one.directory}/{path}", content)
            if small.full:
                await _unpack(life, one, small)
    if small:
        await _unpack(life, one, small)


async def _unpack(life: RecordedLife, one: Input, small: Handful) -> None:
    with _telling(one.prefix):
        await life.unpack_tree(one.directory, small.taken())


async def _make_directory(life: RecordedLife, where: str, key: str) -> None:
    with _telling(key):
        await life.make_directory(where)


@contextmanager
def _telling(key: str) -> Iterator[None]:
    """Which input it was, or that it was below a prefix, that cannot be inside."""
    try:
        yield
    except SandboxFileError as error:
        message = f"the input {shown(key)} cannot be written inside: {error.message}"
        raise InputError(message, remedy="choose another directory (to), or raise limits.disk") from error
