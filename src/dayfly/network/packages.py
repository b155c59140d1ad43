"""Packages by name, from the index that the host is set to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from dayfly.limits import KIB, Checked, Unfit
from dayfly.network.base import BaseRule, Place
from dayfly.network.entries import NodeEntry, PythonEntry, node_entry, python_entry

__all__ = ["MOST_OF_ONE", "MOST_PACKAGES", "MOST_TEXT", "PACKAGES_HOST", "PackageKind", "Packages", "PackagesRule"]

PackageKind = Literal["python", "node"]

PACKAGES_HOST = "packages.dayfly.internal"
"""Where the indexes are inside, in plain HTTP: what is spoken there goes no further than to the gateway."""

MOST_PACKAGES = 4000
"""Entries of one list. Lock files of large web projects have 2,000."""

MOST_OF_ONE = 128
"""Entries of one name: each is compared with every version that there is. Lock files have a handful."""

MOST_TEXT = 512 * KIB
"""Characters of one list, of which hashes are the most. It is kept with the sandbox and told to the gateway."""


class Packages(Checked):
    """Raises ``PolicyError``. Entries are kept in one spelling: ``numpy>=2,<3``, ``ruff==0.9.1 --hash=sha256:...``;
    ``left-pad``, ``@scope/name@^1.2.3``, ``react@19.0.0 sha512-...``. A name that is there more than once may have any of these."""

    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()

    min_age: int = Field(0, ge=0, le=3650)
    """Days that a file has been at the index. A week or two is what it takes for most bad ones to be found."""

    wheels_only: bool = True
    """Of Python packages: nothing that runs code of its own while it is installed."""

    @field_validator("python", mode="before")
    @classmethod
    def _of_python(cls, entries: object) -> object:
        return _listed(entries, python_entry)

    @field_validator("node", mode="before")
    @classmethod
    def _of_node(cls, entries: object) -> object:
        return _listed(entries, node_entry)

    @model_validator(mode="after")
    def _names_some(self) -> Packages:
        if not self.python and not self.node:
            raise Unfit("packages names none", "give python = ['name', ...] or node = ['name', ...]")
        return self


def _listed(entries: object, read: Callable[[str], PythonEntry | NodeEntry]) -> tuple[str, ...]:
    if not isinstance(entries, (list, tuple)) or len(entries) > MOST_PACKAGES:
        raise Unfit(f"not a list of at most {MOST_PACKAGES} packages: {entries!a:.80}", "write it as ['name', ...]")
    if any(isinstance(one, Mapping) for one in entries):
        raise Unfit(
            "a lock file is read where a policy's file is, by dayfly run --policy and dayfly shell --policy", _LOCK
        )
    if not all(isinstance(one, str) for one in entries):
        raise Unfit(f"not a list of names: {entries!a:.80}", "write it as ['name', ...]")
    if "*" in entries:
        raise Unfit(
            "a star stands for no packages", "name each, or have a lock file do it: {lock = 'requirements.txt'}"
        )
    found = {str(entry): entry.name for entry in map(read, entries)}
    [(name, times)] = Counter(found.values()).most_common(1) or [("", 0)]
    if times > MOST_OF_ONE:
        raise Unfit(f"{name} is there {times} times", f"name it {MOST_OF_ONE} times at most, with ranges of versions")
    if sum(map(len, found)) > MOST_TEXT:
        raise Unfit(f"the list has more than {MOST_TEXT} characters", "name packages without hashes, or fewer of them")
    return tuple(found)


_LOCK = "elsewhere give what is in it: dayfly.locks.python_lock(path) and node_lock(path) return lists of entries"


class PackagesRule(BaseRule):
    packages: Packages

    @property
    def places(self) -> tuple[Place, ...]:
        return ((PACKAGES_HOST, (80,)),)

    @property
    def leads_to(self) -> None:
        return None

    @property
    def key(self) -> tuple[object, ...]:
        return ("packages",)

    @property
    def spoken(self) -> Literal["http"]:
        return "http"

    @property
    def service(self) -> Literal["packages"]:
        return "packages"

    @property
    def environment(self) -> Mapping[str, str]:
        """For pip, uv and npm: where the indexes are, and nothing that they would ask there in vain."""
        python, node = f"http://{PACKAGES_HOST}/python/simple/", f"http://{PACKAGES_HOST}/node/"
        return {
            "PIP_INDEX_URL": python,
            "PIP_TRUSTED_HOST": PACKAGES_HOST,
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_RETRIES": "1",
            "UV_DEFAULT_INDEX": python,
            "UV_INDEX_URL": python,
            "UV_HTTP_RETRIES": "1",
            "npm_config_registry": node,
            "npm_config_audit": "false",
            "npm_config_fund": "false",
            "npm_config_update_notifier": "false",
            "npm_config_fetch_retries": "1",
        }
