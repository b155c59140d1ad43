"""One server, as an ``Opener``: it makes sandboxes there, and finds those that are there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress

from dayfly.client.remote.address import Address, in_path
from dayfly.client.remote.asked import Asked
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import Http
from dayfly.client.remote.sandbox import RemoteSandbox
from dayfly.client.remote.values import is_id, read_saved, told_sandbox
from dayfly.errors import DayflyError, NoSuchSandbox, SandboxEnded
from dayfly.network import Network
from dayfly.policy import Policy
from dayfly.saved import SavedOutputs
from dayfly.spec import EndReason

__all__ = ["Server"]

UNDO_SECONDS = 6.0
"""For a sandbox that nobody wants any more to be made and ended: less than the bridge waits for cancelled work."""


class Server:
    """Used on one event loop. Implements ``dayfly.client.backend.Opener``. Raises ``HostError`` if aiohttp is missing."""

    def __init__(self, address: Address) -> None:
        self._http = Http(address)
        self._made: dict[str, RemoteSandbox] = {}  # to be ended when this closes

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> RemoteSandbox:
        """A new sandbox, which ends with this object at the latest."""
        return await self.claim(Asked(self._http.address), policy, env=env)

    async def claim(
        self, asked: Asked, policy: Policy | None, *, env: Mapping[str, str] | None = None
    ) -> RemoteSandbox:
        """The sandbox that is asked for. A new one is not left behind if this is cancelled."""
        if asked.sandbox is not None:
            return await self._found(asked.sandbox)
        body = _wish(asked, policy, env)
        if asked.conversation is not None:
            return await self._asked("POST", f"/v1/conversations/{in_path(asked.conversation)}", body=body)
        sandbox = await _or_undone(self._new(body))
        self._forget_ended()
        self._made[sandbox.id] = sandbox
        return sandbox

    async def _new(self, body: Mapping[str, object]) -> RemoteSandbox:
        """If the answer was lost, it is asked for again, under the same key: so none is made that nobody knows of."""
        key = {"idempotency-key": secrets.token_hex(16)}
        try:
            return await self._asked("POST", "/v1/sandboxes", body=body, headers=key)
        except ServerUnreachable:
            return await self._asked("POST", "/v1/sandboxes", body=body, headers=key)

    async def _found(self, ident: str) -> RemoteSandbox:
        """A live one. Raises ``NoSuchSandbox`` or ``SandboxEnded``."""
        if not is_id(ident):
            raise NoSuchSandbox(f"no sandbox {ident!a:.80}", remedy="an id is what sandbox.id says")
        found = await self._asked("GET", f"/v1/sandboxes/{ident}")
        if found.end_reason is not EndReason.PAUSED:  # that one can be resumed
            found.require_live()
        return found

    async def pause(self, sandbox: str, *, seconds: float) -> None:
        await self._http.ask("POST", f"/v1/sandboxes/{sandbox}/pause", body={"seconds": seconds})

    async def set_network(self, sandbox: str, rules: Network) -> None:
        told = rules if isinstance(rules, str) else [rule.model_dump(mode="json") for rule in rules]
        await self._http.ask("PUT", f"/v1/sandboxes/{sandbox}/network", body={"network": told})

    async def save_outputs(self, sandbox: str, *, last: bool = False) -> SavedOutputs:
        return read_saved(await self._http.ask("POST", f"/v1/sandboxes/{sandbox}/outputs", body={"last": last}))

    async def resume(self, sandbox: str) -> RemoteSandbox:
        resumed = await self._asked("POST", f"/v1/sandboxes/{sandbox}/resume")
        if sandbox in self._made:
            self._made[sandbox] = resumed
        return resumed

    async def discard(self, sandbox: str) -> None:
        with suppress(SandboxEnded, NoSuchSandbox):
            await self._http.ask("DELETE", f"/v1/sandboxes/{sandbox}")

    async def fork(self, sandbox: str, count: int) -> Sequence[RemoteSandbox]:
        answer = await self._http.ask("POST", f"/v1/sandboxes/{sandbox}/fork", body={"count": count})
        made = [RemoteSandbox(Held(self._http, told_sandbox(one))) for one in answer.rows("sandboxes")]
        if len(made) != count:
            raise BadAnswer(f"{count} copies were asked for, and the server speaks of {len(made)}")
        self._made |= {one.id: one for one in made}
        return made

    async def _asked(self, method: str, path: str, **how: object) -> RemoteSandbox:
        return RemoteSandbox(Held(self._http, told_sandbox(await self._http.ask(method, path, **how))))

    def _forget_ended(self) -> None:
        self._made = {ident: one for ident, one in self._made.items() if one.end_reason in (None, EndReason.PAUSED)}

    async def close(self) -> None:
        """End every sandbox that was made here and still lives, and close the connections."""
        made, self._made = list(self._made.values()), {}
        await asyncio.gather(*(one.close() for one in made), return_exceptions=True)
        await self._http.close()


def _wish(asked: Asked, policy: Policy | None, env: Mapping[str, str] | None) -> dict[str, object]:
    """Only what the caller said: the server's own defaults are for it to say."""
    wish: dict[str, object] = {"env": dict(env or {})}
    if asked.template is not None:
        return {**wish, "template": asked.template}
    return {**wish, "policy": {} if policy is None else policy.model_dump(mode="json", exclude_unset=True)}


async def _or_undone(making: Awaitable[RemoteSandbox]) -> RemoteSandbox:
    """What is made; if the caller is cancelled it is ended, since nobody else would know of it."""
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=UNDO_SECONDS)
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None:
            with suppress(DayflyError):
                await task.result().close()
        raise
