"""Environment variables that tell programs inside what network there is."""

from __future__ import annotations

from collections.abc import Mapping

from dayfly.network.listing import Network

__all__ = ["environment_for"]

_NOWHERE = "https://this-sandbox-has-no-network.invalid/"
"""Names below ``invalid`` lead nowhere (RFC 6761), and pip, uv and npm print the name that they did not find."""

_NONE = {
    "PIP_INDEX_URL": f"{_NOWHERE}simple/",
    "PIP_RETRIES": "1",  # with none, pip says nothing of what has failed
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_DEFAULT_INDEX": f"{_NOWHERE}simple/",
    "UV_HTTP_RETRIES": "0",
    "npm_config_registry": _NOWHERE,
    "npm_config_fetch_retries": "0",
    "npm_config_update_notifier": "false",
}


def environment_for(network: Network | tuple[()]) -> Mapping[str, str]:
    """What everything inside is given, unless its image or its caller says otherwise. Where two rules say something else of a
    variable, the first counts."""
    if network == "none" or not network:
        return dict(_NONE)
    found: dict[str, str] = {}
    for rule in () if network == "learn" else network:
        found = {**rule.environment, **found}
    return found
