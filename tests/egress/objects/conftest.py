"""One store for the folder; what each test finds there is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from dayfly.egress.services.objects.service import ObjectsService
from dayfly.egress.terms import Terms
from dayfly.network import ObjectsRule
from tests.egress.objects.adapter import Adapter, adapted
from tests.egress.objects.store import BUCKET, KEY_ID, SECRET, Store, fill, running


@pytest.fixture(scope="session")
def weed() -> Iterator[Store]:
    with running() as store:
        yield store


@pytest.fixture
def store(weed: Store) -> Store:
    """With ``CONTENT`` in both buckets, and nothing else."""
    fill(weed)
    return weed


def rules(store: Store) -> list[tuple[int, ObjectsRule]]:
    """To read below one prefix, to write below another."""
    common = {"bucket": BUCKET, "endpoint": store.endpoint, "credentials": "lake-key"}
    return [
        (2, ObjectsRule(objects={**common, "prefix": "data/"}, private="127.0.0.0/8")),
        (5, ObjectsRule(objects={**common, "prefix": "out/", "access": ["read", "write", "list"]}, private="127.0.0.0/8")),
    ]  # fmt: skip


@pytest.fixture
async def gate(store: Store) -> AsyncIterator[Adapter]:
    """The service as a sandbox has it, under its own names, for clients that take it for a proxy."""
    terms = Terms(secrets={"lake-key": f"{KEY_ID}:{SECRET}"})
    async with adapted(lambda host: ObjectsService(host, rules(store), terms)) as made:
        yield made
