"""The one file that tells a server how to be, in TOML. Every key has a default, but for the files of TLS; unknown keys are
errors."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from dayfly.errors import InputError, PolicyError
from dayfly.limits import GIB, LONGEST_LIFE, MIB, MOST_PAUSED, ByteSize, Checked, Limits, Unfit
from dayfly.policy import Policy
from dayfly.server.reach import Reach

__all__ = ["Configuration", "Overcommit", "TemplateEntry", "TenantCaps", "Tls", "load_configuration"]

MAX_FILE = 1024 * 1024
"""Bytes of the file: more is a mistake."""


class Tls(Checked):
    """PEM files."""

    certificate: Path
    key: Path


class TenantCaps(Checked):
    """What one tenant may have at a time; without a key there is no cap."""

    sandboxes: int | None = Field(None, ge=0)
    memory: ByteSize | None = Field(None, ge=0)
    """Bytes: the sum of the limits of all its sandboxes."""
    cpus: float | None = Field(None, ge=0)
    """Cores: the sum of the limits, too."""
    cpu_seconds_per_day: float | None = Field(None, ge=0)
    """CPU seconds that its sandboxes use in one day of UTC."""
    paused_bytes: ByteSize | None = Field(None, ge=0)
    """On the disk."""


class Overcommit(Checked):
    """What all sandboxes together may be promised."""

    sandboxes: int = Field(1000, ge=1)
    """Some 20 MB of memory each when idle."""
    factor: float = Field(10.0, ge=1, le=1000)
    """Times the machine's memory and cores. Ten: conversations mostly wait for a model or a person."""
    courteous: bool = True
    """Sandboxes that use much CPU let those go first that use little, and whoever else is on the machine. Needs cgroups."""


class Pausing(Checked):
    """Of sandboxes that are stopped with their memory."""

    most: ByteSize = Field(MOST_PAUSED, ge=0)
    """Bytes on the disk, of all tenants together."""
    at_stop: bool = True
    """After SIGTERM conversations are paused, not ended, so that the next start of the server finds them."""
    stop_seconds: float = Field(30.0, ge=0, le=3600)
    """For that: afterwards no more pauses are begun. systemd kills after 90."""


class Ceilings(Limits):
    """What no tenant's own policy may go beyond. Output is gathered in the server's memory, and disks are not summed."""

    cpus: float = 16
    memory: ByteSize = 64 * GIB
    processes: int = 4096
    disk: ByteSize = 20 * GIB
    shm: ByteSize = 4 * GIB
    open_files: int = 65536
    output: ByteSize = 64 * MIB
    run_seconds: float = 86400
    run_cpu_seconds: float = 86400
    lifetime_seconds: float = LONGEST_LIFE
    idle_seconds: float = LONGEST_LIFE
    cpu_seconds: float = 10 * 86400


class TemplateEntry(Checked):
    """A policy under a name, of which sandboxes wait."""

    policy: Policy = Policy()
    spares: int = Field(1, ge=0, le=1000)
    """One hides the start of a sandbox from whoever comes alone."""
    spare_seconds: float = Field(1800.0, ge=1, le=86400)
    """Until an unused one is replaced: what it has read of the time and of random numbers grows old."""
    preload: tuple[str, ...] = ()
    """Python modules that its kernel has imported before anybody comes."""


class Configuration(Checked):
    """Raises ``PolicyError``."""

    host: str = "127.0.0.1"
    """The address to listen on. Loopback: what nobody else reaches needs no TLS."""

    port: int = Field(8700, ge=0, le=65535)
    """0 takes a free one."""

    data: Path | None = None
    """Keys, journal, secrets and images; ``None``: this user's data directory."""

    secrets: Path | None = None
    """The directory of secrets that rules name; ``None``: the one in the data directory."""

    tls: Tls | None = None

    behind_proxy: bool = False
    """A reverse proxy on this machine ends TLS and checks names; its X-Forwarded-For is believed."""

    hosts: frozenset[str] = frozenset()
    """Further names by which clients may call this server (their Host header). Loopback has its own names."""

    origins: frozenset[str] = frozenset()
    """Web pages that may call it, such as ``https://notebook.example``. None: agents are no web pages."""

    connections: int = Field(1000, ge=1, le=100_000)
    """Open at a time; the next one is told 503. Descriptors are limited, and each sandbox needs some."""

    drain_seconds: int = Field(5, ge=1, le=3600)
    """For requests to end after SIGTERM. Then what still runs is interrupted."""

    machine: Overcommit = Overcommit()
    pausing: Pausing = Pausing()

    journal_days: float | None = Field(None, ge=1, le=36500)
    """Entries of the journal that are older are removed, once a day; without it all are kept."""

    prove: bool = True
    """Attack sandboxes of its own from inside, at each start and after a change of dayfly, runsc, kernel, image or policy, as
    ``dayfly prove`` does: some 30 s of a core for each template."""

    prove_hours: float = Field(24.0, ge=0.1, le=8760)
    """Until a proof is made again with nothing changed."""

    require_proof: bool = False
    """Hand out no sandbox that is not proven to be closed as it is now."""

    default_caps: TenantCaps = TenantCaps()
    """Of tenants that are not listed."""

    ceilings: Ceilings = Ceilings()
    """The most that a policy over HTTP may ask for, limit by limit. Templates are the operator's, and may have more."""

    network: Reach = Reach()
    """Where a policy over HTTP may lead to. Templates may lead anywhere."""

    tenants: Mapping[str, TenantCaps] = {}
    templates: Mapping[str, TemplateEntry] = {}

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @model_validator(mode="after")
    def _safe_to_reach(self) -> Configuration:
        if not (self.is_loopback or self.tls or self.behind_proxy):
            raise Unfit(
                f"{self.host} can be reached by others, and keys would travel unencrypted",
                "give tls.certificate and tls.key; or behind_proxy (--behind-proxy) where a proxy does that",
            )
        return self

    @model_validator(mode="after")
    def _provable(self) -> Configuration:
        if self.require_proof and not self.prove:
            raise Unfit("require_proof without prove: nobody would ever get a sandbox", "leave prove out")
        return self

    def caps_of(self, tenant: str) -> TenantCaps:
        return self.tenants.get(tenant, self.default_caps)


def load_configuration(file: Path | None, **options: object) -> Configuration:
    """The file's (or the defaults), changed by the options that are not ``None``. Raises ``InputError``."""
    data = _read(file) if file else {}
    data |= {name: value for name, value in options.items() if value is not None}
    try:
        return Configuration.model_validate(data)
    except PolicyError as error:
        place = f"{file}: " if file else ""
        raise InputError(f"{place}{error.message}", remedy=error.remedy) from error


def _read(file: Path) -> dict[str, object]:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise InputError(f"{file} is too large for a configuration", remedy="--config takes a TOML file")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read {file}: {error.strerror}", remedy="without --config the defaults hold"
        ) from error
    except ValueError as error:  # not UTF-8, not TOML
        raise InputError(f"{file} is not TOML: {error}", remedy="for example: port = 8700") from error
