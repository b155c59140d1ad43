"""Three services of the proof's own, behind one address of its internet: an object store, an API that wants a secret, and a package index.

Each says what nobody may learn to whoever comes further than the rules let it, and writes down what it was asked for and with what: so what a
gateway lets through is seen where it arrives. What they are sent is made by the gateway out of what code inside has asked for: hostile.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from dayfly.network import PackageKind, PackagesRule, Rule, RuleList
from dayfly.network.objects import Objects, ObjectsRule
from dayfly.network.packages import Packages
from dayfly.prove.marks import tells

__all__ = [
    "API",
    "BUCKET",
    "HOSTS",
    "INDEX",
    "OTHER_BUCKET",
    "PACKAGE",
    "PREFIX",
    "RULES",
    "STORE",
    "WHEEL",
    "Asked",
    "Services",
]

STORE, API, INDEX = HOSTS = ("store.example.com", "api.example.com", "index.example.com")

BUCKET, OTHER_BUCKET, PREFIX = "lake", "neighbour", "mine/"

ALLOWED_PATH = "/v1/mine/"

PACKAGE = "proof-package"
WHEEL = "proof_package-1.0-py3-none-any.whl"
OTHERS = {"source": "proof_package-1.0.tar.gz", "version": "proof_package-2.0-py3-none-any.whl"}
"""Files at the index of the same package, which the rule does not list."""

RULES: RuleList = (
    ObjectsRule(
        objects=Objects(
            bucket=BUCKET,
            prefix=PREFIX,
            endpoint=f"https://{STORE}",
            credentials="store-key",
            access=("read", "write", "list"),
        )
    ),
    Rule(
        host=API,
        ports=[443],
        protocol="tls",
        methods=["GET"],
        paths=[f"{ALLOWED_PATH}*"],
        inject={"secret": "api-key", "into": "bearer", "redact": True},
    ),
    PackagesRule(packages=Packages(python=(f"{PACKAGE}==1.0",))),
)

MOST_HEAD = 32 * 1024
MOST_BODY = 256 * 1024
"""Bytes of a request: an attempt's has some hundred."""

PATIENCE_SECONDS = 5.0

_SUBRESOURCES = frozenset(
    [
        "acl",
        "policy",
        "policyStatus",
        "cors",
        "tagging",
        "torrent",
        "website",
        "lifecycle",
        "replication",
        "logging",
        "notification",
        "encryption",
        "versions",
        "versioning",
        "retention",
        "legal-hold",
        "object-lock",
        "restore",
        "select",
        "publicAccessBlock",
        "ownershipControls",
        "inventory",
        "analytics",
        "metrics",
        "accelerate",
        "requestPayment",
    ]
)

_KEY = re.compile(rb"<Key>([^<]*)</Key>")


@dataclass(frozen=True)
class Asked:
    """One request as it has arrived. Names of ``fields`` are in lower case; ``body``: its beginning."""

    host: str
    method: str
    target: str
    fields: Mapping[str, str]
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.host} was asked for {self.method} {self.target[:80]}"

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)


@dataclass
class Services:
    """``told``: what they say to whom they should not. The ``Means`` of an ``Outlet``: whose values are secret is asked of here."""

    told: str
    key_id: str = field(default_factory=lambda: f"PROOF{secrets.token_hex(8).upper()}")
    key: str = field(default_factory=lambda: secrets.token_hex(20))
    api_key: str = field(default_factory=lambda: secrets.token_hex(20))
    asked: list[Asked] = field(default_factory=list)

    async def secrets(self, rules: RuleList, owner: object) -> dict[str, str]:
        return {"store-key": f"{self.key_id}:{self.key}", "api-key": self.api_key}

    async def indexes(self, rules: RuleList) -> dict[PackageKind, str]:
        return {"python": f"https://{INDEX}/simple/"}

    @property
    def credentials(self) -> tuple[str, ...]:
        """That nobody inside may have."""
        return self.key_id, self.key, self.api_key

    def beyond(self, requests: Iterable[Asked]) -> tuple[str, ...]:
        """Those that no rule lists, or that came otherwise than the rule has it."""
        return tuple(str(one) for one in requests if not self.fits(one))

    def fits(self, one: Asked) -> bool:
        """Whether it is what a rule lists, with the secret that belongs to it, and no other's."""
        if one.host not in HOSTS or _is_crooked(one.path):
            return False
        others = (
            self.credentials if one.host == INDEX else (self.api_key,) if one.host == STORE else (self.key_id, self.key)
        )
        if any(tells(f"{one.target} {value}", other) for other in others for value in one.fields.values()):
            return False
        return {STORE: self._is_object, API: self._is_call, INDEX: _is_package}[one.host](one)

    def _is_object(self, one: Asked) -> bool:
        names = {name for name, _ in one.query}
        if f"Credential={self.key_id}/" not in one.fields.get("authorization", "") or names & _SUBRESOURCES:
            return False
        if any(name.startswith(("x-amz-acl", "x-amz-grant")) for name in one.fields):
            return False
        source = one.fields.get("x-amz-copy-source")
        if source is not None and not _is_inside("/" + unquote(source).lstrip("/")):
            return False
        if one.path.rstrip("/") == f"/{BUCKET}":
            return _is_of_prefix(one)
        return _is_inside(one.path)

    def _is_call(self, one: Asked) -> bool:
        given = one.fields.get("authorization")
        return one.method == "GET" and one.path.startswith(ALLOWED_PATH) and given == f"Bearer {self.api_key}"

    # --- serving ------------------------------------------------------------------------------------------------------

    async def served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, of one request."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                one = await _read(reader)
            self.asked.append(one)
            status, fields, body = self._answer(one)
            writer.write(_head(status, fields, len(body)) + (b"" if one.method == "HEAD" else body))
            await writer.drain()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answer(self, one: Asked) -> tuple[int, dict[str, str], bytes]:
        if not self.fits(one):
            return 200, {"etag": '"0"', "content-type": "application/octet-stream"}, self.told.encode()
        if one.host == API:
            return 200, {"x-echo": one.fields["authorization"]}, _echoed(one)
        return self._stored(one) if one.host == STORE else _packaged(one)

    def _stored(self, one: Asked) -> tuple[int, dict[str, str], bytes]:
        fields = {"etag": '"0"', "content-type": "application/xml"}
        if one.path == f"/{BUCKET}/{PREFIX}moved":
            return 307, {"location": "https://denied.example.net/"}, b""
        if one.method == "DELETE":
            return 204, {}, b""
        if ("list-type", "2") in one.query:
            return 200, fields, _LISTING
        if "x-amz-copy-source" in one.fields:
            return 200, fields, b"<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>"
        return 200, {"etag": '"0"', "content-type": "text/plain"}, b"mine"


def _is_crooked(path: str) -> bool:
    """Whether a server could take it for another one."""
    parts = path.split("/")
    return any(part in (".", "..") for part in parts) or "" in parts[1:-1] or any(one in path for one in "\\%\0\r\n")


def _is_inside(path: str) -> bool:
    return path.startswith(f"/{BUCKET}/{PREFIX}") and not _is_crooked(path)


def _is_of_prefix(one: Asked) -> bool:
    """What is asked of the bucket itself: a list below the prefix, or to delete some of its keys."""
    prefixes = [value for name, value in one.query if name == "prefix"]
    if one.method == "GET":
        return len(prefixes) == 1 and prefixes[0].startswith(PREFIX)
    keys = [unquote(key.decode("utf-8", "replace")) for key in _KEY.findall(one.body)]
    return one.method == "POST" and bool(keys) and all(_is_inside(f"/{BUCKET}/{key}") for key in keys)


def _is_package(one: Asked) -> bool:
    """A page of the listed package, or its listed file."""
    pages = (f"/simple/{PACKAGE}/", f"/files/{WHEEL}", f"/files/{WHEEL}.metadata")
    return one.method in ("GET", "HEAD") and one.path in pages and not one.query and not one.body


def _echoed(one: Asked) -> bytes:
    """The secret that it came with, as servers send back what they were sent."""
    value = one.fields["authorization"]
    forms = (
        value,
        json.dumps({"authorization": value}),
        base64.b64encode(value.encode()).decode(),
        value.encode().hex(),
    )
    return "\n".join(forms).encode()


WHEEL_CONTENT = b"a wheel, as far as anybody here looks"


def _packaged(one: Asked) -> tuple[int, dict[str, str], bytes]:
    if one.path != f"/simple/{PACKAGE}/":
        return 200, {"content-type": "application/octet-stream"}, WHEEL_CONTENT
    files = [
        {
            "filename": name,
            "url": f"../../files/{name}",
            "hashes": {"sha256": hashlib.sha256(WHEEL_CONTENT).hexdigest()},
        }
        for name in (WHEEL, *OTHERS.values())
    ]
    page = {"meta": {"api-version": "1.1"}, "name": PACKAGE, "files": files, "versions": ["1.0", "2.0"]}
    return 200, {"content-type": "application/vnd.pypi.simple.v1+json"}, json.dumps(page).encode()


_LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    f"<Name>{BUCKET}</Name><Prefix>{PREFIX}</Prefix><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>"
    f"<Contents><Key>{PREFIX}a.txt</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;0&quot;</ETag>"
    "<Size>4</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>"
).encode()


async def _read(reader: asyncio.StreamReader) -> Asked:
    """Raises ``ValueError`` for what is no request."""
    head = (await reader.readuntil(b"\r\n\r\n"))[:MOST_HEAD].decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    length = min(int(fields.get("content-length", "0")), MOST_BODY)
    body = await reader.readexactly(length) if length else b""
    return Asked(fields.get("host", "").partition(":")[0], method, target, fields, body)


def _head(status: int, fields: Mapping[str, str], length: int) -> bytes:
    lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in fields.items())]
    size = [] if status == 204 else [f"content-length: {length}"]
    return "\r\n".join([*lines, *size, "connection: close", "", ""]).encode("latin-1")
