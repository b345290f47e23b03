"""Reading objects with the standard library alone, for commands that read once and end.

An event loop takes longer to import than such a command takes to do its work. `BlockingReader` speaks the
reading half of `lanloom.kube.ports.Client`, so that the same coroutines use it. It waits inside of each call, so a
coroutine that awaits nothing else runs from its first line to its last without an event loop (`finished`).

What it sends and what it raises is what `lanloom.kube.http.HttpClient` does; tests hold the two together. It connects
directly, with credentials that are configured: proxies, and programs that print credentials, are for HttpClient
(`ClusterConfig.is_simple`).

`PlainConnection` makes GET requests on one connection. `http.client` imports a parser of mail for the few headers that
an answer has here; that takes longer than the rest of a short command. So it reads a status line, the headers that
delimit a body, and the body: by its length, in chunks, or until the server closes. It follows no redirects and
decompresses nothing.
"""

import math
import socket
import ssl
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.codec import Codec, refusal
from lanloom.kube.config import ClusterConfig, client_context, identity_headers, read_token, why_not_connected
from lanloom.kube.errors import ConfigError, Unreachable, from_status
from lanloom.kube.ports import Listing
from lanloom.text import authority

T = TypeVar("T", bound=Object)
V = TypeVar("V")

PAGE = 500
"""Objects in a page of a list."""

REQUEST_SECONDS = 30.0

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
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {authority(self.host, self.port)}",
            "Accept-Encoding: identity",
        ]
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


class BlockingReader:
    """Read from the server of `config`. Use it as a context manager.

    `page` is in objects; `timeout`, in seconds, is that of each request if the configuration has none. Raises
    ConfigError for certificates or a token file that can't be used.
    """

    def __init__(self, config: ClusterConfig, *, page: int = PAGE, timeout: float = REQUEST_SECONDS) -> None:
        self._server = config.server
        self._page = page
        self._timeout = timeout if config.timeout is None else config.timeout or None
        self._headers = [("Accept", "application/json"), ("User-Agent", "lanloom")]
        self._headers += identity_headers(config, read_token(config))
        self._place = urlsplit(config.server)
        self._connection = _connection(config, self._timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object, without ever yielding to an event loop. Raises KubeError."""
        return Codec(resource).object(self._read(resource.path(namespace, name), {}))

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """Read all objects page by page, without ever yielding to an event loop. Raises KubeError."""
        chosen = {"labelSelector": labels, "fieldSelector": fields}
        query = {name: value for name, value in chosen.items() if value} | {"limit": str(self._page)}
        codec = Codec(resource)
        items: list[T] = []
        failed: list[Unreadable] = []
        while True:
            page = codec.page(self._read(resource.path(namespace), query))
            items.extend(page.items or ())
            failed.extend(page.unreadable)
            if not page.metadata.continue_:
                return Listing(tuple(items), page.metadata.resource_version, tuple(failed))
            query = query | {"continue": page.metadata.continue_}

    def _read(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return the body of an answer. Raises ApiError, and Unreachable for every way to get none."""
        call = f"GET {self._server}{path}"
        self._connect(call)
        target = self._place.path + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._connection.get(target, self._headers)
        except TimeoutError:
            raise Unreachable(f"{call}: no answer in time") from None
        except (OSError, BadAnswer) as error:
            raise Unreachable(f"{call}: {str(error) or type(error).__name__}") from None
        if answer.status >= 300:
            raise from_status(answer.status, refusal(answer.body, answer.status, answer.reason))
        return answer.body

    def _connect(self, call: str) -> None:
        """Connect, unless the connection of the last request is still open."""
        if self._connection.is_open:
            return
        try:
            self._connection.connect()
        except TimeoutError:
            raise Unreachable(f"{call}: no answer in time") from None
        except OSError as error:
            place = authority(self._connection.host, self._connection.port)
            raise Unreachable(f"{call}: {why_not_connected(error, place) or error}") from None


def finished(work: Coroutine[Any, Any, V]) -> V:
    """Run a coroutine that awaits nothing but a BlockingReader. Raises RuntimeError if it awaits more."""
    try:
        work.send(None)
    except StopIteration as done:
        value: V = done.value
        return value
    work.close()
    raise RuntimeError("the coroutine waits for something that needs an event loop")


def _connection(config: ClusterConfig, timeout: float | None) -> PlainConnection:
    place = urlsplit(config.server)
    try:
        host, port = place.hostname or "", place.port
    except ValueError:
        raise ConfigError(
            f"the server {config.server} has a port that is not a number; write it as https://host:6443"
        ) from None
    if place.scheme != "https":
        return PlainConnection(host, port or 80, timeout=timeout)
    return PlainConnection(
        host, port or 443, context=client_context(config), server_name=config.server_name, timeout=timeout
    )


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
