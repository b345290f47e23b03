"""The client on the wire: what it sends, and what it makes of every kind of answer."""

import json
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from lanloom.api.core import NODES
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TransportError,
    Unauthorized,
    UnreadableObjects,
)
from lanloom.kube.http import NO_ANSWER, HttpClient
from lanloom.kube.loading import proxy_for
from tests.kube.server import (
    always,
    answer,
    serving,
    status_object,
)
from tests.kube.things import RED, THINGS, thing

PATH = "/apis/example.org/v1/namespaces/default/things"


async def test_get_decodes_the_fields_that_are_used() -> None:
    """An object comes as its Struct; fields that the Struct lacks are left out."""
    async with (
        serving(always(RED | {"other": [1]})) as server,
        HttpClient(server.config(token="secret")) as client,
    ):
        assert await client.get(THINGS, "a", "default") == thing("a", 7, "red")
    [request] = server.seen
    assert (request.method, request.path) == ("GET", f"{PATH}/a")
    assert request.headers["Authorization"] == "Bearer secret"


async def test_names_stay_one_segment_of_the_path() -> None:
    """A name with slashes, dots or a query can't reach another resource."""
    async with serving(always({}, 404)) as server, HttpClient(server.config()) as client:
        for name in ("a/b", "../../../../api/v1/nodes", "..", "a?watch=true", "a#b"):
            with pytest.raises(NotFound):
                await client.get(THINGS, name, "default")
    assert all(
        request.path.startswith(f"{PATH}/") and request.path.count("/") == 7 for request in server.seen
    )
    assert not any(request.query for request in server.seen)


def _pages(*contents: list[str]) -> Any:
    """A handler for a list in pages; the continue token is the number of the next page."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        number = int(request.query.get("continue", "0"))
        metadata = {"resourceVersion": "9"} | (
            {"continue": str(number + 1), "remainingItemCount": 1} if number + 1 < len(contents) else {}
        )
        items = [{"metadata": {"namespace": "default", "name": name}} for name in contents[number]]
        return answer({"metadata": metadata, "items": items})

    return handle


async def test_list_reads_every_page() -> None:
    """A list is read page by page with the server's token until there is none, under the same selectors."""
    async with (
        serving(_pages(["a", "b"], ["c", "d"], ["e"])) as server,
        HttpClient(server.config(), page=2) as client,
    ):
        listing = await client.list(
            THINGS, "default", labels="colour in (red,blue)", fields="metadata.name!=x"
        )
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c", "d", "e"]
    assert listing.resource_version == "9"
    assert [request.query.get("continue") for request in server.seen] == [None, "1", "2"]
    for request in server.seen:
        assert request.query["limit"] == "2"
        assert request.query["labelSelector"] == "colour in (red,blue)"
        assert request.query["fieldSelector"] == "metadata.name!=x"


async def test_list_from_the_cache() -> None:
    """A list at a version, or at any, has no limit, which would have the server read etcd."""
    for version in ("0", "9"):
        async with serving(_pages(["a"])) as server, HttpClient(server.config()) as client:
            await client.list(THINGS, "default", resource_version=version)
        assert dict(server.seen[0].query) == {"resourceVersion": version}


async def test_empty_list() -> None:
    """A list without items, or with null instead of them, is empty."""
    for body in (
        {"metadata": {"resourceVersion": "3"}},
        {"metadata": {"resourceVersion": "3"}, "items": None},
    ):
        async with serving(always(body)) as server, HttpClient(server.config()) as client:
            listing = await client.list(NODES)
        assert (listing.items, listing.resource_version) == ((), "3")


async def test_token_that_expires_between_pages() -> None:
    """A page that the server has compacted away is Gone, and no half of a list is returned."""
    first = _pages(["a"], ["b"])

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if "continue" in request.query:
            return answer(status_object(410, "Expired", "The provided continue parameter is too old"), 410)
        return await first(request)  # type: ignore[no-any-return]

    async with serving(handle) as server, HttpClient(server.config(), page=1) as client:
        with pytest.raises(Gone, match="too old"):
            await client.list(THINGS)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", ApiError),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", ServerError),
        (500, "InternalError", ServerError),
        (504, "Timeout", ServerError),
    ],
)
async def test_refusals(code: int, reason: str, error: type[ApiError]) -> None:
    """Each refusal is the error of its code and reason, with the server's own words."""
    body = status_object(code, reason, "because of the tests")
    async with serving(always(body, code)) as server, HttpClient(server.config()) as client:
        with pytest.raises(ApiError, match="because of the tests") as caught:
            await client.create(THINGS, thing("a"), "default")
    assert type(caught.value) is error
    assert (caught.value.code, caught.value.reason, caught.value.status) == (code, reason, body)


async def test_refusal_of_a_proxy() -> None:
    """A refusal without a Status object says what the answer said."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=502, text="<h1>no upstream</h1>")

    async with serving(handle) as server, HttpClient(server.config()) as client:
        with pytest.raises(ServerError, match="no upstream"):
            await client.get(NODES, "a")


async def test_redirects_are_not_followed() -> None:
    """A redirect is refused, so that credentials go to the configured server only."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving(handle) as server, HttpClient(server.config(token="secret")) as client:
        with pytest.raises(ApiError):
            await client.get(NODES, "a")
    assert len(server.seen) == 1


async def test_answers_that_cannot_be_read() -> None:
    """An answer that is not JSON, or not of the type, is as good as none."""
    for body in ("text", {"metadata": 5}, [1]):
        async with serving(always(body)) as server, HttpClient(server.config()) as client:
            for call in (client.get(NODES, "a"), client.list(NODES), client.patch(NODES, "a", {})):
                with pytest.raises(TransportError, match="can't be read"):
                    await call


def _line(event: dict[str, Any]) -> Any:
    """A handler for a watch of one event."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=json.dumps(event).encode() + b"\n")

    return handle


async def test_nulls_of_others_are_read() -> None:
    """A null stands for a field that is not there, in an object, in a list and in an event of a watch."""
    null = RED | {"metadata": RED["metadata"] | {"labels": None, "finalizers": None}, "colour": None}  # type: ignore[operator]
    plain = thing("a", 7, "")
    async with serving(always(null)) as server, HttpClient(server.config()) as client:
        assert await client.get(THINGS, "a", "default") == plain
    page = {"metadata": {"resourceVersion": "9"}, "items": [null, RED]}
    async with serving(always(page)) as server, HttpClient(server.config()) as client:
        assert (await client.list(THINGS, "default")).items == (plain, thing("a", 7, "red"))
    event = {"type": "ADDED", "object": null}
    async with (
        serving(_line(event)) as server,
        HttpClient(server.config()) as client,
        aclosing(client.watch(THINGS, "default", resource_version="1")) as events,
    ):
        assert (await anext(events)).object == plain


async def test_one_object_that_cannot_be_read() -> None:
    """A list has the others; a caller that wants all of them gets an error that names the unreadable one."""
    odd = {"metadata": {"namespace": "default", "name": "b", "uid": "u", "resourceVersion": "8"}, "colour": 5}
    page = {"metadata": {"resourceVersion": "9"}, "items": [RED, odd]}
    async with serving(always(page)) as server, HttpClient(server.config()) as client:
        listing = await client.list(THINGS, "default")
    assert listing.readable == (thing("a", 7, "red"),)
    with pytest.raises(UnreadableObjects, match=r"default/b: Expected `str`, got `int` - at `\$\.colour`"):
        assert listing.items
    event = {"type": "MODIFIED", "object": odd}
    async with (
        serving(_line(event)) as server,
        HttpClient(server.config()) as client,
        aclosing(client.watch(THINGS, "default", resource_version="1")) as events,
    ):
        came = await anext(events)
    assert came.unreadable == listing.unreadable[0]
    assert (came.object.metadata.uid, came.object.metadata.version) == ("u", 8)


async def test_create_names_the_kind() -> None:
    """A created Struct carries apiVersion and kind, and nothing that it leaves at the default."""
    async with serving(always(RED, 201)) as server, HttpClient(server.config()) as client:
        await client.create(THINGS, thing("a", colour="red"), "default")
    [request] = server.seen
    assert (request.method, request.path) == ("POST", PATH)
    assert json.loads(request.body) == {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {"namespace": "default", "name": "a"},
        "colour": "red",
    }


async def test_json_patch() -> None:
    """A JSON patch goes out as RFC 6902 asks, to the subresource if one is named; a failed test is Invalid."""
    operations = [{"op": "test", "path": "/colour", "value": "red"}, {"op": "remove", "path": "/colour"}]
    async with serving(always(RED)) as server, HttpClient(server.config()) as client:
        await client.json_patch(THINGS, "a", operations, "default", subresource="status")
    [request] = server.seen
    assert (request.method, request.path) == ("PATCH", f"{PATH}/a/status")
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(request.body) == operations


async def test_patch_is_a_merge_patch() -> None:
    """A patch goes out as RFC 7386 asks, to the subresource if one is named; null stays null."""
    async with serving(always(RED)) as server, HttpClient(server.config()) as client:
        await client.patch(THINGS, "a", {"colour": None}, "default", subresource="status")
    [request] = server.seen
    assert (request.method, request.path) == ("PATCH", f"{PATH}/a/status")
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"colour": None}


async def test_delete_sends_its_options() -> None:
    """A deletion says how dependents go, which object is meant, and how long a pod gets."""
    async with serving(always(RED)) as server, HttpClient(server.config()) as client:
        await client.delete(
            THINGS, "a", "default", uid="u-1", resource_version="7", propagation="Foreground", grace=0
        )
    [request] = server.seen
    assert (request.method, request.path) == ("DELETE", f"{PATH}/a")
    options = json.loads(request.body)
    assert options["propagationPolicy"] == "Foreground"
    assert options["preconditions"] == {"uid": "u-1", "resourceVersion": "7"}
    assert options["gracePeriodSeconds"] == 0


async def test_request_without_types() -> None:
    """A plain request gives the plain answer."""
    async with serving(always({"gitVersion": "v1.30"})) as server, HttpClient(server.config()) as client:
        assert await client.request("GET", "/version", query={"pretty": "true"}) == {"gitVersion": "v1.30"}
    assert server.seen[0].query == {"pretty": "true"}


async def test_nobody_listens() -> None:
    """A refused connection is a TransportError that names the server, and says why in words."""
    async with serving(always(RED)) as server:
        config = server.config()
    async with HttpClient(config) as client:
        with pytest.raises(
            TransportError,
            match=r"GET https://127\.0\.0\.1:\d+/\S+: cannot connect to 127\.0\.0\.1:\d+: connection refused$",
        ):
            await client.get(NODES, "a")


@pytest.mark.parametrize("environment", [{}, {"HTTPS_PROXY": "http://[::1]:1"}], ids=["direct", "proxy"])
async def test_an_address_of_ipv6_is_named_as_in_a_url(environment: dict[str, str]) -> None:
    """A server or proxy with an IPv6 address is named with brackets, so that its port shows."""
    server = "https://[2001:db8::1]:1" if environment else "https://[::1]:1"
    config = ClusterConfig(server=server, proxy=proxy_for(server, environment))
    async with HttpClient(config) as client:
        with pytest.raises(TransportError, match=r"cannot connect to \[::1\]:1: [a-z ]+$"):
            await client.get(NODES, "a")


async def test_a_server_without_an_address() -> None:
    """A server whose name can't be resolved is named with the resolver's words."""
    config = ClusterConfig(server="https://nowhere.invalid:6443")
    async with HttpClient(config) as client:
        with pytest.raises(TransportError, match=r"cannot connect to nowhere\.invalid:6443: [a-z ]+$"):
            await client.get(NODES, "a")


async def test_an_observer_hears_of_each_request() -> None:
    """The observer gets verb, resource, code and time of every request, pages and refusals included."""
    seen: list[tuple[str, str, str]] = []

    def observe(verb: str, resource: str, code: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        seen.append((verb, resource, code))

    async with (
        serving(_pages(["a"], ["b"])) as server,
        HttpClient(server.config(), page=1, observe=observe) as client,
    ):
        await client.list(THINGS)
        async with aclosing(client.watch(THINGS, resource_version="9")) as events:
            with pytest.raises(StopAsyncIteration):
                await anext(events)
        server.handler = always(status_object(404, "NotFound", "gone"), 404)
        with pytest.raises(NotFound):
            await client.delete(THINGS, "a", "default")
        with pytest.raises(NotFound):
            await client.request("GET", "/version")
    name = THINGS.full_name
    assert seen == [("list", name, "200")] * 2 + [
        ("watch", name, "200"),
        ("delete", name, "404"),
        ("get", "", "404"),
    ]


async def test_an_observer_hears_of_requests_without_an_answer() -> None:
    """A request without an answer has no HTTP code, and is reported all the same."""
    seen: list[str] = []
    async with serving(always(RED)) as server:
        config = server.config()
    async with HttpClient(
        config, observe=lambda _verb, _resource, code, _seconds: seen.append(code)
    ) as client:
        with pytest.raises(TransportError):
            await client.get(NODES, "a")
    assert seen == [NO_ANSWER]


async def test_a_dry_run_asks_the_server_to_store_nothing() -> None:
    """With `dry_run`, each write is one of which nothing is stored; reads are as always."""
    async with (
        serving(always({"metadata": {"name": "a"}})) as server,
        HttpClient(server.config(), dry_run=True) as client,
    ):
        await client.get(THINGS, "a", "default")
        await client.create(THINGS, {"metadata": {"name": "a"}}, "default")
        await client.patch(THINGS, "a", {}, "default")
        await client.json_patch(THINGS, "a", [], "default", subresource="status")
        await client.delete(THINGS, "a", "default")
    *others, deletion = server.seen
    assert [(seen.method, seen.query.get("dryRun", "")) for seen in others] == [
        ("GET", ""),
        ("POST", "All"),
        ("PATCH", "All"),
        ("PATCH", "All"),
    ]
    assert json.loads(deletion.body)["dryRun"] == [
        "All"
    ]  # an API server ignores the query of one with a body


async def test_warnings_of_the_server() -> None:
    """The texts of each header of warnings are heard, quotes and other alphabets in them, also with a refusal."""
    values = (
        '299 - "say \\"no\\" – ü"',
        '299 kube "one", 299 - "two, or \\\\three"',
        "no warning",
        '110 - "stale"',
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = answer({"metadata": {}}, 200 if request.method == "GET" else 403)
        for value in values:
            response.headers.add("Warning", value)
        return response

    heard: list[str] = []
    async with serving(handle) as server, HttpClient(server.config(), warn=heard.append) as client:
        await client.get(THINGS, "a", "default")
        assert heard == ['say "no" – ü', "one", "two, or \\three"]
        with pytest.raises(Forbidden):
            await client.create(THINGS, {"metadata": {"name": "a"}}, "default")
    assert len(heard) == 6
