"""Requests to the application without a network: ASGI messages in, ASGI messages out."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec

from lanloom.api.admission import UserInfo
from lanloom_embedded.authz import bootstrap_roles
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.front.app import ApiServer
from lanloom_embedded.front.authentication import user
from tests.embedded.engine.running import NOW, running_engine

USERS = {
    "root": user("root", "", ("system:masters",)),
    "alice": user("alice", "", ("testers",)),
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Answer:
    """What came back so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.chunks: list[bytes] = []
        self.ended = False

    async def take(self, message: Mapping[str, Any]) -> None:
        """Take in a message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode(), value.decode()) for name, value in message["headers"]]
        else:
            self.chunks.append(message.get("body", b""))
            self.ended = not message.get("more_body")

    @property
    def text(self) -> str:
        """The body."""
        return b"".join(self.chunks).decode()

    @property
    def json(self) -> Any:
        """The document in the body."""
        return msgspec.json.decode(b"".join(self.chunks))

    @property
    def events(self) -> list[Any]:
        """The events of a watch."""
        return [msgspec.json.decode(line) for line in b"".join(self.chunks).splitlines()]

    @property
    def warnings(self) -> list[str]:
        """The values of Warning headers."""
        return [value for name, value in self.headers if name == "warning"]


class Browser:
    """Asks an application."""

    def __init__(self, engine: Engine, users: Mapping[str, UserInfo] = USERS) -> None:
        self.engine = engine
        self.users = users
        self.rng = Random(0)
        self.app = ApiServer(engine, users.get, now=lambda: NOW, rng=self.rng, version="test")

    async def request(
        self, method: str, url: str, body: object = None, *, token: str = "root", **headers: str
    ) -> Answer:
        """A request and its whole answer; `content_type` and `accept` are headers."""
        answer, task, _ = self.start(method, url, body, token=token, **headers)
        await task
        assert answer.ended
        return answer

    def start(
        self, method: str, url: str, body: object = None, *, token: str = "root", **headers: str
    ) -> tuple[Answer, "asyncio.Task[None]", "asyncio.Event"]:
        """A request that may take long. The event, once set, is the client's leaving."""
        return self.send(self.scope(method, url, token=token, **headers), body)

    def send(
        self, scope: Mapping[str, Any], body: object = None
    ) -> tuple[Answer, "asyncio.Task[None]", "asyncio.Event"]:
        """The same with a scope of one's own."""
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        answer, left, messages = Answer(), asyncio.Event(), [{"type": "http.request", "body": content}]

        async def receive() -> Mapping[str, Any]:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        task = asyncio.create_task(self.app(scope, receive, answer.take))
        return answer, task, left

    @staticmethod
    def scope(method: str, url: str, *, token: str = "root", **headers: str) -> dict[str, Any]:
        """A request on ASGI's terms."""
        path, _, query = url.partition("?")
        sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        if token:
            sent.append((b"authorization", f"Bearer {token}".encode()))
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": sent,
        }


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """An application on an empty engine with the first roles."""
    async with running_engine() as engine:
        for manifest in bootstrap_roles():
            group, _, version = manifest["apiVersion"].rpartition("/")
            kind = engine.registry.find_kind(group, version, manifest["kind"])
            assert kind is not None
            await engine.create(kind, "", manifest, Call())
        yield Browser(engine)
