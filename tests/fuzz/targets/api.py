"""The HTTP API: the real application over real tenants, asked in this process by one who has a key of his own and means harm."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from dayfly import limits, network
from dayfly import policy as policies
from dayfly.errors import DayflyError
from dayfly.network import base, entries, listing, objects, packages, rule
from dayfly.policy import Policy
from dayfly.server import (
    answers,
    auth,
    bodies,
    executions,
    files,
    guard,
    health,
    keys,
    processes,
    record,
    sandboxes,
    streams,
    tenant,
    views,
)
from dayfly.server.app import STATUSES, create_app
from dayfly.server.keys import Keys
from dayfly.server.services import Services
from tests.fuzz.target import JSON_WORDS, MIB, Target, may_be_shown
from tests.manager.house import House

SECONDS = 20.0
"""For an answer. Whoever hangs up is done with in a moment."""

PATIENCE = 0.3
"""Seconds until who asks hangs up."""

CLIENT_GONE = 499
"""What nobody hears."""

NEIGHBOUR = "neighbour"
MARK = "mark-of-the-neighbour"
"""In what the other tenant's sandbox is called."""

ME, OTHER = b"@me", b"@other"
"""In an input: the ids of the asker's own sandbox, and of the neighbour's."""


class Office:
    """One server for all inputs, since making one takes longer than asking it a hundred times. After each it is as before, or it is a finding."""

    def __init__(self) -> None:
        logging.getLogger("dayfly").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._unseen: list[str] = []
        self._loop.set_exception_handler(
            lambda _, what: self._unseen.append(str(what.get("exception") or what["message"]))
        )
        self._place = tempfile.TemporaryDirectory(prefix="dayfly-fuzz-")
        path = Path(self._place.name)
        path.chmod(0o700)
        self._house = self.run(self._made(path))
        self._keys = Keys(path / "state.db")
        self._app = create_app(Services(self._house.tenants, self._keys, _ready, journal=self._house.journal_path))
        self.secret = self._keys.create("t", "test", ("admin",))[1]
        self._theirs = self._keys.create(NEIGHBOUR, MARK, ("admin",))[1]
        self.other = self._sandbox(self._theirs)
        self.mine = self._sandbox(self.secret)

    async def _made(self, path: Path) -> House:
        return House(path)

    def run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    def _sandbox(self, secret: str) -> str:
        status, _, body = self.ask(
            "POST", b"/v1/sandboxes", {**_bearer(secret), b"content-type": b"application/json"}, b"{}"
        )
        assert status == 201, body
        return str(json.loads(body)["id"])

    def ask(
        self, method: str, target: bytes, headers: dict[bytes, bytes], body: bytes
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body; status 0: none. Whoever asks hangs up after a moment: there are answers without an end."""
        said: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
        heard: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not said:
                await asyncio.sleep(PATIENCE)
                return {"type": "http.disconnect"}
            return said.pop()

        async def send(message: Any) -> None:
            heard.append(message)

        path, _, query = target.partition(b"?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "raw_path": path, "query_string": query, "root_path": "",
            "path": unquote_to_bytes(path).decode("utf-8", "replace"), "headers": [(b"host", b"127.0.0.1"), *headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "extensions": {},
        }  # fmt: skip
        self.run(self._app(scope, receive, send))
        if not heard:
            return 0, {}, b""
        content = b"".join(one.get("body", b"") for one in heard[1:])
        return heard[0]["status"], dict(heard[0]["headers"]), content

    def serves_on(self) -> None:
        """The neighbour's sandbox lives, nothing has failed unseen, and the asker has a sandbox again."""
        unseen, self._unseen[:] = list(self._unseen), []
        assert not unseen, unseen
        theirs = _bearer(self._theirs)
        status, _, body = self.ask("GET", f"/v1/sandboxes/{self.other}".encode(), theirs, b"")
        assert status == 200, body
        assert json.loads(body)["state"] == "ready"
        if self._keys.check(self.secret) is None:
            self.secret = self._keys.create("t", "test", ("admin",))[1]
        mine = _bearer(self.secret)
        status, _, body = self.ask("GET", f"/v1/sandboxes/{self.mine}".encode(), mine, b"")
        if status != 200 or json.loads(body)["state"] != "ready":
            self._end_all()
            self.mine = self._sandbox(self.secret)

    def _end_all(self) -> None:
        mine = _bearer(self.secret)
        _, _, body = self.ask("GET", b"/v1/sandboxes", mine, b"")
        for row in json.loads(body)["sandboxes"]:
            self.ask("DELETE", f"/v1/sandboxes/{row['id']}".encode(), mine, b"")

    def close(self) -> None:
        self.run(self._house.close())
        self._keys.close()
        self._loop.close()
        self._place.cleanup()


def _bearer(secret: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {secret}".encode()}


async def _ready() -> None:
    return None


@cache
def office() -> Office:
    return Office()


def close_office() -> None:
    if office.cache_info().currsize:
        office().close()
        office.cache_clear()


def request(data: bytes) -> None:
    """Every answer is one that is described, in JSON where it is an error, with nothing of the neighbour's; and the server serves on."""
    one = office()
    said = data.replace(ME, one.mine.encode()).replace(OTHER, one.other.encode())
    head, _, body = said.partition(b"\n\n")
    line, *fields = head.split(b"\n")
    method, _, target = line.partition(b" ")
    headers = {name.lower(): value for name, _, value in (field.partition(b": ") for field in fields[:50])}
    headers.setdefault(b"authorization", f"Bearer {one.secret}".encode())
    headers.setdefault(b"content-type", b"application/json")
    status, told, content = one.ask(method.decode("latin-1"), b"/" + target, headers, body)
    assert not status or 200 <= status < 300 or status in (*STATUSES, CLIENT_GONE), f"{status}: {content!r:.300}"
    assert status != 500, content[:500]
    if status >= 400:
        _is_an_error(told, content)
    assert MARK.encode() not in content
    assert OTHER in data or one.other.encode() not in content
    one.serves_on()


def _is_an_error(headers: dict[bytes, bytes], content: bytes) -> None:
    assert headers[b"content-type"].startswith(b"application/json")
    if content:
        error = json.loads(content)["error"]
        assert isinstance(error["code"], str)
        assert len(content) < 16 * 1024


_CALLS = (
    b"GET v1/sandboxes", b"GET v1/sandboxes?limit=1&after=a", b"POST v1/sandboxes\n\n{\"policy\":{\"image\":\"python\",\"limits\":{\"memory\":\"1GiB\"}}}",
    b"GET v1/sandboxes/@me", b"GET v1/sandboxes/@other", b"GET v1/sandboxes/@me/explain", b"GET v1/sandboxes/@me/usage",
    b"POST v1/sandboxes/@me/extend\n\n{\"seconds\":5}", b"POST v1/sandboxes/@other/executions\n\n{\"code\":\"1\"}",
    b"POST v1/sandboxes/@me/executions\n\n{\"code\":\"1\",\"timeout\":1}", b"POST v1/sandboxes/@me/executions\naccept: application/x-ndjson\n\n{\"code\":\"1\"}",
    b"GET v1/sandboxes/@me/executions/1?after=0", b"GET v1/sandboxes/@me/contexts", b"DELETE v1/sandboxes/@me/contexts/python",
    b"POST v1/sandboxes/@me/processes\n\n{\"argv\":[\"true\"]}", b"GET v1/sandboxes/@me/processes", b"GET v1/sandboxes/@me/processes/1/output",
    b"POST v1/sandboxes/@me/processes/1/signal\n\n{\"signal\":9}", b"GET v1/sandboxes/@me/files?path=x\nrange: bytes=0-5",
    b"PUT v1/sandboxes/@me/files?path=x\ncontent-type: application/octet-stream\n\ncontent", b"GET v1/sandboxes/@me/files/list?path=.&limit=2",
    b"POST v1/sandboxes/@me/files/mkdir\n\n{\"path\":\"a\"}", b"POST v1/sandboxes/@me/files/rename\n\n{\"path\":\"a\",\"to\":\"b\"}",
    b"GET v1/sandboxes/@me/tree?path=x", b"PUT v1/sandboxes/@me/tree?path=x\ncontent-type: application/x-tar\n\n", b"GET v1/keys", b"GET v1/usage",
    b"POST v1/keys\n\n{\"name\":\"a\",\"scopes\":[\"run\"]}", b"DELETE v1/keys/abc", b"GET v1/templates", b"GET v1/journal?limit=5", b"GET v1/journal/heads",
    b"GET healthz", b"GET readyz", b"GET metrics", b"GET v1/openapi.json", b"PUT v1/sandboxes/@me/network\n\n{\"network\":[{\"host\":\"example.com\"}]}",
    b"POST v1/sandboxes/@me/environment\n\n{\"env\":{\"A\":\"b\"}}", b"GET v1/sandboxes\nauthorization: Bearer x", b"GET v1/sandboxes\nhost: evil",
    b"POST v1/sandboxes/@me/token\n\n{\"seconds\":5}", b"DELETE v1/sandboxes/@me", b"POST v1/sandboxes/@me/quarantine\n\n{\"reason\":\"x\"}",
    b"PUT v1/conversations/abc\n\n{}", b"POST v1/sandboxes\nidempotency-key: a\n\n{}",
)  # fmt: skip
_WORDS = (
    *JSON_WORDS, ME, OTHER, b"\n\n", b"%00", b"%2f", b"%ff", b"../", b"?path=", b"&limit=", b"POST ", b"DELETE ", b"\nrange: bytes=", b"\naccept: application/x-ndjson",
    b'"policy":', b'"env":', b'"timeout":', b'"limits":', b'"network":', b'"template":', b"\xff", b"\ncontent-length: ", b"-1",
)  # fmt: skip
_READS = (
    answers,
    auth,
    bodies,
    executions,
    files,
    guard,
    health,
    keys,
    processes,
    record,
    sandboxes,
    streams,
    tenant,
    views,
)


def policy(data: bytes) -> None:
    """A policy of anybody's, as JSON: a value that says the same when it is written and read again, or one clear error."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    try:
        made = Policy.model_validate(value)
    except DayflyError as error:
        return may_be_shown(error.message.replace("\n", " "))
    assert Policy.model_validate_json(made.model_dump_json()) == made
    return None


_POLICIES = tuple(
    json.dumps(one).encode()
    for one in (
        {"image": "python", "limits": {"memory": "1GiB", "cpus": 0.5, "run_seconds": 3}, "strict": True},
        {
            "network": [
                {
                    "host": "*.example.com",
                    "ports": [443],
                    "methods": ["GET"],
                    "paths": ["/a/*"],
                    "inject": {"secret": "k", "header": "x-key"},
                }
            ]
        },
        {
            "network": [
                {
                    "bucket": "lake",
                    "prefix": "a/",
                    "allow": ["read"],
                    "endpoint": "https://s3.example.com",
                    "credentials": "k",
                }
            ]
        },
        {"network": [{"packages": ["numpy>=1", "left-pad@^1.0.0"]}]},
        {"mounts": [{"source": "/srv/data", "target": "/data"}], "languages": ["python"]},
        {"network": "none", "accept": ["memory"]},
    )
)

TARGETS = (
    Target(
        "api",
        request,
        _READS,
        _CALLS,
        memory=64 * MIB,
        seconds=10.0,
        longest=4096,
        examples=100,
        words=_WORDS,
        close=close_office,
    ),
    Target(
        "policy",
        policy,
        (policies, limits, network, base, entries, listing, objects, packages, rule),
        _POLICIES,
        memory=8 * MIB,
        longest=4096,
        examples=400,
        words=(
            *JSON_WORDS,
            *(name.encode() for name in Policy.model_fields),
            b'"1GiB"',
            b'"*.example.com"',
            b"[::1]",
            b"10.0.0.0/8",
        ),
    ),
)
