"""What a client is told in its own language when there is no connection for it."""

from __future__ import annotations

from dayfly.wire.operations import DENIED

MAX_TEXT = 2000

REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


def http(status: int, text: str) -> bytes:
    """A whole response of plain text. ``Server`` tells it from one of the destination's."""
    body = text[:MAX_TEXT].encode("ascii", "backslashreplace") + b"\n"
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nServer: dayfly\r\nContent-Type: text/plain; charset=us-ascii\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def refusal(code: str, text: str) -> bytes:
    """For a tunnel that the host did not make."""
    return http(403 if code == DENIED else 502, text)
