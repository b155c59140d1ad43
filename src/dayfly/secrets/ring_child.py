"""``python -m dayfly.secrets.ring_child``: one question to the keyring on stdin, its answer on stdout, both JSON."""

from __future__ import annotations

import json
import sys

SERVICE = "dayfly"


def answer(what: str, user: str, value: str | None) -> dict[str, object]:
    import keyring.core
    import keyring.errors

    keyring.core.init_backend(keyring.core.recommended)
    ring = keyring.core.get_keyring()
    if not keyring.core.recommended(ring):  # one that fails, forgets, or keeps in plain text
        return {"problem": "there is none here"}
    try:
        if what == "get":
            return {"value": ring.get_password(SERVICE, user)}
        if what == "set":
            ring.set_password(SERVICE, user, value or "")
        else:
            ring.delete_password(SERVICE, user)
    except keyring.errors.PasswordDeleteError:  # it was not there
        return {}
    return {}


def main() -> None:
    try:
        told = answer(*json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - of any backend; its own words may have the value in them
        told = {"problem": f"it failed ({type(error).__name__})"}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
