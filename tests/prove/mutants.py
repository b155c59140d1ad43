"""The product with one wall taken away, each: what the proof must catch, and by which probe."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import pytest

from dayfly.boundaries.gvisor import command, oci, start
from dayfly.boundaries.gvisor.abilities import detect
from dayfly.cli.proving import Here
from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import NoSuchSandbox
from dayfly.manager.conversations import Conversations
from dayfly.manager.outlet import Outlet
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.registry import Registry
from dayfly.network import BaseRule, Inject, Rule
from dayfly.network.objects import ObjectsRule
from dayfly.network.packages import Packages, PackagesRule
from dayfly.policy import Policy
from dayfly.prove import RULES, World, services
from dayfly.prove.session import VARIABLE
from dayfly.prove.world import DENIED, INWARD, PATHS, PLAIN, TCP, TLS, WILD
from dayfly.sandbox.snapshot import Renewed, SnapshotCalls
from dayfly.server import auth, guard
from dayfly.server.failures import Failures
from dayfly.server.keys import Keys

__all__ = ["MUTANTS", "Mutant"]

Remove = Callable[[pytest.MonkeyPatch], None]


def nothing(patch: pytest.MonkeyPatch) -> None:
    """The ground itself lacks the wall."""


@dataclass(frozen=True)
class Mutant:
    """``caught_by``: the probe that must be red. ``remove`` takes the wall away; ``ground`` makes sandboxes. ``possible``: whether this
    machine has that wall."""

    name: str
    caught_by: str
    remove: Remove = nothing
    ground: Callable[[], Here] = lambda: Here(POLICY)
    possible: Callable[[], bool] = lambda: True


POLICY = Policy(image="python")


# --- the boundary -----------------------------------------------------------------------------------------------------


def host_network(patch: pytest.MonkeyPatch) -> None:
    flags = command.runsc_flags

    def with_network(*arguments: Any) -> Sequence[str]:
        return [flag.replace("--network=none", "--network=host") for flag in flags(*arguments)]

    patch.setattr("dayfly.boundaries.gvisor.command.runsc_flags", with_network)
    shared(patch, "network")


def shared(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Without a namespace of that kind."""
    typed = oci._typed
    patch.setattr(oci, "_typed", lambda names: typed([name for name in names if name != kind]))


def mounted(source: Callable[[], str], target: str) -> Remove:
    """A directory of the host's is inside."""

    def remove(patch: pytest.MonkeyPatch) -> None:
        mounts = oci._mounts
        where = source()
        patch.setattr(oci, "_mounts", lambda spec, layout: [*mounts(spec, layout), oci._bind(where, target)])

    return remove


def directory_with(name: str, content: str = "secret", mode: int = 0o644) -> Callable[[], str]:
    def made() -> str:
        directory = Path(tempfile.mkdtemp(prefix="mutant-"))
        directory.chmod(0o755)
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content)
        (directory / name).chmod(mode)
        return str(directory)

    return made


def variable_inside(patch: pytest.MonkeyPatch) -> None:
    process = oci._process
    patch.setattr(
        oci, "_process", lambda spec: {**process(spec), "env": [*oci.ENVIRONMENT, f"LEAKED={os.environ[VARIABLE]}"]}
    )


def named_like_the_host(patch: pytest.MonkeyPatch) -> None:
    config = oci.oci_config

    def named(*arguments: Any) -> dict[str, Any]:
        return {**config(*arguments), "hostname": os.uname().nodename}

    patch.setattr(start, "oci_config", named)


# --- names ------------------------------------------------------------------------------------------------------------


def ruled(*more: Rule, without: Sequence[str] = ()) -> Callable[[], Here]:
    """A policy that allows what it must not."""
    kept = tuple(rule for rule in RULES if rule.host not in without)
    return lambda: Here(POLICY, rules=(*kept, *more))


OBJECTS, CALLS, PACKAGES = services.RULES


def lent(*rules: BaseRule) -> Callable[[], Here]:
    """Other rules for the proof's own services."""
    return lambda: Here(POLICY, supplies=rules)


def of_objects(**changed: Any) -> ObjectsRule:
    assert isinstance(OBJECTS, ObjectsRule)
    return OBJECTS.model_copy(update={"objects": OBJECTS.objects.model_copy(update=changed)})


def of_calls(**changed: Any) -> Rule:
    assert isinstance(CALLS, Rule)
    return CALLS.model_copy(update=changed)


def of_packages(*python: str, wheels_only: bool = True) -> PackagesRule:
    return PackagesRule(packages=Packages(python=python, wheels_only=wheels_only))


class Telling(Here):
    """A rule's secret is inside."""

    def supplied(self, elsewhere: World) -> AsyncSandbox:
        made = super().supplied(elsewhere)
        made._env = {"KEY_OF_AN_API": elsewhere.services.api_key}
        return made


class Forwarding(Outlet):
    """Asks the name server for whatever it is asked for, and judges then."""

    def __init__(self, elsewhere: World) -> None:
        super().__init__(elsewhere.start)
        self._elsewhere = elsewhere

    async def connect(self, sandbox: str, host: str, port: int, early: bytes = b"") -> Any:
        self._elsewhere.names.asked.append(host)
        return await super().connect(sandbox, host, port, early)


class ForwardingHere(Here):
    def named(self, elsewhere: World) -> AsyncSandbox:
        from dayfly.manager import embedded

        self._managers.append(embedded(Forwarding(elsewhere)))
        return AsyncSandbox(self.policy.model_copy(update={"network": self.rules}), opener=self._managers[-1])


# --- sandboxes beside each other --------------------------------------------------------------------------------------


class OneForAll(Here):
    """Whoever asks for a sandbox gets the same."""

    def closed(self) -> Any:
        if not hasattr(self, "_one"):
            self._one = super().closed()
        return self._shared()

    @asynccontextmanager
    async def _shared(self) -> Any:
        if self._one._backend is None:
            await self._one.open()
        yield self._one

    async def __aexit__(self, *why: Any) -> None:
        await self._one.close()
        await super().__aexit__(*why)


# --- the server -------------------------------------------------------------------------------------------------------


def anybodys_sandbox(patch: pytest.MonkeyPatch) -> None:
    def find(self: Registry, tenant: str, sandbox: str) -> Any:
        for one in self.all():
            if one.id == sandbox:
                return one
        raise NoSuchSandbox(f"no sandbox {sandbox!a:.80}", remedy="open a new one")

    patch.setattr(Registry, "find", find)


def anybodys_conversation(patch: pytest.MonkeyPatch) -> None:
    kept = Conversations.get_or_create

    async def get_or_create(self: Conversations[Any], tenant: str, *rest: Any) -> Any:
        return await kept(self, "everybody", *rest)

    patch.setattr(Conversations, "get_or_create", get_or_create)
    anybodys_sandbox(patch)


def everybodys_listing(patch: pytest.MonkeyPatch) -> None:
    kept = Registry.all
    patch.setattr(Registry, "all", lambda self, tenant=None: kept(self))


def any_key(patch: pytest.MonkeyPatch) -> None:
    kept = Keys.check

    def check(self: Keys, secret: str) -> Any:
        return kept(self, secret) or next(iter(self.list()))

    patch.setattr(Keys, "check", check)


def any_scope(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(auth.Caller, "may", lambda self, scope: True)


def endless_guesses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Failures, "note", lambda self, address: 0.0)


def any_page(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guard.Guard, "_check_page", lambda self, origin, site: None)
    patch.setattr(guard.Guard, "_check_host", lambda self, host: None)


def believed_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dayfly.prove.callers.audit", lambda path, verifier: [])


def guessable_ids(patch: pytest.MonkeyPatch) -> None:
    """A part of each is the same."""
    patch.setattr(
        "dayfly.manager.manager.secrets", SimpleNamespace(token_hex=lambda size: f"7f3a91c2{token_hex(size)[8:]}")
    )


def links_followed_outside(patch: pytest.MonkeyPatch) -> None:
    """What a link inside names is read on the host."""
    read = RecordedLife.read_file

    async def follow(self: RecordedLife, path: Any, **options: Any) -> AsyncIterator[bytes]:
        info = await self.stat(path, follow=False)
        if info.target:
            yield Path(os.fsdecode(info.target)).read_bytes()
            return
        async for piece in read(self, path, **options):
            yield piece

    patch.setattr(RecordedLife, "read_file", follow)


def any_cpu(patch: pytest.MonkeyPatch) -> None:
    """It is bound to all that there are."""
    patch.setattr("dayfly.boundaries.gvisor.start.cpus.bind", lambda available, count: frozenset(available))
    patch.setattr("dayfly.boundaries.gvisor.cpus.release", lambda *bound: None)


def out_of_its_cgroup(patch: pytest.MonkeyPatch) -> None:
    """It is not in the one that counts its processes, and nobody has looked."""
    entrances = command.entrances

    def others(version: int, directories: Sequence[Path]) -> list[Path]:
        return [one for one in entrances(version, directories) if version == 1 and "pids" not in one.parts]

    patch.setattr(command, "entrances", others)
    patch.setattr("dayfly.boundaries.gvisor.cgroups.CellCgroup.holds", lambda self, pid: True)


def has_cgroups() -> bool:
    return detect().cgroups is not None


def unrenewed(patch: pytest.MonkeyPatch) -> None:
    """Restores go on as they were, and say that all is well."""

    async def renew(self: SnapshotCalls, hostname: str, keep_seeds: bool) -> Renewed:
        return Renewed((), (), ())

    patch.setattr(SnapshotCalls, "_renew", renew)


MUTANTS = (
    Mutant("the host's network inside", "network.loopback.tcp", host_network),
    Mutant("the host's network, looked at from outside", "boundary.posture.network", host_network),
    Mutant("the host's /tmp inside", "filesystem.host.path", mounted(tempfile.gettempdir, tempfile.gettempdir())),
    Mutant("a key in the home", "credential.files.keys", mounted(directory_with(".ssh/id_rsa"), "/root")),
    Mutant("credentials of a cloud in the home", "credential.files.clouds", mounted(directory_with(".aws/credentials"), "/root")),
    Mutant("credentials of a registry in the home", "credential.files.containers", mounted(directory_with(".docker/config.json"), "/root")),
    Mutant("a program that is somebody else", "boundary.setuid.everywhere", mounted(directory_with("su", mode=0o4755), "/opt")),
    Mutant("the host's name", "boundary.identity.hostname", named_like_the_host),
    Mutant("a secret in the environment", "credential.environment", variable_inside),
    Mutant("more in the agent's environment", "boundary.agent.environment", variable_inside),
    Mutant("an unlisted host is allowed", "allow-list.unlisted.connect", ground=ruled(Rule(host=DENIED, ports=[TCP], protocol="tcp"))),
    Mutant("a star above it", "allow-list.unlisted.name", ground=ruled(Rule(host="*.example.net", ports=[TCP], protocol="tcp"))),
    Mutant("a star, seen in names", "dns.named.unlisted", ground=ruled(Rule(host="*.example.net", ports=[TCP], protocol="tcp"))),
    Mutant("names are asked for before anybody judges", "allow-list.unlisted.connect", ground=lambda: ForwardingHere(POLICY)),
    Mutant("data in names", "allow-list.spelling.suffix.connect", ground=lambda: ForwardingHere(POLICY)),
    Mutant("a handshake is not looked at", "allow-list.handshake", ground=ruled(Rule(host=TLS, ports=[443], protocol="tcp"), without=[TLS])),
    Mutant("anything is spoken to a TLS port", "allow-list.not-tls", ground=ruled(Rule(host=TLS, ports=[443, PLAIN], protocol="tcp"), without=[TLS])),
    Mutant("paths are not looked at", "allow-list.request.neighbour", ground=ruled(Rule(host=PATHS, ports=[80], protocol="http"), without=[PATHS])),
    Mutant("methods are not looked at", "allow-list.request.method",
           ground=ruled(Rule(host=PATHS, ports=[80], protocol="http", paths=["/allowed/*"]), without=[PATHS])),
    Mutant("a private network is open", "allow-list.inward.private",
           ground=ruled(Rule(host=f"*.{INWARD}", ports=[TCP], protocol="tcp", private="10.1.2.0/24"), without=[f"*.{INWARD}"])),
    Mutant("one port too many", "allow-list.port", ground=ruled(Rule(host="listed.example.com", ports=[80, TCP], protocol="tcp"), without=["listed.example.com"])),
    Mutant("names two levels below a star", "dns.named.deep", ground=ruled(Rule(host=f"*.b.{WILD}", ports=[TCP], protocol="tcp"))),
    Mutant("a whole bucket is lent", "allow-list.objects.key", ground=lent(of_objects(prefix=""), CALLS, PACKAGES)),
    Mutant("a whole bucket is lent, seen in lists", "allow-list.objects.list", ground=lent(of_objects(prefix=""), CALLS, PACKAGES)),
    Mutant("a neighbour's bucket is lent", "allow-list.objects.bucket",
           ground=lent(OBJECTS, of_objects(bucket=services.OTHER_BUCKET), CALLS, PACKAGES)),
    Mutant("all of an API is lent", "allow-list.inject.path", ground=lent(OBJECTS, of_calls(paths=("/*",)), PACKAGES)),
    Mutant("an API may be changed", "allow-list.inject.method", ground=lent(OBJECTS, of_calls(methods=("GET", "POST", "DELETE")), PACKAGES)),
    Mutant("a secret is sent back", "credential.injected.sent-back",
           ground=lent(OBJECTS, of_calls(inject=Inject(secret="api-key")), PACKAGES)),
    Mutant("a rule's secret in the environment", "credential.injected.memory", ground=lambda: Telling(POLICY)),
    Mutant("another package is lent", "packages.name", ground=lent(OBJECTS, CALLS, of_packages("proof-package==1.0", "other-package"))),
    Mutant("any version of a package is lent", "packages.version", ground=lent(OBJECTS, CALLS, of_packages("proof-package"))),
    Mutant("sources of packages are lent", "packages.source",
           ground=lent(OBJECTS, CALLS, of_packages("proof-package==1.0", wheels_only=False))),
    Mutant("one sandbox for two: files", "cross-sandbox.files", ground=lambda: OneForAll(POLICY)),
    Mutant("one sandbox for two: servers", "cross-sandbox.tcp", ground=lambda: OneForAll(POLICY)),
    Mutant("one sandbox for two: memory", "cross-sandbox.shared-memory", ground=lambda: OneForAll(POLICY)),
    Mutant("one sandbox for two: sockets", "cross-sandbox.unix", ground=lambda: OneForAll(POLICY)),
    Mutant("one sandbox for two: processes", "cross-sandbox.processes", ground=lambda: OneForAll(POLICY)),
    Mutant("random state repeated: generators", "cross-sandbox.restored.random", unrenewed),
    Mutant("random state repeated: keys", "cross-sandbox.restored.keys", unrenewed),
    Mutant("ids can be guessed", "api.ids", guessable_ids),
    Mutant("links are followed by the host", "api.links", links_followed_outside),
    Mutant("more CPUs than were given", "resource.posture.cgroup", any_cpu),
    Mutant("outside of its cgroup", "resource.posture.cgroup", out_of_its_cgroup, possible=has_cgroups),
    Mutant("an id is enough", "api.others", anybodys_sandbox),
    Mutant("a conversation is everybody's", "api.conversation", anybodys_conversation),
    Mutant("a listing is everybody's", "api.listing", everybodys_listing),
    Mutant("any key will do", "api.unknown", any_key),
    Mutant("any key may do anything", "api.scope", any_scope),
    Mutant("keys can be guessed", "api.guessing", endless_guesses),
    Mutant("any page may call", "api.page", any_page),
    Mutant("an edited journal is believed", "api.journal", believed_journal),
)  # fmt: skip
