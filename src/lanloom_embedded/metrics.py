"""Metrics of `lanloom serve` besides those of its manager: the requests that its API server answers."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from prometheus_client import Counter

from lanloom.processes.managermetrics import ManagerMetrics

Message = Mapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


class ServeMetrics(ManagerMetrics):
    """The metrics of the server, and of the manager if it has one in it."""

    def __init__(self, *, manager: bool) -> None:
        super().__init__()
        self.api_serves = False
        self._manager = manager
        self._answers = Counter(
            "lanloom_apiserver_requests",
            "Requests that the embedded API server answered.",
            ("method", "code"),
            registry=self.registry,
        )

    def missing(self) -> Iterator[str]:
        """Describe the missing conditions of readiness."""
        if not self.api_serves:
            yield "the API server does not serve yet"
        if self._manager:
            yield from super().missing()

    def counted(self, app: App) -> App:
        """The application, with its answers counted."""

        async def serve(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
            method = scope.get("method", "")

            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._answers.labels(method if method in METHODS else "other", message["status"]).inc()
                await send(message)

            await app(scope, receive, note)

        return serve
