"""The bucket of the tests' object store, as policies name it."""

from __future__ import annotations

from typing import Any

from dayfly.manager.outlet import NoMeans
from dayfly.network import RuleList
from dayfly.owner import Owner
from tests.egress.objects.store import BUCKET, KEY_ID, SECRET, Store
from tests.network.world import STORE

__all__ = ["Keys", "place"]


class Keys(NoMeans):
    """The store's credentials, for the rules that name them."""

    async def secrets(self, rules: RuleList, owner: Owner) -> dict[str, str]:
        return {"lake-key": f"{KEY_ID}:{SECRET}"}


def place(store: Store, prefix: str, **more: Any) -> dict[str, Any]:
    """One prefix of it, in the words of a policy's inputs and outputs."""
    endpoint = f"https://{STORE}:{store.secure_port}"
    common = {"bucket": BUCKET, "endpoint": endpoint, "credentials": "lake-key", "private": "127.0.0.0/8"}
    return {**common, "prefix": prefix, **more}
