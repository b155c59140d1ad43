"""Environment variables that tell programs inside what network there is."""

from __future__ import annotations

from collections.abc import Mapping

from dayfly.network.listing import Network

__all__ = ["environment_for", "environment_of_change"]

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

_RULES = {"PIP_RETRIES": "3"}
"""2 s of waiting instead of 8 where pip's index is in no rule, and still some patience where it is."""

_AS_IF_UNSET = {"UV_HTTP_RETRIES": "3", "npm_config_fetch_retries": "2"}
"""These programs' own defaults. The others take an empty value for none."""


def environment_for(network: Network) -> Mapping[str, str]:
    """What everything inside is given, before the image's and the caller's own variables, which may say otherwise."""
    if network == "none":
        return dict(_NONE)
    found = dict(_RULES)
    for rule in () if network == "learn" else network:
        found.update(rule.environment)
    return found


def environment_of_change(before: Network, after: Network) -> Mapping[str, str]:
    """What is set when a live sandbox's rules change, for what is started from then on: no variable can be taken back, so some
    are given the value of none."""
    then, now = environment_for(before), environment_for(after)
    gone = {name: _AS_IF_UNSET.get(name, "") for name in then if name not in now}
    return {**gone, **{name: value for name, value in now.items() if then.get(name) != value}}
