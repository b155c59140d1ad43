"""What rules need beside themselves, on this machine: its store of secrets, and its package indexes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dayfly.indexes import MachineIndexes
from dayfly.network import PackageKind, RuleList
from dayfly.owner import Owner
from dayfly.secrets import Vault

__all__ = ["MachineMeans"]


class MachineMeans:
    """The ``Means`` of an ``Outlet``. On one loop."""

    def __init__(self, vault: Vault, indexes: MachineIndexes) -> None:
        self._vault = vault
        self._indexes = indexes

    @classmethod
    def at(cls, secrets: Path) -> MachineMeans:
        """``secrets``: the directory of the store, which need not be there."""
        return cls(Vault.at(secrets), MachineIndexes())

    async def secrets(self, rules: RuleList, owner: Owner) -> dict[str, str]:
        """See ``Means.secrets``."""
        if not any(rule.secrets for rule in rules):
            return {}
        return (await asyncio.to_thread(self._vault.resolve, rules, owner)).whole()

    async def indexes(self, rules: RuleList) -> dict[PackageKind, str]:
        """See ``Means.indexes``."""
        return await self._indexes.of(rules)
