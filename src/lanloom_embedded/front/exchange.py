"""One HTTP request and the sending of its answer with its warnings, on ASGI's terms."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from lanloom.runtime.https import errors
from lanloom.runtime.https.errors import StatusError
from lanloom.runtime.https.shares import Share
from lanloom_embedded.engine.calls import Warnings
from lanloom_embedded.front import bodies
from lanloom_embedded.front.bodies import Receive
from lanloom_embedded.front.rendering import JSON_FORM, Form, encode
from lanloom_embedded.kinds import NAMESPACES, Raw, ServedKind

_INTEGER = re.compile(r"[-+]?[0-9]+")
_INTEGER_CHARACTERS = 64
"""More than any integer of 64 bits has, some leading zeros included."""
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
PROXY = "proxy"
"""The subresource below which a pod's own paths are."""

_PARAMETERS = 256
"""Parameters that a query may have; the API knows fewer than twenty."""
_VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
}

WARNING_BYTES = 4096
WARNING_HEADERS = 50
"""The most that warnings take of an answer, on the wire and in number.

Clients refuse an answer with more than 100 headers (Python's `http.client`). What is left out is counted in the
last one.
"""

_CUT_CHARACTERS = 256
_NAME_BYTES = len("warning: \r\n")
_CLOSING_BYTES = 64


class NoSuchPath(Exception):
    """Nothing is served at the address."""


class Target(Struct, frozen=True):
    """The target of a path. Without `plural` it is no resource but a document of `group` and `version`, or other.

    `below` is the path that a proxied pod is asked for.
    """

    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    below: str = ""


def target_of(path: str) -> Target:
    """Take a path apart."""
    parts = path.split("/")[1:]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    while parts and not parts[-1]:
        parts.pop()
    if parts[:1] == ["api"] and len(parts) >= 2:
        return _resource_target(path, "", parts[1], parts[2:])
    if parts[:1] == ["apis"] and len(parts) >= 3:
        return _resource_target(path, parts[1], parts[2], parts[3:])
    return Target(path, group=parts[1] if parts[:1] == ["apis"] and len(parts) == 2 else "")


def _resource_target(path: str, group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            rest = rest[2:]
    plural, name, *deeper = (*rest, "", "")[: max(len(rest), 2)]
    if deeper[:1] == [PROXY]:
        return Target(path, group, version, namespace, plural, name, PROXY, "/".join(deeper[1:]))
    return Target(path, group, version, namespace, plural, name, "/".join(deeper))


def query_of(query: bytes) -> Mapping[str, str]:
    """Return the parameters of a query; of repeated ones the first counts. Raises BadRequest."""
    if not query:
        return {}
    if query.count(b"&") >= _PARAMETERS:
        raise errors.BadRequest(f"the query has more than {_PARAMETERS} parameters; send fewer of them")
    result: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        result.setdefault(name, value)
    return result


def is_true(text: str) -> bool:
    """Return a boolean parameter, as Go's strconv and the API machinery read it: present and not false."""
    return text.lower() not in ("", "false", "0")


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """Return the API's verb for a request on a resource. Raises MethodNotAllowed."""
    verb = _VERBS.get(method)
    if verb is None:
        raise errors.wrong_method()
    if target.name:
        return verb
    if verb == "get" and is_true(query.get("watch", "")):
        return "watch"
    return {"get": "list", "delete": "deletecollection"}.get(verb, verb)


def integer(query: Mapping[str, str], name: str) -> int:
    """Return a number of 64 bits among the parameters, 0 if it isn't there. Raises BadRequest."""
    text = query.get(name, "") or "0"
    if not _INTEGER.fullmatch(text):
        raise _bad_integer(text, "invalid syntax")
    if len(text) > _INTEGER_CHARACTERS or not -(2**63) <= (number := int(text)) < 2**63:
        raise _bad_integer(text, "value out of range")
    return number


def _bad_integer(text: str, why: str) -> errors.BadRequest:
    return errors.BadRequest(f'strconv.ParseInt: parsing "{text}": {why}')


_SUBRESOURCE_VERBS = ("get", "patch", "update")
_NAMELESS_VERBS = ("create", "deletecollection", "list", "watch")


def check_address(kind: ServedKind, target: Target, verb: str) -> None:
    """Raise NotFound, MethodNotAllowed or NoSuchPath for what the kind doesn't understand."""
    if kind.builtin:
        _check_builtin(kind, target, verb)
    else:
        _check_custom(kind, target, verb)


def _check_builtin(kind: ServedKind, target: Target, verb: str) -> None:
    if target.subresource:
        if not kind.has_subresource(target.subresource):
            raise errors.no_such_resource()
        if verb not in _SUBRESOURCE_VERBS:
            raise errors.wrong_method()
        return
    everywhere = kind.namespaced and not target.namespace
    if (everywhere and target.name) or _is_astray(kind, target):
        raise errors.no_such_resource()
    if everywhere and verb in ("create", "deletecollection"):
        raise errors.wrong_method()
    if verb not in kind.verbs or bool(target.name) is (verb in _NAMELESS_VERBS):
        raise errors.wrong_method()


def _check_custom(kind: ServedKind, target: Target, verb: str) -> None:
    everywhere = kind.namespaced and not target.namespace
    if (everywhere and verb not in ("list", "watch")) or _is_astray(kind, target):
        raise NoSuchPath
    if verb == "update" and not target.name:
        raise errors.BadRequest("name must be provided")
    if target.subresource:
        if not kind.has_subresource(target.subresource):
            raise errors.not_found(kind.resource, target.name)
        if verb not in _SUBRESOURCE_VERBS:
            raise errors.method_not_allowed(kind.resource, verb)


def _is_astray(kind: ServedKind, target: Target) -> bool:
    """Return whether a cluster-scoped kind is asked for in a namespace."""
    return bool(target.namespace) and not kind.namespaced and kind.key != NAMESPACES


Send = Callable[[Any], Awaitable[None]]
Header = tuple[bytes, bytes]

SLICE_BYTES = 64 * 1024
"""The size of a slice: between two of them the server waits for the client to read."""

_JSON: Header = (b"content-type", b"application/json")
_YAML: Header = (b"content-type", b"application/yaml")
_TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")
_NO_CACHE: Header = (b"cache-control", b"no-cache, private")


class Exchange:
    """A request, with the means to answer it. Answer once; `begun` says that the answer is on its way.

    `share` is its user's, from its authentication on.
    """

    share: Share

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
        "share",
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
        """The parameters. Not parsed before they are read, which is after authentication. Raises BadRequest."""
        if self._parsed is None:
            self._parsed = query_of(self._query)
        return self._parsed

    def header(self, name: bytes) -> str:
        """Return a header's value, empty if it isn't there. `name` is in lower case."""
        for each, value in self.headers:
            if each == name:
                return value.decode("latin-1")
        return ""

    async def read_object(self, kind: str) -> Raw:
        """Return the object of a kind in the body. Raises as `bodies.read_object` does."""
        return await bodies.read_object(self.receive, self.share, self.header(b"content-type"), kind)

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
        """Begin an answer of unknown length."""
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
        return [(b"warning", value) for value in warning_headers(self.warnings)]


def _slices(body: bytes) -> Iterator[bytes | memoryview]:
    """Yield the body in slices, one at least. A small one is not copied, nor is a large one."""
    if len(body) <= SLICE_BYTES:
        yield body
        return
    view = memoryview(body)
    for start in range(0, len(body), SLICE_BYTES):
        yield view[start : start + SLICE_BYTES]


def warning_headers(texts: Iterable[str]) -> list[bytes]:
    """Return the values of the headers, as kubectl shows them (RFC 7234, code 299); bounded as by kube-apiserver.

    If all fit, they are sent in full. Else each is cut to 256 characters, and the last one says how many are left out.
    """
    all_texts = tuple(texts)
    values = [_value(text) for text in all_texts[: WARNING_HEADERS + 1]]
    if len(values) <= WARNING_HEADERS and sum(map(_size, values)) <= WARNING_BYTES:
        return values
    sent: list[bytes] = []
    room = WARNING_BYTES - _CLOSING_BYTES
    for text in all_texts[: WARNING_HEADERS - 1]:
        value = _value(text[:_CUT_CHARACTERS])
        if (room := room - _size(value)) < 0:
            break
        sent.append(value)
    if left := len(all_texts) - len(sent):
        sent.append(_value(f"… and {left} more"))
    return sent


def _size(value: bytes) -> int:
    return _NAME_BYTES + len(value)


def _value(text: str) -> bytes:
    printable = "".join(each if each.isprintable() else " " for each in text)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'.encode("utf-8", "replace")
