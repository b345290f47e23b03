"""HTTP/1.1 over a blocking socket: GET requests on one connection.

`http.client` imports a parser of mail for the few headers that an answer has here; that takes longer than the rest of
a short command. This module reads a status line, the headers that delimit a body, and the body: by its length, in
chunks, or until the server closes. It follows no redirects and decompresses nothing.
"""

import math
import socket
import ssl
import time
from collections.abc import Iterable, Iterator

from msgspec import Struct

_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 16
_MOST_HEADERS = 200


class BadAnswer(Exception):
    """The answer breaks off, or is not HTTP."""


class Answer(Struct, frozen=True):
    """A status with its reason, and the whole body."""

    status: int
    reason: str
    body: bytes


class PlainConnection:
    """A connection to `host`, with TLS if there is a `context`, which expects a certificate of `server_name`.

    `timeout` is the time limit of each call in seconds; None for none. Every call raises TimeoutError and OSError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
        timeout: float | None = None,
    ) -> None:
        self.host, self.port = host, port
        self._context, self._server_name, self._timeout = context, server_name or host, timeout
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._deadline = math.inf

    @property
    def is_open(self) -> bool:
        """Whether the connection of the last request can be used again."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect."""
        self.close()
        plain = socket.create_connection((_ascii(self.host), self.port), self._timeout)  # type: ignore[arg-type]
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                self._socket = plain
            else:
                self._socket = self._context.wrap_socket(plain, server_hostname=_ascii(self._server_name))
        except BaseException:
            plain.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._buffer.clear()

    def get(self, target: str, headers: Iterable[tuple[str, str]]) -> Answer:
        """Send a request on the open connection and return the answer. Raises BadAnswer, too."""
        self._deadline = time.monotonic() + (self._timeout or math.inf)
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"GET {target} HTTP/1.1", f"Host: {host}:{self.port}", "Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers]
        try:
            self._limited().sendall("\r\n".join([*lines, "", ""]).encode())
            return self._answer()
        except BaseException:
            self.close()  # what comes on it next belongs to this request
            raise

    def _answer(self) -> Answer:
        while True:
            version, status, reason = _status(self._line())
            fields = dict(self._headers())
            if status >= 200:
                break
        keeps = version == "HTTP/1.1" and "close" not in fields.get("connection", "").lower()
        if status in (204, 304):
            body = b""
        elif "chunked" in fields.get("transfer-encoding", "").lower():
            body = b"".join(self._chunks())
        elif "content-length" in fields:
            body = self._exactly(_number(fields["content-length"], 10))
        else:
            body, keeps = self._rest(), False
        if not keeps:
            self.close()
        return Answer(status, reason, body)

    def _headers(self) -> Iterator[tuple[str, str]]:
        for _ in range(_MOST_HEADERS):
            line = self._line()
            if not line:
                return
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()
        raise BadAnswer(f"the answer has more than {_MOST_HEADERS} headers")

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(self._line().partition(";")[0], 16):
            yield self._exactly(size)
            self._line()
        for _ in self._headers():  # trailers
            pass

    def _line(self) -> str:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise BadAnswer("the answer has a line that is too long")
            self._receive()
        return self._taken(end + 1).decode("latin-1").rstrip("\r\n")

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        return self._taken(count)

    def _rest(self) -> bytes:
        while chunk := self._limited().recv(_CHUNK):
            self._buffer += chunk
        return self._taken(len(self._buffer))

    def _receive(self) -> None:
        chunk = self._limited().recv(_CHUNK)
        if not chunk:
            raise BadAnswer("the server closed the connection before its answer was complete")
        self._buffer += chunk

    def _taken(self, count: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return taken

    def _limited(self) -> socket.socket:
        """Return the socket, which waits until the deadline at the most."""
        if self._socket is None:
            raise BadAnswer("the server closed the connection")
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(None if math.isinf(left) else left)
        return self._socket


def _status(line: str) -> tuple[str, int, str]:
    version, _, rest = line.partition(" ")
    number, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(number) != 3:
        raise BadAnswer("the answer is not HTTP/1.1")
    return version, _number(number, 10), reason.strip()


def _number(text: str, base: int) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError:
        number = -1
    if number < 0:
        raise BadAnswer(f"the answer has {text[:20]!r} where a length or a status belongs")
    return number


def _ascii(name: str) -> str | bytes:
    """Return a name so that `socket` and `ssl` need no tables of international names for it."""
    return name.encode("ascii") if name.isascii() else name
