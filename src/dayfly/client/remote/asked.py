"""Which sandbox of which server a caller asks for."""

from __future__ import annotations

from dataclasses import dataclass

from dayfly.client.remote.address import URL, Address, find_address
from dayfly.errors import InputError

__all__ = ["Asked", "find_asked"]

_NO_SERVER = f"give url= and api_key=, or set {URL}"


@dataclass(frozen=True)
class Asked:
    """A new sandbox, unless ``conversation`` or ``sandbox`` (its id) names one. ``template`` stands for a policy."""

    address: Address
    template: str | None = None
    conversation: str | None = None
    sandbox: str | None = None

    @property
    def outlives(self) -> bool:
        """Whether the sandbox is meant to go on when this client is done with it."""
        return self.conversation is not None or self.sandbox is not None


def find_asked(
    url: str | None,
    api_key: str | None,
    *,
    template: str | None = None,
    conversation: str | None = None,
    sandbox: str | None = None,
) -> Asked | None:
    """What is asked of a server; ``None`` if neither the caller nor the environment names one. Raises ``InputError``."""
    names = {"template": template, "conversation": conversation, "the sandbox's id": sandbox}
    given = {name: value for name, value in names.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, str) or not value:
            raise InputError(f"{name} must be text, not {value!r:.60}")
    address = find_address(url, api_key)
    if address is None and given:
        raise InputError(f"{' and '.join(given)}: a server keeps these, and there is none", remedy=_NO_SERVER)
    return None if address is None else Asked(address, template, conversation, sandbox)
