"""What goes out as JSON, where it is not one of the nouns of ``dayfly.spec`` itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dayfly.manager import Registration
from dayfly.server.keys import Key
from dayfly.spec import FileInfo, LimitReport, ProcessInfo

__all__ = [
    "ContextList", "ContextView", "Erased", "ErrorAnswer", "ErrorView", "FileList", "ForkList", "HeadList", "Interrupted", "JournalPage", "KeyList", "KeyMade",
    "KeyView", "MadeDirectory", "ProcessList", "ProofList", "ProofView", "Removed", "SandboxList", "SandboxView", "TemplateList", "TemplateView",
    "TokenMade", "Unpacked", "UsageView", "Written", "key_view", "sandbox_view",
]  # fmt: skip


@dataclass(frozen=True)
class ErrorView:
    """Some have more: a ``sandbox_ended`` its ``end_reason``, a ``sandbox_file_error`` its ``problem`` and ``path``."""

    code: str
    message: str
    remedy: str | None
    retryable: bool


@dataclass(frozen=True)
class ErrorAnswer:
    error: ErrorView


@dataclass(frozen=True)
class SandboxView:
    """Times are seconds since 1970. ``policy`` is without ``mounts``, which name files of the server's machine. ``unsaved``: why its
    outputs were not saved when it ended, or null."""

    id: str
    state: str
    end_reason: str | None
    end_detail: str
    conversation: str | None
    template: str | None
    created: float
    expires: float
    policy: Mapping[str, Any]
    limits: Sequence[LimitReport]
    languages: Sequence[str]
    unsaved: str | None


@dataclass(frozen=True)
class SandboxList:
    sandboxes: Sequence[SandboxView]


@dataclass(frozen=True)
class ForkList:
    """``kept``: what goes on alike in all of them, such as generators that code may have seeded; ``renewed``: what was drawn
    anew. Both are what the agent inside says."""

    sandboxes: Sequence[SandboxView]
    renewed: Sequence[str]
    kept: Sequence[str]


@dataclass(frozen=True)
class TokenMade:
    """The token is shown this once."""

    token: str
    expires: float | None


@dataclass(frozen=True)
class ContextView:
    name: str
    language: str
    busy: bool


@dataclass(frozen=True)
class ContextList:
    contexts: Sequence[ContextView]


@dataclass(frozen=True)
class Interrupted:
    """Whether it was still under way."""

    interrupted: bool


@dataclass(frozen=True)
class ProcessList:
    processes: Sequence[ProcessInfo]


@dataclass(frozen=True)
class FileList:
    files: Sequence[FileInfo]
    more: bool


@dataclass(frozen=True)
class Written:
    size: int


@dataclass(frozen=True)
class MadeDirectory:
    made: bool


@dataclass(frozen=True)
class Removed:
    removed: int


@dataclass(frozen=True)
class Unpacked:
    files: int


@dataclass(frozen=True)
class KeyView:
    id: str
    name: str
    tenant: str
    scopes: Sequence[str]
    created: float
    expires: float | None
    revoked: float | None


@dataclass(frozen=True)
class KeyMade(KeyView):
    """The key is shown this once."""

    key: str


@dataclass(frozen=True)
class KeyList:
    keys: Sequence[KeyView]


@dataclass(frozen=True)
class UsageView:
    """What the tenant has now and used today; ``allowed`` has the same names, null for no cap."""

    sandboxes: int
    memory: int
    cpus: float
    cpu_seconds_today: float
    paused_bytes: int
    allowed: Mapping[str, float | None]


@dataclass(frozen=True)
class TemplateView:
    """``spares`` are kept, and ``ready`` of them can be claimed now."""

    name: str
    image: str
    spares: int
    ready: int


@dataclass(frozen=True)
class TemplateList:
    templates: Sequence[TemplateView]


@dataclass(frozen=True)
class ProofView:
    """How the sandboxes of a template stand, or those that callers bring a policy for. ``standing``: waiting, proving, green or red; the rest is
    of the last proof, null before the first. ``at`` is in seconds since 1970."""

    template: str | None
    standing: str
    id: str | None
    at: float | None
    green: bool | None
    seconds: float | None
    counts: Mapping[str, int] | None


@dataclass(frozen=True)
class ProofList:
    """``required``: whether only what is proven is handed out."""

    proofs: Sequence[ProofView]
    required: bool


@dataclass(frozen=True)
class JournalPage:
    """``next`` goes into ``after`` for the next page."""

    entries: Sequence[Mapping[str, Any]]
    next: int


@dataclass(frozen=True)
class Erased:
    """How many pieces of code and output there were."""

    erased: int


@dataclass(frozen=True)
class HeadList:
    """Each with its "chain", "number", "hash" and "signature"; what is bytes is hex. The key is Ed25519."""

    public_key: str
    heads: Sequence[Mapping[str, Any]]


def sandbox_view(one: Registration) -> SandboxView:
    """As of now."""
    return SandboxView(
        id=one.id,
        state=one.state,
        end_reason=one.end_reason.value if one.end_reason else None,
        end_detail=one.end_detail,
        conversation=one.conversation,
        template=one.template,
        created=one.created,
        expires=one.expires,
        policy=one.policy.model_dump(mode="json", exclude={"mounts"}),
        limits=one.limits,
        languages=one.languages,
        unsaved=one.unsaved,
    )


def key_view(key: Key) -> KeyView:
    return KeyView(key.id, key.name, key.tenant, key.scopes, key.created, key.expires, key.revoked)
