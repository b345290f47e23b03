"""What a case does: requests to one server, kept as a transcript."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from zlib import crc32

from tests.embedded.cases.kit.hooks import (
    Hook,
    Hooks,
)
from tests.embedded.cases.kit.objects import config_map, owner, widget
from tests.embedded.cases.kit.wire import (
    PATIENCE,
    Answer,
    Json,
    Stream,
    Wire,
    with_query,
)


class Place(NamedTuple):
    """The API version's path, and whether objects live in namespaces."""

    root: str
    namespaced: bool


_CORE = "/api/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_HOOKS = "/apis/admissionregistration.k8s.io/v1"

PLACES = {
    "configmaps": Place(_CORE, True),
    "endpoints": Place(_CORE, True),
    "events": Place(_CORE, True),
    "namespaces": Place(_CORE, False),
    "nodes": Place(_CORE, False),
    "pods": Place(_CORE, True),
    "secrets": Place(_CORE, True),
    "serviceaccounts": Place(_CORE, True),
    "services": Place(_CORE, True),
    "leases": Place("/apis/coordination.k8s.io/v1", True),
    "daemonsets": Place("/apis/apps/v1", True),
    "customresourcedefinitions": Place("/apis/apiextensions.k8s.io/v1", False),
    "mutatingwebhookconfigurations": Place(_HOOKS, False),
    "validatingwebhookconfigurations": Place(_HOOKS, False),
    "roles": Place(_RBAC, True),
    "rolebindings": Place(_RBAC, True),
    "clusterroles": Place(_RBAC, False),
    "clusterrolebindings": Place(_RBAC, False),
    "widgets": Place("/apis/example.com/v1", True),
    "gadgets": Place("/apis/example.com/v1", False),
}


def resolve(path: str, namespace: str) -> str:
    """The URL path of `plural[/name[/subresource]]` in a namespace; what begins with a slash stays as it is."""
    if path.startswith("/"):
        return path
    plural, slash, rest = path.partition("/")
    place = PLACES[plural]
    inside = f"/namespaces/{namespace}" if place.namespaced else ""
    return f"{place.root}{inside}/{plural}{slash}{rest}"


JSON = "application/json"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
LONGEST = 50
"""The longest name of a case's namespace: room is left for suffixes."""
COMPARED_HEADERS = ("content-type", "warning", "cache-control", "retry-after", "www-authenticate", "location")


class UnexpectedStatus(AssertionError):
    """A request was answered with a status that its case did not mean to see."""


class Api:
    """One case's view of one server.

    `ns` is a namespace of the case's own, and `name` a name for its cluster-scoped objects. Paths are
    `plural[/name[/subresource]]` in that namespace, or begin with a slash. Every request is kept in
    `transcript`, unless made `quietly`, and must be answered with the status that the case expects (any 2xx by
    default; -1: whatever comes).
    """

    def __init__(self, wire: Wire, hooks: Hooks, name: str) -> None:
        self.ns = self.name = name
        self.transcript: list[dict[str, Any]] = []
        self.strict = False
        self._wire = wire
        self._hooks = hooks
        self._recording = True

    def get(self, path: str, **options: Any) -> Answer:
        """Read an object, a list or any other document."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: Json, **options: Any) -> Answer:
        """Create."""
        return self.request("POST", path, body=body, **options)

    def put(self, path: str, body: Json, **options: Any) -> Answer:
        """Replace."""
        return self.request("PUT", path, body=body, **options)

    def patch(self, path: str, body: Json, kind: str = "merge", **options: Any) -> Answer:
        """Patch; `kind` is a key of PATCHES or a whole media type."""
        return self.request("PATCH", path, body=body, content_type=PATCHES.get(kind, kind), **options)

    def delete(self, path: str, body: Json = None, **options: Any) -> Answer:
        """Delete an object or a collection."""
        return self.request("DELETE", path, body=body, **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        user: str = "admin",
        expect: int = 0,
    ) -> Answer:
        """Any request. Bytes and text are sent as they are; every other body as JSON."""
        headers = {"Accept": accept} if accept else {}
        data = _encoded(body)
        if data is not None and content_type:
            headers["Content-Type"] = content_type
        url = with_query(resolve(path, self.ns), query or {})
        answer = self._wire.exchange(method, url, headers, data, user)
        self._keep(f"{method} {path}", answer.status, answer.headers, answer.body)
        self._check(f"{method} {url}", answer, expect)
        return answer

    @contextmanager
    def watch(
        self, path: str, *, expect: int = 200, accept: str = JSON, user: str = "admin", **query: Any
    ) -> Iterator["Watch"]:
        """A watch, open while the block runs. `query` holds the parameters."""
        parameters = {"watch": "true", "timeoutSeconds": "50", **query}
        url = with_query(resolve(path, self.ns), {name: value for name, value in parameters.items() if value})
        stream = self._wire.stream(url, {"Accept": accept}, user)
        try:
            self._keep(f"WATCH {path}", stream.status, stream.headers, None)
            self._check(f"WATCH {url}", Answer(stream.status, stream.headers, None), expect)
            yield Watch(self, path, stream)
        finally:
            stream.close()

    def note(self, name: str, value: Json) -> None:
        """Keep a fact that normalising would hide, such as two versions being equal."""
        self._append({"step": f"note: {name}", "value": value})

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Requests in this block are not kept."""
        before, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = before

    def until(self, path: str, condition: Callable[[Answer], bool], **options: Any) -> Answer:
        """Read until the answer meets the condition, then keep that answer."""
        deadline = time.monotonic() + PATIENCE
        with self.quietly():
            while not condition(self.request("GET", path, expect=-1, **options)):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
        return self.request("GET", path, expect=-1, **options)

    def gone(self, path: str) -> Answer:
        """Read until the object is not there any more."""
        return self.until(path, lambda answer: answer.status == 404)

    def hook(self, handle: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Hook:
        """A webhook of this case: an HTTPS address that answers reviews with `handle(request)`."""
        return self._hooks.add(self.name, handle)

    def received(self, hook: Hook) -> None:
        """Keep what the webhook was asked."""
        self._append({"step": "webhook received", "reviews": hook.take()})

    def _keep(self, step: str, status: int, headers: Mapping[str, str], body: Json) -> None:
        shown = {name: headers[name] for name in COMPARED_HEADERS if name in headers}
        self._append({"step": step, "status": status, "headers": shown, "body": body})

    def _append(self, entry: dict[str, Any]) -> None:
        if self._recording:
            self.transcript.append(entry)

    def _check(self, what: str, answer: Answer, expect: int) -> None:
        # Only where the case is checked, on the real server: elsewhere the comparison will tell more.
        fine = answer.status < 300 if expect == 0 else answer.status == expect
        if self.strict and expect >= 0 and not fine:
            raise UnexpectedStatus(f"{what} was answered with {answer.status}: {answer.body}")


class Watch:
    """An open watch of a case."""

    def __init__(self, api: Api, path: str, stream: Stream) -> None:
        self._api = api
        self._path = path
        self._lines = stream.lines()

    def take(self, count: int) -> list[Json]:
        """The next events, bookmarks aside; fewer if the server ends the watch before."""
        return self._until(lambda found: len(found) == count)

    def until(self, name: str) -> list[Json]:
        """The next events up to and with one about the object of that name."""
        return self._until(lambda found: bool(found) and _about(found[-1]) == name)

    def rest(self, *, bookmarks: bool = False) -> list[Json]:
        """All further events until the server ends the watch."""
        return self._until(lambda _: False, bookmarks=bookmarks)

    def _until(self, enough: Callable[[list[Json]], bool], *, bookmarks: bool = False) -> list[Json]:
        found: list[Json] = []
        while not enough(found):
            if (event := next(self._lines, None)) is None:
                break
            if bookmarks or event["type"] != "BOOKMARK":
                found.append(event)
        self._api._append({"step": f"EVENTS {self._path}", "events": found})
        return found


def slug(case: str) -> str:
    """A DNS label made from a case's name, for the objects that belong to it."""
    whole = re.sub(r"[^a-z0-9]+", "-", case.lower()).strip("-")
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 9].strip('-')}-{crc32(case.encode()):08x}"


def _about(event: Json) -> str:
    metadata = event["object"].get("metadata", {})
    return str(metadata.get("name", ""))


def _encoded(body: Json) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


COLLECTOR_SECONDS = 150.0
"""Until it is given up. It looks for new kinds every 30 seconds, and stands still while one goes that it just found."""


def collector_is_up_to_date(api: Api) -> None:
    """Wait until the collector has seen what was made so far, and knows the shared kinds.

    A dependant that it has not seen does not hold its owner, nor is it orphaned.
    """
    with api.quietly():
        other = api.post("widgets", widget("other"))
        reference = owner("example.com/v1", "Widget", "other", other.uid)
        api.post("configmaps", config_map("last", ownerReferences=[reference]))
        api.delete("widgets/other")
        deadline = time.monotonic() + COLLECTOR_SECONDS
        while api.get("configmaps/last", expect=-1).status != 404 and time.monotonic() < deadline:
            time.sleep(0.05)
