"""API keys of tenants, and tokens for one sandbox: shown once, stored as digests, checked at every call.

A secret has 256 random bits, so one fast digest is enough: there is nothing to guess that a slow one would protect.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayfly.errors import InputError
from dayfly.names import checked_name
from dayfly.server.errors import NoSuchKey
from dayfly.server.state import open_state, reading, writing

__all__ = ["ADMIN", "METRICS", "PROOFS", "READ", "RUN", "SCOPES", "Key", "Keys"]

READ, RUN, ADMIN = "read", "run", "admin"

SCOPES = (READ, RUN, ADMIN)
"""Each includes those before it."""

METRICS = "metrics"
"""To read the numbers of the whole server, which are no tenant's own: for ``dayfly keys`` only, and in no other scope."""

PROOFS = "proofs"
"""To read proofs whole, which say what is wrong with this machine, and to have them made: for ``dayfly keys`` only, too."""

KEY, TOKEN = "key", "token"

MOST = {KEY: 1_000, TOKEN: 10_000}
"""Secrets of a kind that a tenant may have: an administrator's loop must not fill the disk."""

ID_BYTES, SECRET_BYTES = 16, 32

MAX_SECONDS = 10 * 366 * 86400.0
"""The longest life of a key that has one."""

_SECRET = re.compile(r"df([kt])_([a-z2-7]{26})_([a-z2-7]{52})", re.ASCII)
_COLUMNS = "id, kind, tenant, name, scopes, sandbox, created, expires, revoked"


@dataclass(frozen=True)
class Key:
    """What is known of a secret. Times are seconds since 1970; ``sandbox`` is the only one that a token is for, and its
    ``name`` is the id of the key that made it."""

    id: str
    kind: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    sandbox: str | None
    created: float
    expires: float | None
    revoked: float | None

    def is_valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class Keys:
    """The keys in the file ``path``. ``now`` is the wall clock in seconds since 1970. Everything raises ``HostError``.

    ``check`` and ``holds`` belong to one thread; everything else may be called from any.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._connection = open_state(path)

    def close(self) -> None:
        self._connection.close()

    def check(self, text: str) -> Key | None:
        """The key that ``text`` is the secret of, if it is valid now."""
        match = _SECRET.fullmatch(text)
        if match is None:
            return None
        with reading(self._path):
            return self._valid(match)

    def _valid(self, match: re.Match[str]) -> Key | None:
        query = f"SELECT digest, {_COLUMNS} FROM secrets WHERE id = ?"  # noqa: S608 - constants
        row = self._connection.execute(query, (match[2],)).fetchone() or (bytes(32), None)
        if not hmac.compare_digest(row[0], _digest(match[3])) or row[1] is None:
            return None
        key = _key(row[1:])
        return key if key.kind.startswith(match[1]) and self._holds(key) else None

    def holds(self, identity: str) -> bool:
        """Whether the key or token of that id, which was checked before, is still valid."""
        with reading(self._path):
            row = self._connection.execute(f"SELECT {_COLUMNS} FROM secrets WHERE id = ?", (identity,)).fetchone()  # noqa: S608
        return row is not None and self._holds(_key(row))

    def _holds(self, key: Key) -> bool:
        """Whether it is valid now; a token is as long as the key that made it."""
        if not key.is_valid(self._now()):
            return False
        if key.kind == KEY:
            return True
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM secrets WHERE id = ?", (key.name,)).fetchone()  # noqa: S608
        return row is not None and _key(row).is_valid(self._now())

    def create(
        self, tenant: str, name: str, scopes: Iterable[str], *, expires_in: float | None = None
    ) -> tuple[Key, str]:
        """A new API key, and its secret, which nobody can ask for again. Raises ``InputError``."""
        given = _scopes(scopes)
        names = (checked_name("a tenant's name", tenant), checked_name("a key's name", name))
        return self._add(KEY, *names, given, None, expires_in)

    def create_token(self, tenant: str, sandbox: str, seconds: float, by: str) -> tuple[Key, str]:
        """A token for one sandbox, which ends with the key ``by`` at the latest. Raises ``InputError``."""
        return self._add(TOKEN, tenant, by, (RUN,), sandbox, seconds)

    def list(self, tenant: str | None = None) -> Sequence[Key]:
        """The API keys of a tenant, or of all, the revoked ones too."""
        which = "" if tenant is None else "AND tenant = ?"
        query = f"SELECT {_COLUMNS} FROM secrets WHERE kind = '{KEY}' {which} ORDER BY created, id"  # noqa: S608
        with closing(open_state(self._path)) as connection, reading(self._path):
            rows = connection.execute(query, () if tenant is None else (tenant,)).fetchall()
        return [_key(row) for row in rows]

    def revoke(self, identity: str, tenant: str | None = None) -> Key:
        """From now on nothing can be done with it, nor with the tokens that it made. A token's id will do, too.

        Raises ``NoSuchKey``, also for what is another tenant's.
        """
        found = self._find(identity)
        if found is None or tenant not in (None, found.tenant):
            raise NoSuchKey(f"no key {identity!a:.80}", remedy="see: dayfly keys list, or GET /v1/keys")
        with writing(self._path) as connection:
            change = "UPDATE secrets SET revoked = ? WHERE id = ? AND revoked IS NULL"
            connection.execute(change, (self._now(), identity))
        return self._find(identity) or found

    def _find(self, identity: str) -> Key | None:
        query = f"SELECT {_COLUMNS} FROM secrets WHERE id = ?"  # noqa: S608 - constants
        with closing(open_state(self._path)) as connection, reading(self._path):
            row = connection.execute(query, (identity,)).fetchone()
        return None if row is None else _key(row)

    def _add(
        self, kind: str, tenant: str, name: str, scopes: tuple[str, ...], sandbox: str | None, seconds: float | None
    ) -> tuple[Key, str]:
        now = self._now()
        expires = None if seconds is None else now + _seconds(seconds)
        key = Key(_random(ID_BYTES), kind, tenant, name, scopes, sandbox, now, expires, None)
        secret = _random(SECRET_BYTES)
        values = (*_row(key), _digest(secret))
        with writing(self._path) as connection:
            connection.execute(f"DELETE FROM secrets WHERE kind = '{TOKEN}' AND expires < ?", (now,))  # noqa: S608
            _make_room(connection, kind, tenant, now)
            connection.execute(
                f"INSERT INTO secrets ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                values,
            )
        return key, f"df{kind[0]}_{key.id}_{secret}"


def _make_room(connection: sqlite3.Connection, kind: str, tenant: str, now: float) -> None:
    """The oldest one that is over goes where there are too many. Raises ``InputError`` where all are valid."""
    mine = "SELECT {} FROM secrets WHERE kind = ? AND tenant = ?"
    if connection.execute(mine.format("count(*)"), (kind, tenant)).fetchone()[0] < MOST[kind]:
        return
    over = f"{mine.format('id')} AND (revoked IS NOT NULL OR expires < ?) ORDER BY created LIMIT 1"
    gone = connection.execute(f"DELETE FROM secrets WHERE id IN ({over})", (kind, tenant, now))  # noqa: S608 - constants
    if not gone.rowcount:
        raise InputError(f"this tenant has {MOST[kind]} valid {kind}s, and may have no more", remedy=f"revoke a {kind}")


def _row(key: Key) -> tuple[Any, ...]:
    scopes = " ".join(key.scopes)
    return (key.id, key.kind, key.tenant, key.name, scopes, key.sandbox, key.created, key.expires, key.revoked)


def _key(row: Sequence[Any]) -> Key:
    return Key(row[0], row[1], row[2], row[3], tuple(row[4].split()), row[5], row[6], row[7], row[8])


def _random(size: int) -> str:
    """Random bits as lower-case letters and digits."""
    return base64.b32encode(secrets.token_bytes(size)).decode("ascii").rstrip("=").lower()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    wanted = set(scopes)
    known = (*SCOPES, METRICS, PROOFS)
    if not wanted or not wanted <= set(known):
        raise InputError(f"not scopes of a key: {sorted(wanted)!a:.80}", remedy=f"there are {', '.join(known)}")
    return tuple(scope for scope in known if scope in wanted)


def _seconds(value: float) -> float:
    if not 0 < value <= MAX_SECONDS:
        raise InputError(f"a secret is valid for 0 to {MAX_SECONDS:.0f} s, not {value!r:.40}")
    return value
