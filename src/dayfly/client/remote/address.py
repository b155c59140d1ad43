"""Where a server is, and the key for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from dayfly.errors import InputError

__all__ = ["API_KEY", "URL", "Address", "find_address", "in_path"]

URL = "DAYFLY_URL"
API_KEY = "DAYFLY_API_KEY"
"""The environment's names for what ``url=`` and ``api_key=`` say."""

_GOOD_URL = "such as http://127.0.0.1:8700, or https://host/base where a reverse proxy serves it below a path"
_GOOD_KEY = f"give api_key= or set {API_KEY}; the server's `dayfly keys create` makes one"


@dataclass(frozen=True)
class Address:
    """``url`` has no slash at its end and may have a path. The key is in no ``repr``."""

    url: str
    key: str = field(repr=False)

    def to(self, path: str, query: Mapping[str, str | bytes | int | bool | None] | None = None) -> str:
        """The URL of one endpoint; ``path`` begins with a slash and is encoded already, ``query`` is not."""
        pairs = [f"{name}={_in_query(value)}" for name, value in (query or {}).items() if value is not None]
        return f"{self.url}{path}" + (f"?{'&'.join(pairs)}" if pairs else "")

    @property
    def is_plain(self) -> bool:
        """Whether it is spoken to without TLS."""
        return self.url.startswith("http:")


def find_address(url: str | None, api_key: str | None) -> Address | None:
    """What the caller says, else the environment; ``None`` if neither names a server. Raises ``InputError``."""
    found = os.environ.get(URL) or None if url is None else url
    if found is None:
        if api_key is not None:
            raise InputError("api_key= is for a server, and there is no url", remedy=f"give url= or set {URL}")
        return None
    address = _url(found)
    own = os.environ.get(URL)
    if api_key is None and (
        url is None or not own or _url(own) == address
    ):  # the environment's key is for its own server
        api_key = os.environ.get(API_KEY)
    return Address(address, _key(api_key))


def in_path(text: str) -> str:
    """One segment of a path. Raises ``InputError`` for what no URL can carry as one."""
    if not isinstance(text, str) or text in ("", ".", ".."):
        raise InputError(f"not a name that a URL can carry: {text!r:.60}")
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


def _in_query(value: str | bytes | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return quote(data, safe="/")


def _url(url: object) -> str:
    if not isinstance(url, str) or not _is_header_text(url):
        raise InputError(f"url must be the address of a dayfly server, not {url!r:.100}", remedy=_GOOD_URL)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port or an IPv6 address
        usable = False
    if not usable:
        raise InputError(
            "the server's url (url=, --url, DAYFLY_URL) is no http or https address", remedy=_GOOD_URL
        )  # not shown: it may hold a password
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError("a server's url has no user, query or fragment", remedy="the key goes into api_key=")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _key(key: object) -> str:
    if not key:
        raise InputError("a server wants a key", remedy=_GOOD_KEY)
    if not isinstance(key, str) or not _is_header_text(key):
        raise InputError("api_key has characters that no key has", remedy=_GOOD_KEY)
    return key


def _is_header_text(text: str) -> bool:
    return bool(text) and len(text) <= 4096 and all("!" <= char <= "~" for char in text)
