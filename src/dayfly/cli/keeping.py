"""What a command does about the outputs of a policy: saved before the sandbox ends, so that the person hears of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dayfly.cli.endings import note
from dayfly.cli.printable import printable
from dayfly.client.blocking import Sandbox
from dayfly.errors import SandboxEnded, StoreFailed
from dayfly.policy import Policy
from dayfly.saved import SavedOutputs

__all__ = ["Keeping"]


class Keeping:
    """``around`` the sandbox's life, ``save`` at its end, ``tell`` when all else is told."""

    def __init__(self, policy: Policy) -> None:
        self._wanted = bool(policy.outputs)
        self._failure: StoreFailed | None = None
        self._tried = False
        self.saved: SavedOutputs | None = None

    @contextmanager
    def around(self) -> Iterator[None]:
        """A store that fails is told of later: what the code has printed is not to be lost for that."""
        try:
            yield
        except StoreFailed as error:
            if not self._tried:
                raise
            self._failure = error

    def save(self, sandbox: Sandbox) -> None:
        """A store that fails is asked once more when the sandbox ends; then it is a failure."""
        self._tried = True
        if self._wanted:
            with suppress(StoreFailed, SandboxEnded):
                self.saved = sandbox.save_outputs(last=True)

    def tell(self) -> None:
        """Raises ``StoreFailed``."""
        if self._failure is not None:
            raise self._failure
        if self.saved is None:
            if self._wanted:
                note("the outputs were saved when the sandbox ended, unless it ended by itself")
            return
        note(f"saved {len(self.saved.keys)} objects ({self.saved.size} bytes)")
        for one in self.saved.left_out:
            note(f"left out: {printable(one.path)!a} {one.reason}")
        if self.saved.left_out_count > len(self.saved.left_out):
            note(f"left out: {self.saved.left_out_count - len(self.saved.left_out)} more")

    @property
    def as_json(self) -> dict[str, Any] | None:
        return None if self.saved is None else dataclasses.asdict(self.saved)
