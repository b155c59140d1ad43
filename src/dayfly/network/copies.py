"""One prefix of a bucket as files: what is copied into a sandbox before it is anybody's, and out of it when it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from dayfly.limits import GIB, KIB, ByteSize, Unfit
from dayfly.network.objects import Access, BucketPrefix, Objects, ObjectsRule, check_way
from dayfly.network.ranges import private_range

__all__ = ["MOST_COPIES", "Input", "Output", "refuse_overlapping"]

MOST_COPIES = 16
"""Inputs, and as many outputs, of one sandbox: each is listed, admitted and written down by itself."""

LONGEST_DIRECTORY = 1024
"""Bytes as UTF-8: so that there is room behind it for a key, within Linux's 4096."""

_HOME = "/home/user"
"""What relative directories are below, wherever users are kept apart."""

_LONGEST_NAME = 255  # bytes: Linux's NAME_MAX
_NOT_IN_A_DIRECTORY = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_HOW_DIRECTORY = "write it as 'in' or 'work/in', which are below the home, or from / on"


class _Copy(BucketPrefix):
    """What both have. ``rule`` is what a sandbox's own requests would need for it: it is judged by that, and kept to it."""

    private: IPv4Network | IPv6Network | None = None
    """Private addresses that the endpoint's name may lead to: exactly these."""

    max_bytes: ByteSize | None = Field(None, ge=1 * KIB, le=1024 * GIB)
    """Both directions together, for one sandbox's life. None: no cap but the sandbox's disk."""

    @field_validator("private", mode="before")
    @classmethod
    def _inside_a_private_range(cls, value: object) -> object:
        return None if value is None else private_range(value)

    @model_validator(mode="after")
    def _safely_there(self) -> Self:
        check_way(self, self.private)
        return self

    @property
    def directory(self) -> str:
        """Inside: absolute, or relative to the home."""
        raise NotImplementedError

    @property
    def rule(self) -> ObjectsRule:
        raise NotImplementedError

    def _rule(self, *access: Access) -> ObjectsRule:
        there = {name: getattr(self, name) for name in BucketPrefix.model_fields}
        return ObjectsRule(objects=Objects(**there, access=access), private=self.private, max_bytes=self.max_bytes)


class Input(_Copy):
    """Raises ``PolicyError``."""

    to: str = "inputs"
    """The directory that the objects become files in, relative to the home or absolute."""

    @field_validator("to")
    @classmethod
    def _a_directory(cls, to: str) -> str:
        return _directory(to)

    @property
    def directory(self) -> str:
        return self.to

    @property
    def rule(self) -> ObjectsRule:
        return self._rule("read", "list")


class Output(_Copy):
    """Raises ``PolicyError``."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    from_: str = Field("outputs", alias="from")
    """``from``: the directory whose files become objects, relative to the home or absolute."""

    @field_validator("from_")
    @classmethod
    def _a_directory(cls, from_: str) -> str:
        return _directory(from_)

    @property
    def directory(self) -> str:
        return self.from_

    @property
    def rule(self) -> ObjectsRule:
        return self._rule("write")


def _directory(path: str) -> str:
    """In its one spelling. Raises ``Unfit``."""
    if _NOT_IN_A_DIRECTORY.search(path) or len(path.encode()) > LONGEST_DIRECTORY:
        raise Unfit(f"{path!a:.80} has a backslash or a control character, or is too long", _HOW_DIRECTORY)
    names = path.removeprefix("/").removesuffix("/").split("/")
    if any(name in ("", ".", "..") or len(name.encode()) > _LONGEST_NAME for name in names):
        raise Unfit(f"{path!a:.80} is not names with a slash between each two", _HOW_DIRECTORY)
    return path.removesuffix("/")


def refuse_overlapping(ones: Sequence[_Copy], key: str, *, places: bool) -> None:
    """Directories that are in each other; with ``places``, places in a store too. ``key`` is what the policy calls them. Raises ``Unfit``."""
    if len(ones) > MOST_COPIES:
        raise Unfit(f"{len(ones)} {key} are too many", f"give at most {MOST_COPIES}: a prefix is for many objects")
    for index, one in enumerate(ones):
        for other in ones[:index]:
            if _one_in_the_other(_whole(one.directory), _whole(other.directory)):
                raise Unfit(f"{key} have directories in each other: {one.directory!a:.80}", "give each its own")
            same = (one.endpoint, one.bucket) == (other.endpoint, other.bucket)
            if places and same and _one_in_the_other(one.prefix, other.prefix):
                raise Unfit(f"{key} would write the same keys, in {one.rule.objects.place!a:.120}", "give each its own")


def _whole(directory: str) -> str:
    return f"{directory}/" if directory.startswith("/") else f"{_HOME}/{directory}/"


def _one_in_the_other(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
