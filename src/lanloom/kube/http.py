"""The client for an API server over HTTP. What the answers say is for `lanloom.kube.codec`."""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from lanloom.api.core import PODS
from lanloom.api.meta import Object
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.kube.authentication import Authentication
from lanloom.kube.codec import Codec, mapping, refusal
from lanloom.kube.config import ClusterConfig
from lanloom.kube.connection import Answer, Connection, NoAnswer, Request
from lanloom.kube.errors import Unauthorized, Unreachable, from_status
from lanloom.kube.outage import Outage
from lanloom.kube.pool import ConnectionPool
from lanloom.kube.ports import Listing, WatchEvent
from lanloom.kube.silence import (
    BOOKMARKED_IDLE_SECONDS,
    IDLE_SECONDS,
    KEEPALIVE,
    WATCH_SECONDS,
    Keepalive,
    lines_of,
    next_line,
)

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

PAGE = 500
"""Objects in a page of a list."""

REQUEST_SECONDS = 30.0

POD_SECONDS, POD_BYTES = 5.0, 4 << 20
"""How long a pod may take to answer, and how much."""

TOKEN_SECONDS = 60.0
"""Greatest age in seconds of a token file's content: Kubernetes replaces the file before the token expires."""

NO_ANSWER = "error"
"""Stands for the HTTP code where no answer began, in time or at all."""

Observer = Callable[[str, str, str, float], None]
"""Receives each request: the verb as RBAC has it, the resource's full name (empty for a request without types), the
HTTP code or NO_ANSWER, and the seconds until the answer began."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"


class _About(NamedTuple):
    """The description of a request for an observer, before there is an answer."""

    verb: str
    resource: str
    namespaced: bool = False


class HttpClient:
    """Speak `lanloom.kube.ports.Client` to the server of `config`. Use it as an asynchronous context manager.

    `idle`, `bookmarked_idle` and `token_age` are in seconds, see IDLE_SECONDS, BOOKMARKED_IDLE_SECONDS and
    TOKEN_SECONDS; `page` in objects. `keepalive` holds for every direct connection. `observe` must be quick. `outage`
    receives the requests that were answered. With `dry_run` the server judges each write, and stores none. `warn`
    receives the server's warnings, as of its webhooks. `now` is the time in seconds since 1970, by which credentials
    expire.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        idle: float = IDLE_SECONDS,
        bookmarked_idle: float = BOOKMARKED_IDLE_SECONDS,
        page: int = PAGE,
        token_age: float = TOKEN_SECONDS,
        keepalive: Keepalive = KEEPALIVE,
        observe: Observer | None = None,
        outage: Outage | None = None,
        dry_run: bool = False,
        warn: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._idle = idle
        self._bookmarked_idle = bookmarked_idle
        self._page = page
        self._keepalive = keepalive
        self._observe = observe
        self._pool: ConnectionPool | None = None
        self._authentication = Authentication(config, token_age=token_age, now=now)
        self._seconds = REQUEST_SECONDS if config.timeout is None else config.timeout or None
        self._codecs: dict[Resource[Any], Codec[Any]] = {}
        self._outage = outage
        self._warn = warn
        self._write_query = {"dryRun": "All"} if dry_run else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def server(self) -> str:
        """The server's address."""
        return self._config.server

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Raw:
        """Return one request with a JSON answer, for callers that need no types."""
        about = _About(method.lower(), "")
        answer = await self._bytes(about, method, path, body, query=query, content_type=content_type)
        return mapping(answer, f"an answer to {method} {path}")

    async def download(self, path: str, take: Callable[[bytes], object]) -> None:
        """Give the answer to GET in parts to `take`. It may take long, but no part longer than a request."""
        async with self._send(_About("get", ""), "GET", path, None, seconds=None) as answer:
            while True:
                async with asyncio.timeout(REQUEST_SECONDS):
                    part = await answer.part()
                if not part:
                    return
                take(part)

    async def ask_pod(self, namespace: str, pod: str, path: str) -> str:
        """Implement `PodReader`. Raises Unreachable for an answer that is too long, too."""
        address = f"{PODS.path(namespace, pod, 'proxy')}/{path}"
        async with self._send(_About("get", ""), "GET", address, None, seconds=POD_SECONDS) as answer:
            body = bytearray()
            while part := await answer.part():
                body += part
                if len(body) > POD_BYTES:
                    raise Unreachable(f"its answer has more than {POD_BYTES >> 20} MiB")
            return body.decode(errors="replace")

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object. Raises KubeError."""
        about = _About("get", resource.full_name)
        return self._codec(resource).object(await self._bytes(about, "GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Read all objects: page by page, or from the server's cache at once. Raises KubeError."""
        # A limit would have etcd read.
        amount = {"resourceVersion": resource_version} if resource_version else {"limit": str(self._page)}
        query = _selectors(labels, fields) | amount
        codec, about = self._codec(resource), _About("list", resource.full_name, resource.namespaced)
        items: list[T] = []
        failed: list[Unreadable] = []
        while True:
            body = await self._bytes(about, "GET", resource.path(namespace), query=query)
            page = codec.page(body)
            items.extend(page.items or ())
            failed.extend(page.unreadable)
            if not page.metadata.continue_:
                return Listing(tuple(items), page.metadata.resource_version, tuple(failed))
            query = query | {"continue": page.metadata.continue_}

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events from a resourceVersion on, until the server ends the watch or goes silent. Raises KubeError."""
        query = _selectors(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        codec = self._codec(resource)
        about = _About("watch", resource.full_name)
        async with self._send(
            about, "GET", resource.path(namespace), None, query=query, seconds=None
        ) as answer:
            limit = self._idle
            lines = lines_of(answer)
            while line := await next_line(limit, lines, resource.full_name):
                event = codec.event(line)
                if event.type == "BOOKMARK":
                    limit = min(limit, self._bookmarked_idle)
                yield event

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """Create an object and return it as stored. Raises KubeError."""
        raw = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        raw = dict(raw) | {"apiVersion": resource.api_version, "kind": resource.kind}
        about = _About("create", resource.full_name)
        answer = await self._bytes(about, "POST", resource.path(namespace), raw, query=self._write_query)
        return self._codec(resource).object(answer)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Send a merge patch and return the object as stored. Raises KubeError."""
        return await self._patched(resource, resource.path(namespace, name, subresource), patch, MERGE_PATCH)

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Send a JSON patch and return the object as stored. Raises KubeError."""
        path = resource.path(namespace, name, subresource)
        return await self._patched(resource, path, list(operations), JSON_PATCH)

    async def _patched(self, resource: Resource[T], path: str, patch: object, content_type: str) -> T:
        about = _About("patch", resource.full_name)
        answer = await self._bytes(
            about, "PATCH", path, patch, query=self._write_query, content_type=content_type
        )
        return self._codec(resource).object(answer)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace: int | None = None,
    ) -> None:
        """Ask for the deletion of an object, under the conditions that are given. Raises KubeError."""
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {name: value for name, value in conditions.items() if value}:
            options["preconditions"] = given
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if self._write_query:
            options["dryRun"] = ["All"]  # with a body, an API server does not look at the query
        about = _About("delete", resource.full_name)
        await self._bytes(about, "DELETE", resource.path(namespace, name), options)

    def _codec(self, resource: Resource[T]) -> Codec[T]:
        codec = self._codecs.get(resource)
        if codec is None:
            codec = self._codecs[resource] = Codec(resource)
        return codec

    async def _bytes(
        self,
        about: _About,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes:
        async with self._send(
            about, method, path, body, query=query, content_type=content_type, seconds=self._seconds
        ) as answer:
            return await answer.read()

    @asynccontextmanager
    async def _send(
        self,
        about: _About,
        method: str,
        path: str,
        body: Any,
        *,
        seconds: float | None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> AsyncIterator[Answer]:
        """Send one request. Raises ApiError for a refusal, and Unreachable for every way to get no answer."""
        identity, credential = await self._authentication.headers()
        encoding = "gzip" if self._config.compression else "identity"
        headers = [("Accept", JSON), ("User-Agent", "lanloom"), ("Accept-Encoding", encoding), *identity]
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers.append(("Content-Type", content_type))
        target = urlsplit(self._config.server).path + path
        if query:
            target += ("&" if "?" in target else "?") + urlencode(query)
        call = f"{method} {self._config.server}{path}"
        began, answered = asyncio.get_running_loop().time(), False
        request = Request(method, target, headers, data)
        pool, tls = self._opened(), self._authentication.tls
        try:
            async with asyncio.timeout(seconds):
                connection, answer = await self._begin(about, pool, tls, request)
                try:
                    for text in answer.warnings:
                        self._warn(text)
                    if answer.status >= 300:
                        status = refusal(await answer.read(), answer.status, answer.reason)
                        refused = from_status(answer.status, status)
                        refused.asked, refused.namespaced = about.resource, about.namespaced
                        if isinstance(refused, Unauthorized):
                            self._authentication.refused(credential)
                        if self._outage is not None:
                            self._outage.refused(refused, began)
                        raise refused
                    if self._outage is not None:
                        self._outage.answered()
                    answered = True
                    yield answer
                finally:
                    pool.release(connection, tls)
        except TimeoutError:
            raise self._unreachable(f"{call}: no answer in time", began, answered) from None
        except (NoAnswer, OSError) as error:
            raise self._unreachable(f"{call}: {error}", began, answered) from None

    def _unreachable(self, message: str, began: float, answered: bool) -> Unreachable:
        """Return the error of a request without an answer.

        An answer that breaks off does not mean that the server is away.
        """
        error = Unreachable(message)
        if self._outage is not None and answered:
            error.reported = self._outage.lasts
        elif self._outage is not None:
            self._outage.failed(error, began)
        return error

    async def _begin(
        self, about: _About, pool: ConnectionPool, tls: ssl.SSLContext | None, request: Request
    ) -> tuple[Connection, Answer]:
        """Send the request, and return when the head of the answer is there."""
        started = asyncio.get_running_loop().time()
        code = NO_ANSWER
        try:
            async with asyncio.timeout(self._seconds):
                connection, answer = await pool.request(request, tls)
            code = str(answer.status)
            return connection, answer
        finally:
            if self._observe is not None:
                self._observe(about.verb, about.resource, code, asyncio.get_running_loop().time() - started)

    def _opened(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(
                self._config.server,
                proxy=self._config.proxy,
                server_name=self._config.server_name,
                keepalive=self._keepalive,
            )
        return self._pool


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}
