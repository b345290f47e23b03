"""Reading objects with the standard library alone, for commands that read once and end.

An event loop takes longer to import than such a command takes to do its work. `BlockingReader` speaks the
reading half of `lanloom.kube.ports.Client`, so that the same coroutines use it. It waits inside of each call, so a
coroutine that awaits nothing else runs from its first line to its last without an event loop (`finished`).

What it sends and what it raises is what `lanloom.kube.http.HttpClient` does; tests hold the two together. It connects
directly, with credentials that are configured: proxies, and programs that print credentials, are for HttpClient
(`ClusterConfig.is_simple`).
"""

from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

from lanloom.api.meta import Object
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.codec import Codec, refusal
from lanloom.kube.config import ClusterConfig, client_context, why_not_connected
from lanloom.kube.credentials import identity_headers, read_token
from lanloom.kube.errors import ConfigError, Unreachable, from_status
from lanloom.kube.plainhttp import BadAnswer, PlainConnection
from lanloom.kube.ports import Listing

T = TypeVar("T", bound=Object)
V = TypeVar("V")

PAGE = 500
"""Objects in a page of a list."""

REQUEST_SECONDS = 30.0


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
            place = f"{self._connection.host}:{self._connection.port}"
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
