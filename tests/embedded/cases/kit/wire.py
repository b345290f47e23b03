"""Plain HTTPS to an API server, as near to the wire as the standard library gets.

No client library is in between on purpose: what the servers answer is the subject here, and libraries smooth it.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlencode

import yaml
from msgspec import Struct

Json = Any

PATIENCE = 60.0
"""Seconds after which a silent server fails the case."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a server is and who may talk to it: `ca` is PEM text, `tokens` maps a user's name to a bearer token."""

    host: str
    port: int
    ca: str
    tokens: Mapping[str, str]


class Answer(Struct, frozen=True):
    """One answer. `body` is the parsed JSON or YAML document, those of a whole watch, or text if it was none."""

    status: int
    headers: Mapping[str, str]
    body: Json

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the object or list in the body."""
        found: dict[str, Any] = self.body["metadata"]
        return found

    @property
    def rv(self) -> str:
        """The resourceVersion of the object or list."""
        return str(self.metadata["resourceVersion"])

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.metadata["uid"])

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [item["metadata"]["name"] for item in self.body["items"]]


class Wire:
    """Connections to one server, kept alive, one for each user."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._context = ssl.create_default_context(cadata=endpoint.ca)
        self._idle: dict[str, HTTPSConnection] = {}

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, user: str
    ) -> Answer:
        """One request and its whole answer."""
        try:
            response = self._send(method, path, headers, body, user)
            text = response.read()
        except (HTTPException, OSError):
            # The server may have closed the idle connection meanwhile; a fresh one tells the truth.
            self._drop(user)
            response = self._send(method, path, headers, body, user)
            text = response.read()
        found = _lower(response)
        is_yaml = found.get("content-type") == "application/yaml"
        return Answer(response.status, found, yaml.load(text, yaml.CSafeLoader) if is_yaml else _parse(text))

    def stream(self, path: str, headers: Mapping[str, str], user: str) -> "Stream":
        """A GET whose answer is read line by line, on a connection of its own."""
        return Stream(self._connect(), path, {**self._authorization(user), **headers})

    def close(self) -> None:
        """Close what is open."""
        for user in list(self._idle):
            self._drop(user)

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, user: str
    ) -> HTTPResponse:
        connection = self._idle.get(user) or self._idle.setdefault(user, self._connect())
        connection.request(method, path, body=body, headers={**self._authorization(user), **headers})
        return connection.getresponse()

    def _connect(self) -> HTTPSConnection:
        return HTTPSConnection(
            self._endpoint.host, self._endpoint.port, timeout=PATIENCE, context=self._context
        )

    def _authorization(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._endpoint.tokens.get(user, user)}"} if user else {}

    def _drop(self, user: str) -> None:
        if (connection := self._idle.pop(user, None)) is not None:
            connection.close()


class Stream:
    """The lines of one answer, each a JSON document."""

    def __init__(self, connection: HTTPSConnection, path: str, headers: Mapping[str, str]) -> None:
        self._connection = connection
        connection.request("GET", path, headers=dict(headers))
        self._response = connection.getresponse()
        self.status = self._response.status
        self.headers = _lower(self._response)

    def lines(self) -> Iterator[Json]:
        """Documents as they come, until the server ends the answer."""
        while line := self._response.readline():
            yield _parse(line)

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """The path with a query string; a list gives its parameter several times."""
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def _lower(response: HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        known = found.get(name.lower())
        found[name.lower()] = value if known is None else f"{known}\n{value}"
    return found


def _parse(text: bytes) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return _documents(text) or text.decode(errors="replace")


def _documents(text: bytes) -> list[Json]:
    """The events of a watch that was read to its end, each a line; none if it is some other text."""
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return []
