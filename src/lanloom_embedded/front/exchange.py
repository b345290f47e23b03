"""One HTTP request and the sending of its answer, on ASGI's terms."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.engine.calls import Warnings
from lanloom_embedded.front.bodies import Receive
from lanloom_embedded.front.rendering import JSON_FORM, Form, encode
from lanloom_embedded.front.requests import query_of

Send = Callable[[Any], Awaitable[None]]
Header = tuple[bytes, bytes]

SLICE_BYTES = 64 * 1024
"""The size of a slice: between two of them the server waits for the client to read."""

_JSON: Header = (b"content-type", b"application/json")
_YAML: Header = (b"content-type", b"application/yaml")
_TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")
_NO_CACHE: Header = (b"cache-control", b"no-cache, private")


class Exchange:
    """A request, with the means to answer it. Answer once; `begun` says that the answer is on its way."""

    __slots__ = (
        "_more_headers",
        "_parsed",
        "_query",
        "_send",
        "begun",
        "headers",
        "method",
        "path",
        "receive",
        "warnings",
    )

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._query: bytes = scope["query_string"]
        self._parsed: Mapping[str, str] | None = None
        self.receive = receive
        self.warnings = Warnings()
        self._more_headers: list[Header] = []
        self.headers: Sequence[Header] = scope["headers"]
        self._send = send
        self.begun = False

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters. Not parsed before somebody asks, which is after authentication. Raises BadRequest."""
        if self._parsed is None:
            self._parsed = query_of(self._query)
        return self._parsed

    def header(self, name: bytes) -> str:
        """A header's value, empty if it isn't there. `name` is in lower case."""
        for each, value in self.headers:
            if each == name:
                return value.decode("latin-1")
        return ""

    async def answer(self, body: bytes, *, code: int = 200, form: Form = JSON_FORM) -> None:
        """Send a whole answer."""
        await self.answer_raw(body, _JSON if form.encoding == "application/json" else _YAML, code)

    async def answer_raw(self, body: bytes, content_type: Header, code: int = 200) -> None:
        """Send a whole answer of any media type."""
        length = (b"content-length", str(len(body)).encode())
        headers = [content_type, _NO_CACHE, length, *self._warnings(), *self._more_headers]
        self.begun = True
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        if self.method == "HEAD":
            body = b""
        *first, last = _slices(body)
        for part in first:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": last})

    async def answer_text(self, text: str, code: int = 200) -> None:
        """Send plain text."""
        await self.answer_raw(text.encode(), _TEXT, code)

    async def refuse(self, error: StatusError) -> None:
        """Send a Status."""
        if seconds := (error.details or {}).get("retryAfterSeconds"):
            self._more_headers.append((b"retry-after", str(seconds).encode()))
        await self.answer(encode(error.status(), JSON_FORM), code=error.code)

    async def begin_stream(self, form: Form) -> None:
        """Begin an answer whose length nobody knows."""
        content_type = _JSON if form.encoding == "application/json" else _YAML
        headers = [content_type, _NO_CACHE, *self._warnings()]
        self.begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def stream(self, chunk: bytes) -> None:
        """Send a part of a streamed answer."""
        for part in _slices(chunk):
            await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def end_stream(self) -> None:
        """End a streamed answer."""
        await self._send({"type": "http.response.body", "body": b""})

    def _warnings(self) -> list[Header]:
        """Warnings as kubectl shows them (RFC 7234, code 299)."""
        return [(b"warning", _warning(text)) for text in self.warnings]


def _slices(body: bytes) -> Iterator[bytes | memoryview]:
    """The body in slices, one at least. A small one is not copied, nor is a large one."""
    if len(body) <= SLICE_BYTES:
        yield body
        return
    view = memoryview(body)
    for start in range(0, len(body), SLICE_BYTES):
        yield view[start : start + SLICE_BYTES]


def _warning(text: str) -> bytes:
    printable = "".join(each if each.isprintable() else " " for each in text)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'.encode("utf-8", "replace")
