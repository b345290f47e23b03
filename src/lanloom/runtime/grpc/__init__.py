"""gRPC between processes of one node, over Unix sockets: unary calls and streams of answers, small messages only.

Why not a library: kubelet opens a connection for every device, and an agent has a thousand of them. Measured with 1,000
connections, grpclib on h2 took 51 MB, more than the rest of the agent. `http2` is the part of RFC 9113 that a kubelet's
calls need, on `hpack` for headers; `server` and `client` are gRPC on top, with the statuses that stand here. Tests run
both against grpclib on h2.
"""

import re
from urllib.parse import unquote, unquote_to_bytes

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 0, 1, 2, 3, 4, 5
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 9, 12, 13, 14

_LONGEST = 2000
"""Characters of a message."""

_ESCAPED = re.compile(rb"[^ -$&-~]")


class GrpcError(Exception):
    """A call that fails with a status; the message is what the other side shows."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def escaped(message: str) -> bytes:
    """Return a message as gRPC has it in a header: visible ASCII, all else and `%` as percent and two digits."""
    text = message[:_LONGEST].encode("utf-8", "replace")
    return _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], text)


def unescaped(text: str) -> str:
    """Return the message in such a header, whatever it is."""
    return unquote_to_bytes(text).decode("utf-8", "replace") if "%" in text else unquote(text)
