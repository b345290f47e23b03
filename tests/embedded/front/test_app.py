"""The application as a client sees it: codes, forms, warnings, streams, rights."""

import asyncio
import copy
from collections.abc import Sequence

import pytest

from lanloom.runtime.https import bodies
from lanloom_embedded.engine.storage import Change, MemoryStorage
from lanloom_embedded.kinds import Raw
from tests.embedded.engine.running import WIDGETS, running_engine, until
from tests.embedded.front.browser import TABLE, Browser, browsing
from tests.harness.virtual import run

MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGET: Raw = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
MERGE = "application/merge-patch+json"


async def test_object_lives_from_post_to_delete() -> None:
    """An object is created, read, listed, replaced, patched and deleted with the codes of the API."""
    async with browsing() as browser:
        made = await browser.request("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert made.status == 201
        assert made.json["kind"] == "ConfigMap"
        assert (await browser.request("GET", f"{MAPS}/a")).json == made.json
        listed = (await browser.request("GET", MAPS)).json
        assert (listed["kind"], len(listed["items"])) == ("ConfigMapList", 1)
        replaced = await browser.request("PUT", f"{MAPS}/a", {**made.json, "data": {"k": "w"}})
        assert (replaced.status, replaced.json["data"]) == (200, {"k": "w"})
        patched = await browser.request("PATCH", f"{MAPS}/a", {"data": {"k": "x"}}, content_type=MERGE)
        assert patched.json["data"] == {"k": "x"}
        gone = await browser.request("DELETE", f"{MAPS}/a")
        assert gone.json["status"] == "Success"
        assert (await browser.request("GET", f"{MAPS}/a")).status == 404


async def test_stored_bytes_answer_a_read() -> None:
    """Items of built-in lists carry no kind, items of custom lists do, as in the real server."""
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        await browser.request("POST", "/apis/example.com/v1/namespaces/default/widgets", WIDGET)
        (item,) = (await browser.request("GET", "/apis/example.com/v1/widgets")).json["items"]
        assert item["kind"] == "Widget"
        (other,) = (await browser.request("GET", "/apis/example.com/v1beta1/widgets")).json["items"]
        assert other["apiVersion"] == "example.com/v1beta1"
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        (plain,) = (await browser.request("GET", MAPS)).json["items"]
        assert "kind" not in plain


async def test_forms_of_an_answer() -> None:
    """A client gets a table, YAML or metadata alone if it asks, and is refused what can't be written."""
    async with browsing() as browser:
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        table = (await browser.request("GET", MAPS, accept=TABLE)).json
        assert [row["cells"][0] for row in table["rows"]] == ["a"]
        text = (await browser.request("GET", f"{MAPS}/a", accept="application/yaml")).text
        assert "kind: ConfigMap\n" in text
        partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        assert "data" not in (await browser.request("GET", f"{MAPS}/a", accept=partial)).json
        assert (await browser.request("GET", MAPS, accept="image/png")).status == 406


async def test_unknown_fields_are_refused_warned_about_or_ignored() -> None:
    """fieldValidation decides what happens to fields that the kind doesn't know."""
    async with browsing() as browser:
        body = {"metadata": {"name": "a"}, "nonsense": 1}
        strict = await browser.request("POST", f"{MAPS}?fieldValidation=Strict", body)
        assert (strict.status, 'unknown field "nonsense"' in strict.json["message"]) == (400, True)
        warned = await browser.request("POST", f"{MAPS}?dryRun=All", body)
        assert warned.warnings == ['299 - "unknown field \\"nonsense\\""']
        silent = await browser.request("POST", f"{MAPS}?fieldValidation=Ignore", body)
        assert (silent.status, silent.warnings) == (201, [])


async def test_warnings_about_unknown_fields_are_bounded() -> None:
    """Of very many unknown fields the first are named and the rest counted, within 4 KiB and fifty headers."""
    async with browsing() as browser:
        body = {"metadata": {"name": "a"}, **{f"nonsense{number:05}" * 4: 1 for number in range(40_000)}}
        warned = await browser.request("POST", f"{MAPS}?dryRun=All", body)
        assert warned.status == 201
        assert sum(len(f"warning: {value}\r\n".encode()) for value in warned.warnings) <= 4_096
        assert 1 < len(warned.warnings) <= 50
        assert warned.warnings[-1].endswith(' more"')
        strict = await browser.request("POST", f"{MAPS}?fieldValidation=Strict", body)
        assert (strict.status, strict.json["message"].count("unknown field")) == (400, 100)


async def test_a_patch_answers_for_the_fields_that_it_brings() -> None:
    """A patch of an object with a field that its kind has lost since is neither refused nor warned about for it."""
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        assert (await browser.request("POST", widgets, {**WIDGET, "spec": {"size": 3}})).status == 201
        versions: list[Raw] = copy.deepcopy(WIDGETS["spec"]["versions"])
        for version in versions:
            del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        changed = {"spec": {"versions": versions}}
        await browser.request("PATCH", f"{CRDS}/widgets.example.com", changed, content_type=MERGE)
        strict, warning = f"{widgets}/a?fieldValidation=Strict", f"{widgets}/a?dryRun=All"
        label, size = {"metadata": {"labels": {"a": "b"}}}, {"spec": {"size": 4}}
        assert (await browser.request("PATCH", warning, label, content_type=MERGE)).warnings == []
        refused = await browser.request("PATCH", strict, size, content_type=MERGE)
        assert (refused.status, 'unknown field "spec.size"' in refused.json["message"]) == (400, True)
        labelled = await browser.request("PATCH", strict, label, content_type=MERGE)
        assert (labelled.status, labelled.json["spec"]) == (200, {"mode": "auto"})


async def test_sizes_are_limited() -> None:
    """A body of more than three MiB and annotations of more than 256 KiB are refused."""
    async with browsing() as browser:
        large = await browser.request("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))
        assert (large.status, large.json["reason"]) == (413, "RequestEntityTooLarge")
        annotated = {"metadata": {"name": "a", "annotations": {"a": "x" * 262_144}}}
        refused = await browser.request("POST", MAPS, annotated)
        assert refused.status == 422
        assert "metadata.annotations: Too long: may not be more than 262144 bytes" in refused.json["message"]


@pytest.mark.parametrize("depth", [500, 5_000, 200_000])
async def test_depth_is_limited(depth: int) -> None:
    """A body that is nested beyond reason is a bad request, not the end of the server."""
    async with browsing() as browser:
        nested = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        assert (await browser.request("POST", MAPS, nested)).status in (400, 413)
        assert (await browser.request("GET", MAPS)).status == 200


JSON_PATCH = "application/json-patch+json"


@pytest.mark.slow
async def test_a_patch_does_not_double_an_object_without_bound() -> None:
    """A JSON patch whose copies exceed the bound is refused, in a dry run and on a status as well."""
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        await browser.request("POST", widgets, WIDGET)
        patch = [
            {"op": "add", "path": "/status", "value": {"a": {"b": 1}}},
            *({"op": "copy", "from": "/status/a", "path": f"/status/a/c{i}"} for i in range(28)),
        ]
        for path in ("a", "a?dryRun=All", "a/status"):
            answer = await browser.request("PATCH", f"{widgets}/{path}", patch, content_type=JSON_PATCH)
            assert (answer.status, answer.json["reason"]) == (422, "Invalid")
            assert "all copies of a patch may add" in answer.json["details"]["causes"][0]["message"]


@pytest.mark.slow
async def test_patches_do_not_make_an_object_too_large() -> None:
    """What may not come in one body may not come in several patches either, but an object may always shrink."""
    async with browsing() as browser:
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        for name in ("x", "y"):
            patch = {"metadata": {"annotations": {}}, "data": {f"{name}{i}": "1" for i in range(60_000)}}
            answer = await browser.request("PATCH", f"{MAPS}/a", patch, content_type=MERGE)
        assert (answer.status, "values" in answer.json["message"]) == (413, True)
        shrinking = await browser.request("PATCH", f"{MAPS}/a", {"data": None}, content_type=MERGE)
        assert shrinking.status == 200


async def test_patches_do_not_nest_an_object_too_deep() -> None:
    """A patch that moves an object into a new one, again and again, is a bad request."""
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        await browser.request("POST", widgets, WIDGET)
        first = {"op": "add", "path": "/status", "value": {}}
        step = [
            {"op": "add", "path": "/b", "value": {}},
            {"op": "move", "from": "/status", "path": "/b/a"},
            {"op": "move", "from": "/b", "path": "/status"},
        ]
        for times in (bodies.DEPTH, 3_000):
            patch = [first, *step * times]
            answer = await browser.request("PATCH", f"{widgets}/a/status", patch, content_type=JSON_PATCH)
            assert (answer.status, "nested" in answer.json["message"]) == (400, True)


class Exhausted(MemoryStorage):
    """A storage that has no memory left."""

    exhausted = False

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """As the port says, until it is full."""
        if self.exhausted:
            raise MemoryError
        await super().commit(changes, compacted)


async def test_a_lack_of_memory_is_no_answer() -> None:
    """A MemoryError is left to the code that ends the process."""
    storage = Exhausted()
    async with running_engine(storage) as engine:
        browser = Browser(engine)
        storage.exhausted = True
        with pytest.raises(MemoryError):
            await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        storage.exhausted = False


YAML_BOMBS = {
    "braces": b"{" * 3_000_000,
    "nested": b"{a: " * 4_000 + b"1" + b"}" * 4_000,
    "keys": b"\n".join(b"k%d: 1" % number for number in range(230_000)),
}


@pytest.mark.parametrize("name", YAML_BOMBS)
async def test_yaml_that_takes_long_is_refused_to_every_user(name: str) -> None:
    """A review, which every user may ask for, is refused if its YAML is too deep or has too many values."""
    async with browsing() as browser:
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = YAML_BOMBS[name]
        answer = await browser.request("POST", reviews, body, content_type="application/yaml")
        assert answer.status in (400, 413)
        assert answer.json["kind"] == "Status"


async def test_yaml_bombs_are_refused() -> None:
    """YAML with aliases, which can stand for gigabytes, is a bad request."""
    async with browsing() as browser:
        bomb = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
        answer = await browser.request("POST", MAPS, bomb, content_type="application/yaml")
        assert (answer.status, "aliases" in answer.json["message"]) == (400, True)


async def test_an_apply_creates_only_for_whom_that_is_allowed() -> None:
    """An apply of an object that is not there yet is a creation, and names its manager."""
    async with browsing() as browser:
        kind = "application/apply-patch+yaml"
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
        answer = await browser.request("PATCH", f"{MAPS}/a", body, content_type=kind)
        assert (answer.status, "fieldManager" in answer.json["message"]) == (422, True)
        for code in (201, 200):
            answer = await browser.request("PATCH", f"{MAPS}/a?fieldManager=me", body, content_type=kind)
            assert answer.status == code
        (entry,) = answer.json["metadata"]["managedFields"]
        assert (entry["manager"], entry["fieldsV1"]) == ("me", {"f:data": {"f:k": {}}})


def test_watch_streams_until_its_time_is_up() -> None:
    """A watch sends events as they happen, ends at its time-out, and then its answer is complete."""

    async def main() -> None:
        async with browsing() as browser:
            answer, task, _ = browser.start("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
            await until(lambda: answer.status == 200)
            await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
            await until(lambda: bool(answer.chunks))
            await task
            assert [(event["type"], event["object"]["metadata"]["name"]) for event in answer.events] == [
                ("ADDED", "a")
            ]
            assert answer.ended

    run(main())


async def test_watch_ends_when_the_client_leaves() -> None:
    """A client that leaves costs nothing more."""
    async with browsing() as browser:
        answer, task, left = browser.start("GET", f"{MAPS}?watch=1")
        await until(lambda: answer.status == 200)
        left.set()
        async with asyncio.timeout(60):
            await task
        assert not answer.ended


@pytest.mark.slow
async def test_watch_of_a_forgotten_version_says_so_in_the_stream() -> None:
    """A watch that begins too late is answered with one ERROR event of code 410."""
    async with browsing() as browser:
        for number in range(1300):
            await browser.request(
                "PATCH", "/api/v1/namespaces/default", _labelled(number), content_type=MERGE
            )
        answer = await browser.request("GET", f"{MAPS}?watch=1&resourceVersion=2")
        (event,) = answer.events
        assert (answer.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


def _labelled(number: int) -> Raw:
    return {"metadata": {"labels": {"number": str(number)}}}


async def test_watchers_of_everything_share_their_bytes() -> None:
    """Two watches at the same place send the very same chunk."""
    async with browsing() as browser:
        first, one, leave = browser.start("GET", "/api/v1/configmaps?watch=1&resourceVersion=1")
        second, two, leave_too = browser.start("GET", "/api/v1/configmaps?watch=1&resourceVersion=1")
        await until(lambda: bool(first.status and second.status))
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        await until(lambda: bool(first.chunks and second.chunks))
        assert first.chunks[-1] is second.chunks[-1]
        leave.set()
        leave_too.set()
        await asyncio.gather(one, two)


@pytest.mark.parametrize(("token", "status"), [("", 403), ("nonsense", 401), ("alice", 403), ("root", 200)])
async def test_rights_are_asked_before_anything_else(token: str, status: int) -> None:
    """No user without rights learns whether an object is there."""
    async with browsing() as browser:
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        assert (await browser.request("GET", f"{MAPS}/a", token=token)).status == status


async def test_refusal_of_rights_names_verb_resource_and_place() -> None:
    """A refusal says exactly what a user may not do."""
    async with browsing() as browser:
        answer = await browser.request("DELETE", f"{MAPS}/a", token="alice")
        assert answer.json["message"] == (
            'configmaps "a" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" '
            'in the namespace "default"'
        )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_anybody_may_ask_for_health_and_version(path: str) -> None:
    """Probes need no credentials."""
    async with browsing() as browser:
        assert (await browser.request("GET", path, token="")).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        "/apis/apps",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
    ],
)
async def test_everybody_may_discover(path: str) -> None:
    """Discovery and OpenAPI are open to every user, but not to strangers."""
    async with browsing() as browser:
        assert (await browser.request("GET", path, token="alice")).status == 200
        assert (await browser.request("GET", path, token="")).status == 403


async def test_documents_follow_the_served_kinds() -> None:
    """A new CRD appears in discovery and in OpenAPI at once."""
    async with browsing() as browser:
        before = await browser.request("GET", "/openapi/v2")
        assert "example.com" not in before.text
        await browser.request("POST", CRDS, WIDGETS)
        assert "example.com" in (await browser.request("GET", "/openapi/v2")).text
        assert "widgets" in (await browser.request("GET", "/apis/example.com/v1")).text
        assert "example.com" in (await browser.request("GET", "/apis")).text


async def test_review_answers_what_one_may_do() -> None:
    """A SelfSubjectAccessReview is answered by the very rules that decide requests."""
    async with browsing() as browser:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        wanted = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
        assert await _allowed(browser, path, wanted, "root")
        assert not await _allowed(browser, path, wanted, "alice")


async def _allowed(browser: Browser, path: str, body: Raw, token: str) -> bool:
    answer = await browser.request("POST", path, body, token=token)
    assert answer.status == 201
    allowed: bool = answer.json["status"]["allowed"]
    return allowed
