"""One prefix of one bucket, in an object store that speaks S3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, get_args
from urllib.parse import SplitResult, urlsplit

from pydantic import field_validator, model_validator

from dayfly.hosts import BadHost, IsAddress, canonical
from dayfly.limits import Checked, Unfit
from dayfly.network.base import BaseRule, Place
from dayfly.network.inject import secret_name

__all__ = ["LONGEST_PREFIX", "OBJECTS_HOST", "Access", "BucketPrefix", "Objects", "ObjectsRule", "check_way"]

OBJECTS_HOST = "objects.dayfly.internal"
"""Where the object store is inside, in plain HTTP: what is spoken there goes no further than to the gateway."""

LONGEST_PREFIX = 512
"""Bytes as UTF-8: half of what a key may have, so that there is room for names."""

Access = Literal["read", "write", "list"]

_BUCKET = re.compile(r"(?=.{3,63}\Z)[a-z0-9](?:[a-z0-9]|-(?!\.)|\.(?![.-]))*[a-z0-9]")
_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_NOT_IN_A_PREFIX = re.compile(r"[\x00-\x1f\x7f\\%*?\ud800-\udfff]")
_PORTS = {"https": 443, "http": 80}


class BucketPrefix(Checked):
    """One prefix of one bucket, where it is, and whose credentials open it. Raises ``PolicyError``."""

    bucket: str

    prefix: str
    """Of the keys, with the slash that it ends with. ``""`` is the whole bucket, which is to be said."""

    endpoint: str
    """The store's URL: ``https://HOST`` or ``https://HOST:PORT``. Buckets are asked for by path there."""

    region: str = "us-east-1"

    credentials: str
    """The name of a secret whose value is ``KEY_ID:SECRET`` or ``KEY_ID:SECRET:SESSION_TOKEN``."""

    @field_validator("bucket")
    @classmethod
    def _a_bucket(cls, bucket: str) -> str:
        if not _BUCKET.fullmatch(bucket) or _ADDRESS.fullmatch(bucket):
            raise Unfit(f"not a bucket's name: {bucket!a:.80}", "3 to 63 of a-z, 0-9, '-' and '.', such as 'my-data'")
        return bucket

    @field_validator("prefix")
    @classmethod
    def _a_prefix(cls, prefix: str) -> str:
        if _NOT_IN_A_PREFIX.search(prefix):
            raise Unfit(
                f"{prefix!a:.80} has a star, a question mark, a percent sign, a backslash or a control character",
                "write it as it is: 'data/' stands for every key that begins so",
            )
        if prefix and (not prefix.endswith("/") or any(one in ("", ".", "..") for one in prefix[:-1].split("/"))):
            raise Unfit(
                f"{prefix!a:.80} is not names with a slash behind each",
                "write 'data/', or 'data/2026/': without its last slash it would name 'data-of-others/' too",
            )
        if len(prefix.encode()) > LONGEST_PREFIX:
            raise Unfit(f"{prefix!a:.80} is longer than {LONGEST_PREFIX} bytes", "name a place further up")
        return prefix

    @field_validator("endpoint")
    @classmethod
    def _one_spelling(cls, endpoint: str) -> str:
        parts = _split(endpoint)
        try:
            host, port = canonical(parts.hostname or ""), parts.port
        except BadHost as error:
            hint = "give it a name in DNS" if isinstance(error, IsAddress) else _HOW_ENDPOINT
            raise Unfit(f"the host of {endpoint!a:.80} {error}", hint) from None
        except ValueError:
            raise Unfit(f"{endpoint!a:.80} has no port of 1 to 65535", _HOW_ENDPOINT) from None
        if port == 0:
            raise Unfit(f"{endpoint!a:.80} has no port of 1 to 65535", _HOW_ENDPOINT)
        return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")

    @field_validator("region")
    @classmethod
    def _a_region(cls, region: str) -> str:
        if not _REGION.fullmatch(region):
            raise Unfit(f"not a region: {region!a:.80}", "such as 'eu-central-1'; many stores take any")
        return region

    @field_validator("credentials")
    @classmethod
    def _a_name(cls, credentials: str) -> str:
        return secret_name(credentials)

    @property
    def place(self) -> str:
        """For a person: ``s3://BUCKET/PREFIX``."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def scheme(self) -> Literal["https", "http"]:
        return "http" if self.endpoint.startswith("http:") else "https"

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.endpoint).port or _PORTS[self.scheme]


class Objects(BucketPrefix):
    """Raises ``PolicyError``."""

    access: tuple[Access, ...] = ("read", "list")
    """``write`` is to put, to copy to, and to delete."""

    @field_validator("access", mode="before")
    @classmethod
    def _in_one_order(cls, access: object) -> object:
        given = [access] if isinstance(access, str) else access
        known: tuple[str, ...] = get_args(Access)
        if not isinstance(given, (list, tuple, set, frozenset)) or not given or not set(given) <= set(known):
            raise Unfit(f"not what may be done: {access!a:.80}", "write access = ['read', 'list'], or with 'write'")
        return tuple(one for one in known if one in given)


class ObjectsRule(BaseRule):
    objects: Objects

    @model_validator(mode="after")
    def _safely_there(self) -> ObjectsRule:
        check_way(self.objects, self.private)
        return self

    @property
    def places(self) -> tuple[Place, ...]:
        return ((OBJECTS_HOST, (80,)), (f"{self.objects.bucket}.{OBJECTS_HOST}", (80,)))

    @property
    def leads_to(self) -> str:
        return self.objects.host

    @property
    def key(self) -> tuple[object, ...]:
        one = self.objects
        return "objects", one.endpoint, one.bucket, one.prefix, one.access

    @property
    def counted(self) -> tuple[object, ...]:
        """All rules for objects together: one connection serves all of them."""
        return ("objects",)

    @property
    def spoken(self) -> Literal["http"]:
        return "http"

    @property
    def service(self) -> Literal["objects"]:
        return "objects"

    @property
    def secrets(self) -> frozenset[str]:
        return frozenset({self.objects.credentials})

    @property
    def environment(self) -> Mapping[str, str]:
        """What the AWS SDKs and tools look for. The credentials are there since without any they ask for none and sign nothing;
        they are nobody's, and the gateway takes them off."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://{OBJECTS_HOST}",
            "AWS_ACCESS_KEY_ID": "dayfly-has-the-credentials-outside",
            "AWS_SECRET_ACCESS_KEY": "dayfly-has-the-credentials-outside",
            "AWS_REGION": self.objects.region,
            "AWS_DEFAULT_REGION": self.objects.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # stores other than Amazon's often know no trailers
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
            "AWS_ALLOW_HTTP": "true",  # of Rust's object_store, so of polars and deltalake
        }


def check_way(one: BucketPrefix, private: IPv4Network | IPv6Network | None) -> None:
    """Whether it may be asked for over the network that is between. Raises ``Unfit``."""
    if private is not None:
        return
    if one.scheme == "http":
        raise Unfit(
            f"{one.endpoint!a:.80} is plain HTTP, in which everybody on the way reads along",
            "write https://; for a store in a private network of yours add private = 'CIDR'",
        )
    if "." not in one.host:
        raise Unfit(
            f"{one.host!r} is a single label, which means something else on every network",
            "write the whole name; for a host of a private network add private = 'CIDR'",
        )


_HOW_ENDPOINT = "write it as 'https://s3.eu-central-1.amazonaws.com', or with a port"


def _split(endpoint: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        raise Unfit(f"not a URL: {endpoint!a:.80}", _HOW_ENDPOINT) from None
    more = parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc or "?" in endpoint
    if parts.scheme not in _PORTS or not parts.hostname or more or endpoint != endpoint.strip():
        raise Unfit(f"not the URL of a host alone: {endpoint!a:.80}", _HOW_ENDPOINT)
    return parts
