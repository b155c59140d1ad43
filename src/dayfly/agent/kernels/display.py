"""From objects to MIME bundles, inside a kernel. Objects lie about themselves: what is no proper value is left out.

In a bundle, text types are ``str``, ``records.BINARY_TYPES`` (and any other bytes) are base64 text, JSON types are values.
"""

from __future__ import annotations

import binascii

from dayfly.agent.kernels.records import BINARY_TYPES, MAX_NAME, MAX_TYPES, is_base64, is_json_type
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.payloads import dump_json, load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    Bundle = dict[str, object]

METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)
"""What an object may offer besides its repr; the names are IPython's, which pandas, sympy, plotly and others have."""


def clean(data: object, metadata: object) -> tuple[Bundle, Bundle]:
    """The parts of a bundle that can be sent."""
    bundle: Bundle = {}
    for name, value in list(data.items())[:MAX_TYPES] if isinstance(data, dict) else ():
        if isinstance(name, str) and name.isascii() and name.isprintable() and 2 < len(name) < MAX_NAME:
            sendable = _sendable(name, value)
            if sendable is not None:
                bundle[str(name)] = sendable
    more = _plain(metadata) if isinstance(metadata, dict) and metadata else None
    return bundle, more if isinstance(more, dict) else {}


def _sendable(name: str, value: object) -> object:
    if is_json_type(name):
        return _plain(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return binascii.b2a_base64(value, newline=False).decode("ascii")
    if not isinstance(value, str):
        return None
    text = str.__str__(value)
    if name not in BINARY_TYPES:
        return text
    text = "".join(text.split())
    return text if is_base64(text) else None


def _plain(value: object) -> object:
    """The JSON value, made of nothing but plain types (a dict of the user's may say something else the next time)."""
    try:
        return load_json(dump_json(value))
    except (TypeError, ValueError, RecursionError, RemoteProtocolError):
        return None


def bundle_of(value: object) -> tuple[Bundle, Bundle]:
    """What a kernel without IPython shows of an object: its repr, and what it offers by itself.

    Raises what its ``repr`` raises; a failing extra representation is left out, as if it were not there.
    """
    data: Bundle = {"text/plain": repr(value)}
    metadata: Bundle = {}
    if type(value) in _PLAIN or isinstance(value, type):
        return data, metadata
    for name, mime in METHODS:
        _offer(value, name, mime, data, metadata)
    offered = _call(value, "_repr_mimebundle_")
    if isinstance(offered, tuple) and len(offered) == 2:
        offered, more = offered
        metadata.update(more if isinstance(more, dict) else {})
    data.update(offered if isinstance(offered, dict) else {})
    return clean(data, metadata)


def _offer(value: object, method: str, mime: str, data: Bundle, metadata: Bundle) -> None:
    offered = _call(value, method)
    if isinstance(offered, tuple) and len(offered) == 2:
        offered, metadata[mime] = offered
    if offered is not None:
        data[mime] = offered


def _call(value: object, method: str) -> object:
    try:
        found = getattr(value, method, None)
        return found() if callable(found) else None
    except Exception:
        return None


_PLAIN = (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, type(None))
