"""Values in the keyring of this user's session (Secret Service, KWallet, macOS, ...), through the library ``keyring``.

A keyring may ask a person to unlock it, and wait for that for ever where there is nobody: so it is asked by a process that can be killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

from pydantic import SecretStr

from dayfly.secrets.entry import Entry
from dayfly.secrets.environment import PREFIX
from dayfly.secrets.files import StoreProblem

__all__ = ["Ring"]

SECONDS = 15.0
"""For a person to unlock it, and no longer than a call may take."""

_COMMAND = (sys.executable, "-P", "-m", "dayfly.secrets.ring_child")


class Ring:
    """Everything raises ``StoreProblem``, where there is none, too."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def value(self, entry: Entry) -> SecretStr | None:
        """``None`` where it has none."""
        found = self._ask("get", entry)
        return SecretStr(found) if isinstance(found, str) else None

    def write(self, entry: Entry, value: SecretStr) -> None:
        self._ask("set", entry, value)

    def remove(self, entry: Entry) -> None:
        self._ask("remove", entry)

    def _ask(self, what: str, entry: Entry, value: SecretStr | None = None) -> object:
        if find_spec("keyring") is None:
            raise _problem("the library for it is not installed", "pip install 'dayfly[keyring]'")
        answer = self._answer(_question(what, entry, value))
        if answer is None:
            raise _problem(f"it gave no answer within {self._seconds:g} s", "unlock it, or keep the secret in a file")
        if "problem" in answer:
            raise _problem(str(answer["problem"])[:200], "keep the secret in a file, without --keyring")
        return answer.get("value")

    def _answer(self, question: SecretStr) -> dict[str, object] | None:
        """``None``: not in time. Nothing of a value is in what is raised: nothing is."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        try:
            done = subprocess.run(
                _COMMAND,
                input=question.get_secret_value().encode(),
                capture_output=True,
                timeout=self._seconds,
                env=environment,
                check=False,
            )
            answer = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return None
        except (OSError, ValueError):
            return {"problem": "it cannot be asked"}
        return answer if isinstance(answer, dict) else {"problem": "it cannot be asked"}


def _question(what: str, entry: Entry, value: SecretStr | None) -> SecretStr:
    user = json.dumps([entry.name, entry.tenant, entry.conversation])
    return SecretStr(json.dumps([what, user, None if value is None else value.get_secret_value()]))


def _problem(why: str, remedy: str) -> StoreProblem:
    return StoreProblem(f"the keyring cannot be used: {why}", clause="cannot be read from the keyring", remedy=remedy)
