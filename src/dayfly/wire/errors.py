"""Protocol errors name the culprit, as in h11: the local side misused the machine, or the remote side broke the rules."""


class ProtocolError(Exception):
    """Root of the wire's errors; ``str(error)`` never contains bytes of the peer unescaped."""


class LocalProtocolError(ProtocolError):
    """This side asked for what the protocol does not allow now. A bug here, or a full window: nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. The connection is unusable from now on; the host ends the sandbox."""
