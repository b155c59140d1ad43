"""The server's key: Ed25519, in a file of its own that only the server's user may read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dayfly.errors import HostError
from dayfly.journal.entry import HEAD, Head

__all__ = ["Signer", "Verifier"]

KEY_BYTES = 32
"""Of an Ed25519 key (RFC 8032)."""


class Verifier:
    """Judges signatures with a public key of 32 bytes."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        self._key = Ed25519PublicKey.from_public_bytes(public)

    def accepts(self, head: Head, signature: bytes, purpose: str = HEAD) -> bool:
        try:
            self._key.verify(signature, head.statement(purpose))
        except InvalidSignature:
            return False
        return True


class Signer:
    """Signs heads. ``load`` makes the key where there is none."""

    def __init__(self, secret: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def load(cls, path: Path) -> Signer:
        """Raises ``HostError`` for a key that others may read, or that is none."""
        with suppress(FileExistsError):
            _create(path)
        return cls.existing(path)

    @classmethod
    def existing(cls, path: Path) -> Signer:
        """For whoever only reads. Raises ``HostError`` as ``load``, and where there is no key."""
        if not path.exists():
            raise HostError(f"there is no key {path}", remedy="restore it from a backup: it signed what is there")
        if path.stat().st_mode & 0o077:
            raise HostError(
                f"others may read the key {path}", remedy=f"chmod 600 {path}, and think of making a new one"
            )
        secret = path.read_bytes()
        if len(secret) != KEY_BYTES:
            raise HostError(f"{path} is not a key of {KEY_BYTES} bytes", remedy="restore it from a backup")
        return cls(secret)

    @property
    def verifier(self) -> Verifier:
        return Verifier(self._key.public_key().public_bytes_raw())

    def sign(self, head: Head, purpose: str = HEAD) -> bytes:
        return self._key.sign(head.statement(purpose))


def _create(path: Path) -> None:
    """Written whole under another name first: two servers that start at once have one key, and a crash leaves no half."""
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, Ed25519PrivateKey.generate().private_bytes_raw())
        os.fsync(descriptor)
        os.link(staged, path)
    finally:
        os.close(descriptor)
        staged.unlink()
