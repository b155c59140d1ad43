"""One certificate in PEM, as far as it can be judged without ``ssl``, whose import takes 30 ms inside gVisor."""

from __future__ import annotations

import binascii

from dayfly.agent.session import BadRequest

MAX_PEM = 16 * 1024
"""Characters: an authority's own certificate has 0.6-2 KB."""

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

_SEQUENCE, _BIT_STRING = 0x30, 0x03
_PARTS = (_SEQUENCE, _SEQUENCE, _BIT_STRING)  # what is signed, how, and the signature (RFC 5280, 4.1)
_LINE = 64


def checked_certificate(text: str) -> str:
    """The one certificate that ``text`` is, written anew, so that nothing beside it reaches a file. Raises ``BadRequest``."""
    if len(text) > MAX_PEM:
        raise BadRequest(f"a certificate of more than {MAX_PEM} characters")
    lines = text.strip().splitlines()
    if len(lines) < 3 or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise BadRequest("not a certificate in PEM")
    der = _decoded("".join(line.strip() for line in lines[1:-1]))
    if not _is_certificate(der):
        raise BadRequest("what the PEM contains is not one certificate")
    body = binascii.b2a_base64(der, newline=False).decode("ascii")
    return "\n".join([BEGIN, *(body[at : at + _LINE] for at in range(0, len(body), _LINE)), END, ""])


def _decoded(body: str) -> bytes:
    try:
        der = binascii.a2b_base64(body.encode("ascii"))
    except (binascii.Error, UnicodeEncodeError):
        raise BadRequest("not base64 between the lines of a PEM") from None
    if binascii.b2a_base64(der, newline=False).decode("ascii") != body:  # it skips what it does not know
        raise BadRequest("not base64 between the lines of a PEM")
    return der


def _is_certificate(der: bytes) -> bool:
    """By its outer form: whoever reads it later checks the rest."""
    whole = _elements(der)
    if len(whole) != 1 or whole[0][0] != _SEQUENCE:
        return False
    return tuple(tag for tag, _ in _elements(whole[0][1])) == _PARTS


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each element in DER; none if they do not fill it."""
    found, at = [], 0
    while at + 2 <= len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(der[at : at + count], "big")
            at += count
        found.append((tag, der[at : at + size]))
        at += size
    return found if at == len(der) else []
