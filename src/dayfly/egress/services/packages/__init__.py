"""Packages: the indexes as a sandbox sees them, made of what the host's own indexes say and the rule lists."""

from __future__ import annotations

from dayfly.egress.services.packages.service import PackagesService

__all__ = ["PackagesService"]
