"""What the routes work with, made once for each server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

from fastapi import Depends
from fastapi.requests import HTTPConnection

from dayfly.manager import Tenants
from dayfly.server.attached import Attached
from dayfly.server.config import Configuration
from dayfly.server.failures import Failures
from dayfly.server.keys import Keys
from dayfly.server.metrics import Metrics
from dayfly.server.proving import Proving
from dayfly.server.running import Executions

__all__ = ["HasServices", "Services", "services_of"]


@dataclass
class Services:
    """``unready`` says why no sandbox can be made now, or ``None``. ``journal`` is the file to read, if there is one, and
    ``public_key`` what its heads are signed with. ``proving`` is ``None`` where no proofs are made."""

    tenants: Tenants
    keys: Keys
    unready: Callable[[], Awaitable[str | None]]
    configuration: Configuration = field(default_factory=Configuration)
    failures: Failures = field(default_factory=Failures)
    executions: Executions = field(default_factory=Executions)
    attached: Attached = field(default_factory=Attached)
    metrics: Metrics = field(default_factory=Metrics)
    proving: Proving | None = None
    journal: Path | None = None
    public_key: bytes = b""


def services_of(connection: HTTPConnection) -> Services:
    return cast(Services, connection.app.state.services)


async def _services(connection: HTTPConnection) -> Services:
    return services_of(connection)


HasServices = Annotated[Services, Depends(_services)]
