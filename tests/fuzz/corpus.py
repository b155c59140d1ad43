"""Inputs that are kept: findings of former days, in the repository, and where a long run has got to, beside it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.fuzz.target import Target
from tests.fuzz.targets import answers, api, gateway, http, outputs, servers, stream, tree, tunnels

__all__ = ["FINDINGS", "TARGETS", "WORK", "Shelf", "kept"]

HERE = Path(__file__).parent
WORK = HERE.parents[1] / ".fuzz"
FINDINGS = WORK / "findings"

TARGETS: dict[str, Target] = {
    one.name: one
    for place in (stream, tunnels, tree, gateway, http, outputs, servers, answers, api)
    for one in place.TARGETS
}


def kept(target: str) -> dict[str, bytes]:
    """By its name, which says what it was."""
    return {path.name: path.read_bytes() for path in sorted((HERE / "corpus" / target).glob("*")) if path.is_file()}


class Shelf:
    """A directory of inputs by their digest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True)

    def all(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self._path.iterdir())]

    def put(self, data: bytes) -> Path:
        path = self._path / sha256(data).hexdigest()[:16]
        path.write_bytes(data)
        return path
