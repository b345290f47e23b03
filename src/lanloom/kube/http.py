"""The client for an API server over HTTP: aiohttp for the wire, msgspec for the objects.

Objects are decoded straight into Structs that hold only the fields that Lanloom uses; that is what makes a list of
10,000 objects cost a fraction of a second and a few KiB each.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Resource
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import ConfigError, TransportError, from_status
from lanloom.kube.ports import Listing, WatchEvent

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

PAGE = 500
"""Objects in a page of a list."""

IDLE_SECONDS = 90.0
"""A watch that is silent for longer is dead: a server sends a bookmark about once a minute."""

REQUEST_SECONDS = 30.0
WATCH_SECONDS = 600
"""How long one watch may last before the server ends it and it is resumed."""

_LONGEST_LINE = 16 * 1024 * 1024
_TOKEN_SECONDS = 60.0

MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"


class _ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""


class _Codec:
    """The decoders of one type, made once."""

    def __init__(self, type_: Any) -> None:
        page = msgspec.defstruct(
            "Page", [("metadata", _ListMeta), ("items", list[type_] | None, None)], frozen=True
        )
        event = msgspec.defstruct("Event", [("type", str), ("object", msgspec.Raw)], frozen=True)
        self.one = msgspec.json.Decoder(type_)
        self.page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(page)
        self.event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event)


class _Bookmark(Struct, frozen=True):
    metadata: ObjectMeta


class HttpClient:
    """Speaks `lanloom.kube.ports.Client` to the server of `config`. Use it as an asynchronous context manager."""

    def __init__(self, config: ClusterConfig, *, idle: float = IDLE_SECONDS, page: int = PAGE) -> None:
        self._config = config
        self._idle = idle
        self._page = page
        self._session: aiohttp.ClientSession | None = None
        self._ssl = _ssl_context(config) if config.server.startswith("https:") else False
        self._codecs: dict[type, _Codec] = {}
        self._token = config.token
        self._token_due = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Raw:
        """One request with a JSON answer, for callers that need no types."""
        answer = await self._bytes(method, path, body, query=query, content_type=content_type)
        return msgspec.json.decode(answer, type=dict[str, Any])

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        return self._decode(resource, await self._bytes("GET", resource.path(namespace, name)))

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says."""
        query = _selectors(labels, fields) | {"limit": str(self._page)}
        decoder = self._codec(resource).page
        items: list[T] = []
        while True:
            page = decoder.decode(await self._bytes("GET", resource.path(namespace), query=query))
            items.extend(page.items or ())
            if not page.metadata.continue_:
                return Listing(tuple(items), page.metadata.resource_version)
            query = query | {"continue": page.metadata.continue_}

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """As the port says."""
        query = _selectors(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=self._idle)
        async with self._send(
            "GET", resource.path(namespace), None, query=query, timeout=timeout
        ) as response:
            async for line in _lines(response):
                yield self._event(resource, line)

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        raw = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        raw = dict(raw) | {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._decode(resource, await self._bytes("POST", resource.path(namespace), raw))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says."""
        path = resource.path(namespace, name, subresource)
        return self._decode(resource, await self._bytes("PATCH", path, patch, content_type=MERGE_PATCH))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """As the port says."""
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._bytes("DELETE", resource.path(namespace, name), options)

    def _codec(self, resource: Resource[T]) -> _Codec:
        codec = self._codecs.get(resource.type)
        if codec is None:
            codec = self._codecs[resource.type] = _Codec(resource.type)
        return codec

    def _decode(self, resource: Resource[T], body: bytes) -> T:
        try:
            item: T = self._codec(resource).one.decode(body)
        except msgspec.DecodeError as error:
            raise TransportError(f"the server's {resource.kind} can't be read: {error}") from None
        return item

    def _event(self, resource: Resource[T], line: bytes) -> WatchEvent[T]:
        try:
            event = self._codec(resource).event.decode(line)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=dict[str, Any])
                raise from_status(int(status.get("code", 500)), status)
            if event.type == "BOOKMARK":
                meta = msgspec.json.decode(event.object, type=_Bookmark).metadata
                return WatchEvent("BOOKMARK", resource.type(metadata=meta))
        except msgspec.DecodeError as error:
            raise TransportError(f"the watch of {resource.plural} can't be read: {error}") from None
        return WatchEvent(event.type, self._decode(resource, event.object))

    async def _bytes(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        async with self._send(
            method, path, body, query=query, content_type=content_type, timeout=timeout
        ) as response:
            return await response.read()

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; a refusal is raised as an ApiError, and every way to get no answer as a TransportError."""
        headers = {"Accept": JSON, "User-Agent": "lanloom"}
        if token := await self._bearer():
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data, headers["Content-Type"] = msgspec.json.encode(body), content_type
        url = self._config.server + path
        try:
            async with self._opened().request(
                method, url, params=query, data=data, headers=headers, timeout=timeout, ssl=self._ssl
            ) as response:
                if response.status >= 400:
                    raise from_status(response.status, _status(await response.read(), response))
                yield response
        except TimeoutError:
            raise TransportError(f"{method} {url}: no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{method} {url}: {error}") from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=1 << 18)
        return self._session

    async def _bearer(self) -> str:
        """The token; one from a file is read again every minute, because Kubernetes replaces it."""
        now = asyncio.get_running_loop().time()
        if self._config.token_file and now >= self._token_due:
            try:
                text = await asyncio.to_thread(Path(self._config.token_file).read_text)
            except OSError as error:
                raise ConfigError(
                    f"can't read the token file {self._config.token_file}: {error.strerror}"
                ) from None
            self._token, self._token_due = text.strip(), now + _TOKEN_SECONDS
        return self._token


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}


def _status(body: bytes, response: aiohttp.ClientResponse) -> Raw:
    """The Status object of a refusal; a proxy's own page becomes one."""
    try:
        status = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        text = body[:200].decode(errors="replace").strip()
        return {"reason": response.reason or "", "message": text or f"{response.status} {response.reason}"}
    return status


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a stream, however long; ends with the stream."""
    rest = bytearray()
    async for chunk in response.content.iter_any():
        rest += chunk
        if b"\n" not in chunk:
            if len(rest) > _LONGEST_LINE:
                raise TransportError("the watch sent a line of more than 16 MiB")
            continue
        *lines, tail = rest.split(b"\n")
        rest = tail
        for line in lines:
            if line:
                yield bytes(line)


def _ssl_context(config: ClusterConfig) -> ssl.SSLContext:
    """TLS as the configuration asks. Raises ConfigError for certificates that can't be used."""
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"certificate-authority of {config.server} is not a PEM certificate: {error}"
        ) from None
    if config.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.client_certificate:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig) -> None:
    from lanloom.kube.memory import memory_file

    try:
        with memory_file(config.client_certificate + b"\n" + config.client_key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"client-certificate or client-key of {config.server} can't be used: {error}"
        ) from None
