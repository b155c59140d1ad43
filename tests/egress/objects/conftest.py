"""One store for the folder; what each test finds there is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from dayfly.egress.services.objects.service import ObjectsService
from dayfly.egress.terms import Terms
from dayfly.network import ObjectsRule
from tests.egress.objects.adapter import Adapter, adapted
from tests.egress.objects.store import BUCKET, KEY_ID, OTHER, SECRET, Store, running

CONTENT = {
    "data/a.csv": b"x,y\n1,2\n3,4\n",
    "data/sub/b.txt": b"bee",
    "data-other/secret.txt": b"of others",
    "other/secret.txt": b"of others",
    "secret.txt": b"of others",
}


@pytest.fixture(scope="session")
def weed() -> Iterator[Store]:
    with running() as store:
        yield store


@pytest.fixture
def store(weed: Store) -> Store:
    """With ``CONTENT`` in both buckets, and nothing else."""
    owner = weed.owner()
    for bucket in (BUCKET, OTHER):
        there = {one["Key"] for one in owner.list_objects_v2(Bucket=bucket).get("Contents", [])}
        for key in there - set(CONTENT):
            owner.delete_object(Bucket=bucket, Key=key)
        for key, data in CONTENT.items():
            owner.put_object(Bucket=bucket, Key=key, Body=data)
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
