"""What servers outside answer: documents of stores and their clients, package indexes, and a dayfly server that this machine's client asks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dayfly.bucket import exchange, listing
from dayfly.bucket.exchange import Broken, Exchange
from dayfly.bucket.listing import LARGEST_OBJECT, page_of
from dayfly.client.remote import failures, lines, values
from dayfly.client.remote.failures import BadAnswer, failure
from dayfly.client.remote.lines import Lines
from dayfly.client.remote.values import Fields, load
from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Refused
from dayfly.egress.services.objects import documents
from dayfly.egress.services.objects.documents import MOST_KEYS, BadDocument, keys_of, parts_of
from dayfly.egress.services.packages import node, pages
from dayfly.egress.services.packages.node import _document
from dayfly.egress.services.packages.pages import BadPage, files_of
from dayfly.network.entries import NodeEntry
from tests.fuzz.target import JSON_WORDS, MIB, Target, held, may_be_shown, pieces

# --- stores -----------------------------------------------------------------------------------------------------------


def xml(data: bytes) -> None:
    """What is written anew is read as the same; a listing has keys and sizes, or is none."""
    found: tuple[Sequence[str], bytes] | None = None
    parts: bytes | None = None
    with suppress(BadDocument):
        found = keys_of(data)
    with suppress(BadDocument):
        parts = parts_of(data)
    if found is not None:
        assert 0 < len(found[0]) <= MOST_KEYS
        assert keys_of(found[1]) == found
    assert parts is None or parts_of(parts) == parts
    with suppress(BadDocument):
        for one in page_of(data).objects:
            assert one.key
            assert 0 <= one.size <= LARGEST_OBJECT


_XML = (
    b"<Delete><Object><Key>a&amp;b</Key></Object><Quiet>true</Quiet></Delete>",
    b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a</Key></Object></Delete>',
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
    b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>a</Key>"
    b"<Size>1</Size><Owner><ID>x</ID></Owner></Contents></ListBucketResult>",
    b'<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE a [<!ENTITY b "c">]><Delete>&b;</Delete>',
)
_XML_WORDS = (
    b"<Key>",
    b"</Key>",
    b"<Object>",
    b"<![CDATA[",
    b"]]>",
    b"&#0;",
    b"&#xD;",
    b"&lt;",
    b"<!--",
    b"-->",
    b"<?x?>",
    b"<Part>",
    b"<Size>",
)


def store_answer(data: bytes) -> None:
    """A status and so many bytes, however they come, or it broke off."""
    sizes, said = data[:2], data[2:]
    assert held(_copied(said, b"")) == held(_copied(said, sizes))


class Said:
    """A connection on which so much arrives."""

    def __init__(self, said: bytes, sizes: bytes) -> None:
        self._pieces = pieces(said, sizes)

    async def read(self, _: int) -> bytes:
        return next(self._pieces, b"")

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


async def _copied(said: bytes, sizes: bytes) -> tuple[object, ...]:
    one, found = Exchange(Said(said, sizes), "s3.example"), list[object]()
    try:
        while one.ready and len(found) < 8:
            answer = await one.ask("GET", "/bucket/key")
            found.append((answer.status, answer.length))
            found.append(await answer.whole(8192))
    except Broken:
        return (*found, "broken")
    return tuple(found)


_STORE = tuple(
    b"\0\x07" + one
    for one in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * 2,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 403 No\r\nContent-Length: 5, 5\r\n\r\nwrong",
    )
)
_HTTP_WORDS = (
    b"\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"0\r\n\r\n",
    b"\0",
    b"\x0b",
)

# --- package indexes --------------------------------------------------------------------------------------------------


def index_page(data: bytes) -> None:
    """Files of the one project, with absolute places."""
    for kind in (pages.JSON, "text/html"):
        with suppress(BadPage):
            for one in files_of("numpy", "https://index.example/simple/numpy/", kind, data):
                assert one.name.isascii()
                assert one.name.isprintable()
                assert one.size is None or 0 <= one.size < 2**53
                assert one.requires_python is None or one.requires_python.isprintable()


_FILE: dict[str, Any] = {
    "filename": "numpy-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "url": "../../f/numpy.whl", "hashes": {"sha256": "0" * 64},
    "requires-python": ">=3", "yanked": "why", "core-metadata": {"sha256": "1" * 64}, "size": 1, "upload-time": "2025-01-01T00:00:00.5Z",
}  # fmt: skip
_PAGES = (
    json.dumps({"meta": {"api-version": "1.1"}, "files": [_FILE, {**_FILE, "filename": "numpy-1.0.tar.gz"}]}).encode(),
    b'<base href="https://x/"><a href="numpy-1.0.zip#sha256=00" data-requires-python="&gt;3" data-yanked>x</a><A href="../numpy-2-py3-none-any.whl">',
)


def node_document(data: bytes) -> None:
    """A document of the one package that this machine can write, or a sentence why not."""
    for entry in (NodeEntry("left-pad"), NodeEntry("left-pad", "^", "1.0.0")):
        try:
            made = _document("left-pad", data, (entry,), None)
        except Unreachable as error:
            may_be_shown(str(error))
        except Refused as refused:
            may_be_shown(refused.denied.reason)
        else:
            assert json.loads(made.content)["name"] == "left-pad"


def _manifest(nested: int = 0) -> dict[str, Any]:
    return {"dist": {"tarball": "https://x/a.tgz", "integrity": "sha512-AAAA", "shasum": "0" * 40}, "deep": nested}


_NODE = (
    json.dumps(
        {
            "name": "left-pad",
            "dist-tags": {"latest": "1.3.0"},
            "versions": {"1.3.0": _manifest(), "2.0.0-a": _manifest()},
        }
    ).encode(),
    json.dumps(
        {
            "name": "left-pad",
            "versions": {"1.0.0": _manifest()},
            "time": {"1.0.0": "2020-01-01T00:00:00Z"},
            "modified": "x",
        }
    ).encode(),
    json.dumps({"name": "left-pad", "versions": {"1.0.0": _manifest(7)}})
    .encode()
    .replace(b"7", b"[" * 600 + b"]" * 600),
)

# --- a dayfly server --------------------------------------------------------------------------------------------------

_READERS = (
    values.told_sandbox,
    values.read_usage,
    values.read_execution,
    values.read_result,
    values.read_saved,
    values.read_process,
    values.read_context,
    values.read_file_info,
    lambda one: values.read_process_result(one, b"", b""),
)


def remote(data: bytes) -> None:
    """Nouns or ``BadAnswer``; an error of the server's in words that may be shown. The same lines however they are cut."""
    which, sizes, said = data[:1], data[1:3], data[3:]
    found = _lines(said, b"")
    assert found == _lines(said, sizes)
    read = _READERS[(which or b"\0")[0] % len(_READERS)]
    for line in found or ():
        with suppress(BadAnswer):
            value = load(line)
            error = failure(value, 500, "3")
            if error is not None:
                may_be_shown(error.message)
                assert (error.remedy or "").isprintable()
            read(Fields(value, "an answer"))  # type: ignore[operator]


def _lines(said: bytes, sizes: bytes) -> list[bytes] | None:
    reader, found = Lines(4096), list[bytes]()
    try:
        for piece in pieces(said, sizes):
            found += reader.feed(piece)
    except BadAnswer:
        return None
    return found


_LIMITS: list[dict[str, Any]] = [{"name": "memory", "value": 1, "enforcement": "enforced", "how": "cgroup"}]
_OBJECTS: tuple[tuple[int, dict[str, Any]], ...] = (
    (0, {"id": "a1", "state": "ready", "policy": {"image": "python"}, "languages": ["python"], "limits": _LIMITS}),
    (1, {"cpu_seconds": 1.5, "memory": 1}),
    (2, {"outcome": "ok", "execution_count": 1, "state_survived": True, "dropped": 0, "duration": 0.1, "cpu_seconds": 0.1, "limits": _LIMITS,
         "error": {"name": "E", "value": "v", "traceback": "t"}}),
    (3, {"data": {"text/plain": "x", "image/png": "iVBO", "application/json": {}}, "metadata": {}, "is_main": True}),
    (4, {"keys": ["a"], "size": 1, "left_out": [{"path": "a", "reason": "b"}], "left_out_count": 1}),
    (5, {"pid": 1, "argv": ["a"], "cwd": "/", "running": False, "pty": False, "exit_code": 0}),
    (6, {"name": "python", "language": "python", "busy": False}),
    (7, {"name": "a", "path": "/a", "kind": "file", "size": 1, "mode": 420, "modified": 1.0}),
    (8, {"outcome": "ok", "dropped": 0, "duration": 1, "denied": [{"host": "h", "port": 1, "code": "not_listed", "reason": "r", "remedy": "m",
         "claimed": True, "count": 1}]}),
    (0, {"error": {"code": "sandbox_ended", "message": "m", "remedy": "r", "end_reason": "stopped", "end_detail": "\x1b"}}),
)  # fmt: skip
_REMOTE = (
    *(bytes([number, 0, 9]) + json.dumps(one).encode() + b"\n" for number, one in _OBJECTS),
    b"\2\0\0"
    + 2
    * (
        json.dumps({**_OBJECTS[2][1], "limits": [{**_LIMITS[0], "more": 7}]})
        .encode()
        .replace(b"7", b"[" * 700 + b"]" * 700)
        + b"\n"
    ),
)

TARGETS = (
    Target("xml", xml, (documents, listing), _XML, memory=8 * MIB, examples=400, words=_XML_WORDS),
    Target("store", store_answer, (exchange,), _STORE, memory=4 * MIB, longest=4096, examples=150, words=_HTTP_WORDS),
    Target(
        "index",
        index_page,
        (pages,),
        _PAGES,
        memory=8 * MIB,
        seconds=1.0,
        examples=400,
        words=(*JSON_WORDS, b"<a ", b"href=", b"<base ", b"&#x1b;", b"numpy-", b".whl", b".a" * 30, b"-"),
    ),
    Target("node", node_document, (node,), _NODE, memory=8 * MIB, examples=400, words=JSON_WORDS),
    Target("remote", remote, (values, lines, failures), _REMOTE, memory=8 * MIB, examples=400, words=JSON_WORDS),
)
