"""``python -I -m dayfly.egress``: the gateway, with its one socket as standard input. Only ``egress.client`` starts it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import sys
from contextlib import suppress

from dayfly.egress.confine import confine
from dayfly.egress.gateway import leave, serve
from dayfly.egress.services.objects.signing import load
from dayfly.hosts import canonical

__all__ = ["main"]


def main() -> None:
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        sys.exit("this is the gateway of dayfly's sandboxes; dayfly starts it itself")
    end = socket.socket(fileno=os.dup(0))  # of which nobody inherits a copy
    canonical("ä.example")  # loads tables that cannot be read any more after confine, as all the following
    verified = ssl.create_default_context()
    verified.set_alpn_protocols(["http/1.1"])
    with suppress(ImportError):  # then there are no rules that need it
        import dayfly.egress.certificates  # noqa: F401
    load()  # likewise
    confine()
    _let_go()
    sys.unraisablehook = lambda _: None  # OpenSSL's callback with a name that is not ASCII: it is refused, and no news
    asyncio.run(serve(end, leave, verified))


def _let_go() -> None:
    """Of every descriptor but the one: standard error was for what went wrong until here."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)


if __name__ == "__main__":
    main()
