"""The server, attacked by its callers: another tenant, nobody at all, a web page, whoever sends nonsense.

Each attempt is a list of requests; reached is whatever is answered in another way than it must be. The answers are the server's own, and what is
searched in them is what no answer may say.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from dayfly.errors import DayflyError
from dayfly.prove.probe import Probe
from dayfly.prove.trials import Outcome, Told, distrusted
from dayfly.prove.verdict import Claim, Seen, judge

__all__ = ["ATTEMPTS", "Answered", "Caller", "Served", "call_all"]

ANSWER_SECONDS = 60.0
"""For one answer: a sandbox may have to be opened for it."""

MOST_ANSWER = 1024 * 1024
"""Bytes of one that are read."""


@dataclass(frozen=True)
class Served:
    """A server, and the secrets of two tenants' keys; ``reader`` is the first one's, and may only read. ``never``: what no answer may say, by
    what it is; ``canary``: a file of the host's; ``journal``: where the server writes down what happens, and ``public_key`` what its
    heads are signed with."""

    url: str
    first: str
    second: str
    reader: str
    never: Mapping[str, str]
    canary: str
    journal: Path
    public_key: bytes


@dataclass(frozen=True)
class Answered:
    status: int
    body: str
    request: str


class Caller:
    """Makes requests as they are given, and keeps what was answered. Blocking: each attempt has a thread."""

    def __init__(self, served: Served, sandbox: str, conversation: str) -> None:
        self.served = served
        self.sandbox = sandbox
        self.conversation = conversation
        self.answers: list[Answered] = []

    def ask(
        self, method: str, path: str, key: str | None, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """``path`` is sent as it is. Raises ``OSError`` or ``HTTPException``."""
        parts = urlsplit(self.served.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        fields = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {key}"} if key else {}),
            **(headers or {}),
        }
        try:
            connection.request(method, path, sent, fields)
            answer = connection.getresponse()
            answered = Answered(answer.status, answer.read(MOST_ANSWER).decode("utf-8", "replace"), f"{method} {path}")
        finally:
            connection.close()
        self.answers.append(answered)
        return answered

    def leaks(self, answer: Answered) -> bool:
        return any(secret and secret in answer.body for secret in self.served.never.values())

    @property
    def said(self) -> tuple[str, ...]:
        """What was in an answer and must be in none."""
        return tuple(
            f"{what} in the answer to {one.request}"
            for one in self.answers
            for what, secret in self.served.never.items()
            if secret and secret in one.body
        )


Found = tuple[int, list[str]]


def _others(caller: Caller) -> Found:
    """Every call on another tenant's sandbox, and the same on one that there is not: the answers are the same."""
    found, unknown = [], secrets.token_hex(16)
    for method, rest, body in CALLS:
        foreign = caller.ask(method, f"/v1/sandboxes/{caller.sandbox}{rest}", caller.served.second, body)
        nobody = caller.ask(method, f"/v1/sandboxes/{unknown}{rest}", caller.served.second, body)
        if foreign.status != 404:
            found.append(f"{method} {rest or '/'}: {foreign.status}")
        elif foreign.body.replace(caller.sandbox, "") != nobody.body.replace(unknown, ""):
            found.append(f"{method} {rest or '/'}: the answer tells it from one that there is not")
    return len(CALLS), found


CALLS: Sequence[tuple[str, str, Any]] = (
    ("GET", "", None),
    ("GET", "/explain", None),
    ("GET", "/usage", None),
    ("GET", "/contexts", None),
    ("GET", "/processes", None),
    ("GET", "/files?path=secret.txt", None),
    ("GET", "/files/list?path=.", None),
    ("GET", "/tree?path=.", None),
    ("POST", "/executions", {"code": "print(1)"}),
    ("POST", "/processes", {"argv": ["true"]}),
    ("POST", "/extend", {"seconds": 1}),
    ("POST", "/pause", {}),
    ("POST", "/fork", {}),
    ("POST", "/environment", {"env": {"A": "B"}}),
    ("PUT", "/network", {"network": "none"}),
    ("POST", "/token", {"seconds": 60}),
    ("POST", "/quarantine", {"reason": "proof"}),
    ("DELETE", "", None),
)
"""On one sandbox; each changes or shows something to whom it belongs."""


def _conversation(caller: Caller) -> Found:
    """The same key of a conversation, from another tenant: another sandbox, without what the first one has."""
    made = caller.ask("POST", f"/v1/conversations/{quote(caller.conversation)}", caller.served.second, {})
    if made.status not in (200, 201):
        raise ValueError(f"a conversation of its own was answered with {made.status}")
    other = json.loads(made.body)["id"]
    read = caller.ask("GET", f"/v1/sandboxes/{other}/files?path=secret.txt", caller.served.second)
    caller.ask("DELETE", f"/v1/sandboxes/{other}", caller.served.second)
    found = ["the same sandbox"] if other == caller.sandbox else []
    return 2, found + (["the first one's file"] if read.status == 200 else [])


PLACES = ("/v1/sandboxes", "/v1/usage", "/v1/keys", "/v1/journal", "/metrics")


def _listing(caller: Caller) -> Found:
    shown = [caller.ask("GET", path, caller.served.second).body for path in PLACES]
    return len(shown), [f"listing {number}" for number, body in enumerate(shown) if caller.sandbox in body]


def _unknown(caller: Caller) -> Found:
    """Nobody, or somebody with a secret that is none, wherever it stands."""
    wrong = f"{caller.served.first[:-4]}AAAA"
    tries: list[tuple[str, str | None, Mapping[str, str]]] = [
        ("/v1/sandboxes", None, {}),
        ("/v1/sandboxes", wrong, {}),
        ("/v1/sandboxes", caller.served.first.upper(), {}),
        (f"/v1/sandboxes?api_key={caller.served.first}", None, {}),
        ("/v1/sandboxes", None, {"Authorization": f"Basic {caller.served.first}"}),
        ("/v1/sandboxes", None, {"Authorization": "Bearer "}),
        ("/v1/sandboxes", None, {"Cookie": f"key={caller.served.first}"}),
        (f"/v1/sandboxes/{caller.sandbox}", None, {}),
    ]
    return len(tries), _not_among(
        {401, 403}, (caller.ask("GET", path, key, None, fields) for path, key, fields in tries)
    )


def _more_than_given(caller: Caller) -> Found:
    """A key that may only read."""
    at = f"/v1/sandboxes/{caller.sandbox}"
    tries = [
        ("POST", f"{at}/executions", {"code": "1"}),
        ("POST", "/v1/sandboxes", {}),
        ("DELETE", at, None),
        ("POST", "/v1/keys", {"name": "x"}),
    ]
    return len(tries), _not_among(
        {403}, (caller.ask(method, path, caller.served.reader, body) for method, path, body in tries)
    )


def _paths(caller: Caller) -> Found:
    """Files of the server, by every way of saying so; its own sandbox has none of them."""
    canary = caller.served.canary
    names = (
        canary,
        f"../../../../..{canary}",
        f"/proc/self/root{canary}",
        f"/proc/1/root{canary}",
        f"file://{canary}",
        f"..%2f..%2f..{canary}",
        f"{canary}\0",
        f"/proc/1/cwd{canary}",
    )
    answers = (
        caller.ask("GET", f"/v1/sandboxes/{caller.sandbox}/files?path={quote(name, safe='')}", caller.served.first)
        for name in names
    )
    return len(names), [one.request for one in answers if one.status == 200]


def _links(caller: Caller) -> Found:
    """A link inside to a file of the server's, asked for by its own name, in a listing and in a tree."""
    at, key = f"/v1/sandboxes/{caller.sandbox}", caller.served.first
    code = f"import os\nos.symlink({caller.served.canary!r}, 'link')\nos.makedirs('d', exist_ok=True)\nos.symlink('/', 'd/root')"
    made = caller.ask("POST", f"{at}/executions", key, {"code": code})
    if made.status != 200:
        raise ValueError(f"the link was not made: {made.status}")
    names = (
        "files?path=link",
        f"files?path={quote('d/root' + caller.served.canary, safe='')}",
        "tree?path=d",
        "files/info?path=link",
    )
    return len(names), [
        one.request for one in (caller.ask("GET", f"{at}/{name}", key) for name in names) if caller.leaks(one)
    ]


def _ids(caller: Caller) -> Found:
    """Ids that could be guessed from another: a part of 32 bits that two have in common, or too few digits."""
    made = [
        json.loads(caller.ask("POST", f"/v1/conversations/ids-{number}", caller.served.first, {}).body)["id"]
        for number in range(2)
    ]
    for one in made:
        caller.ask("DELETE", f"/v1/sandboxes/{one}", caller.served.first)
    ids = [caller.sandbox, *made]
    short = [f"{len(one)} digits" for one in ids if len(one) < 32]
    shared = [
        one[at : at + 8]
        for at in range(0, 32, 8)
        for one in ids
        if sum(other[at : at + 8] == one[at : at + 8] for other in ids) > 1
    ]
    return len(ids), short + [f"a part in common: {part}" for part in shared]


EDITS = {
    "an entry changed": (
        "DROP TRIGGER entries_stay",
        "UPDATE entries SET facts = '{}' WHERE id = (SELECT max(id) FROM entries WHERE facts != '{}')",
    ),
    "an entry removed": ("DROP TRIGGER entries_remain", "DELETE FROM entries WHERE number = 2"),
    "an entry put in": (
        "INSERT INTO entries SELECT max(id) + 1, chain, max(number) + 1, at, tenant, 'forged', facts, previous, hash FROM entries",
    ),
    "another order": (
        "DROP TRIGGER entries_stay",
        "UPDATE entries SET number = -1 WHERE number = 2",
        "UPDATE entries SET number = 2 WHERE number = 3",
        "UPDATE entries SET number = 3 WHERE number = -1",
    ),
}


def _journal(caller: Caller) -> Found:
    """A copy of the server's journal, edited: the audit finds each edit. The journal itself, and a copy that nobody has edited, are whole."""
    from dayfly.journal import Verifier, audit  # lazily: it needs what only a server has installed

    verifier = Verifier(caller.served.public_key)
    with tempfile.TemporaryDirectory(prefix="dayfly-edited-") as directory:
        whole = audit(_edited(caller.served.journal, Path(directory) / "whole", ()), verifier)
        if whole:
            raise ValueError(f"the journal is not whole before anybody has edited it: {whole[0].what}")
        passed = [
            what
            for number, (what, edits) in enumerate(EDITS.items())
            if not audit(_edited(caller.served.journal, Path(directory) / str(number), edits), verifier)
        ]
    return len(EDITS), passed


def _edited(journal: Path, copy: Path, edits: Sequence[str]) -> Path:
    with (
        closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        for edit in edits:
            target.execute(edit)
        target.commit()
    return copy


def _nonsense(caller: Caller) -> Found:
    """What is no request of this API: refused as what it is, and the server stands."""
    key, at = caller.served.first, f"/v1/sandboxes/{caller.sandbox}"
    deep = b"[" * 100_000
    answers = [
        caller.ask("POST", f"{at}/executions", key, b"{"),
        caller.ask("POST", f"{at}/executions", key, deep),
        caller.ask("POST", f"{at}/executions", key, {"code": 7}),
        caller.ask("POST", f"{at}/executions", key, {"code": "1", "timeout": -1}),
        caller.ask("POST", f"{at}/executions", key, {"code": "1", "language": "../../bin/sh"}),
        caller.ask("POST", "/v1/sandboxes", key, {"policy": {"limits": {"memory": -1}}}),
        caller.ask("POST", "/v1/sandboxes", key, {"policy": {"network": [{"host": "*"}]}}),
        caller.ask("POST", "/v1/sandboxes", key, {"template": "../secret"}),
        caller.ask("GET", "/v1/sandboxes/..%2f..%2fetc%2fpasswd", key),
        caller.ask("GET", f"{at}/files/list?path=.&limit=99999999999999999999", key),
        caller.ask("TRACE", "/v1/sandboxes", key),
    ]
    return len(answers), [f"{one.request}: {one.status}" for one in answers if not 400 <= one.status < 500]


def _mounts(caller: Caller) -> Found:
    """A policy that would give a sandbox more than callers may have."""
    key = caller.served.first
    policies: list[dict[str, Any]] = [
        {"mounts": [{"source": "/etc", "target": "/mnt"}]},
        {"boundary": "fake"},
        {"image": "../../etc"},
        {"network": [{"host": "db.corp.example", "private": "10.0.0.0/8"}]},
        {"limits": {"memory": "100TiB"}},
    ]
    return len(policies), _not_among(
        range(400, 500), (caller.ask("POST", "/v1/sandboxes", key, {"policy": policy}) for policy in policies)
    )


def _page(caller: Caller) -> Found:
    """A web page in the operator's browser, and a name that was made to lead here."""
    key = caller.served.first
    tries: list[Mapping[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Host": "evil.example"},
    ]
    return len(tries), _not_among(
        {400, 403, 421}, (caller.ask("POST", "/v1/sandboxes", key, {}, fields) for fields in tries)
    )


def _guessing(caller: Caller) -> Found:
    """Wrong secrets, one after another: slowed down before long, while the right one is not."""
    statuses = [caller.ask("GET", "/v1/usage", f"dfk_{secrets.token_hex(20)}").status for _ in range(40)]
    right = caller.ask("GET", "/v1/usage", caller.served.first).status
    found = [] if 429 in statuses else ["forty guesses were answered at once"]
    return len(statuses), found + ([f"the right one was answered with {right}"] if right != 200 else [])


def _not_among(good: Sequence[int] | range | set[int], answers: Iterator[Answered]) -> list[str]:
    return [f"{one.request}: {one.status}" for one in answers if one.status not in good]


ATTEMPTS: dict[str, Callable[[Caller], Found]] = {
    "others": _others,
    "conversation": _conversation,
    "listing": _listing,
    "unknown": _unknown,
    "more_than_given": _more_than_given,
    "paths": _paths,
    "links": _links,
    "ids": _ids,
    "journal": _journal,
    "nonsense": _nonsense,
    "mounts": _mounts,
    "page": _page,
    "guessing": _guessing,
}


async def call_all(served: Served, probes: Sequence[Probe], tell: Told) -> list[Outcome]:
    """With a sandbox of the first tenant's, which has a secret; it answers its owner before the first and after the last attempt."""
    conversation = f"proof {secrets.token_hex(8)}"
    caller, why = await asyncio.to_thread(_furnished, served, conversation)
    outcomes = []
    for probe in probes:
        outcomes.append(await asyncio.to_thread(_called, caller, probe, why))
        tell(outcomes[-1])
    after = why or await asyncio.to_thread(_owned, caller)
    await asyncio.to_thread(caller.ask, "DELETE", f"/v1/sandboxes/{caller.sandbox}", served.first)
    return distrusted(outcomes, after) if after else outcomes


def _furnished(served: Served, conversation: str) -> tuple[Caller, str]:
    caller = Caller(served, "", conversation)
    made = caller.ask("POST", f"/v1/conversations/{quote(conversation)}", served.first, {})
    if made.status != 201:
        return caller, f"the first tenant's own conversation was answered with {made.status}"
    caller.sandbox = json.loads(made.body)["id"]
    put = caller.ask("PUT", f"/v1/sandboxes/{caller.sandbox}/files?path=secret.txt", served.first, served.never["the first tenant's file"].encode(),
                     {"Content-Type": "application/octet-stream"})  # fmt: skip
    return caller, "" if put.status < 300 else f"the first tenant's own file was answered with {put.status}"


def _owned(caller: Caller) -> str:
    """Why the first tenant has not what it had: an attempt has taken it away, or the server is gone."""
    try:
        read = caller.ask("GET", f"/v1/sandboxes/{caller.sandbox}/files?path=secret.txt", caller.served.first)
    except (OSError, http.client.HTTPException) as error:
        return f"the server does not answer its owner: {error}"
    if read.body != caller.served.never["the first tenant's file"]:
        return f"the first tenant's own file is answered with {read.status} now"
    return ""


def _called(caller: Caller, probe: Probe, why: str) -> Outcome:
    caller.answers.clear()
    try:
        tried, found = ATTEMPTS[probe.attempt](caller)
    except (OSError, http.client.HTTPException, ValueError, KeyError, DayflyError) as error:
        return Outcome(probe, judge(probe, Claim(failed=f"{type(error).__name__}: {error}"[:200]), Seen(control=why)))
    return Outcome(probe, judge(probe, Claim(tried), Seen(contacts=tuple(found), leaked=caller.said, control=why)))
