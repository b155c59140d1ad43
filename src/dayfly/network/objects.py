"""One prefix of one bucket, in an object store that speaks S3."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from dayfly.limits import Checked
from dayfly.network.grant import Grant, Place
from dayfly.network.inject import secret_name  # noqa: F401

__all__ = ["OBJECTS_HOST", "Objects", "ObjectsRule"]

OBJECTS_HOST = "objects.dayfly.internal"
"""Where the object store is inside, in plain HTTP: what is spoken there goes no further than to the gateway."""


class Objects(Checked):
    """Raises ``PolicyError``."""

    bucket: str
    prefix: str = ""
    access: frozenset[Literal["read", "write", "list"]] = frozenset({"read", "list"})
    endpoint: str
    region: str = "us-east-1"
    credentials: str
    """The name of a secret whose value is ``KEY_ID:SECRET`` or ``KEY_ID:SECRET:SESSION_TOKEN``."""


class ObjectsRule(Grant):
    objects: Objects

    @property
    def places(self) -> tuple[Place, ...]:
        return ((OBJECTS_HOST, (80,)), (f"{self.objects.bucket}.{OBJECTS_HOST}", (80,)))

    @property
    def leads_to(self) -> str:
        return urlsplit(self.objects.endpoint).hostname or ""

    @property
    def key(self) -> tuple[object, ...]:
        one = self.objects
        return "objects", one.endpoint, one.bucket, one.prefix, one.access

    @property
    def spoken(self) -> Literal["http"]:
        return "http"

    @property
    def service(self) -> Literal["objects"]:
        return "objects"

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset({self.objects.credentials})
