"""A body with values of wrong types is the client's error, whatever the values and wherever they stand."""

from random import Random
from typing import Any

import pytest

from lanloom_embedded.builtin import BUILTINS
from lanloom_embedded.kinds import Raw, ServedKind
from tests.embedded.engine.running import WIDGETS
from tests.embedded.front.browser import Browser, browsing
from tests.harness.examples import seeds

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGET_PATH = "/apis/example.com/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"
WIDGET: Raw = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a"},
    "spec": {"size": 1},
}
MERGE, STRATEGIC, JSON_PATCH = (
    f"application/{name}+json" for name in ("merge-patch", "strategic-merge-patch", "json-patch")
)
JUNK: tuple[Any, ...] = (
    None, True, 5, -1, 0, 1.5, 1e300, 2**70, "", "x", "\x00", "a/b", "9" * 5_000, [], [[]], [None], [5], ["x"], {},
    {"a": None}, {"a": 5}, {"name": 5}, {"name": "x"}, [{}], [{"name": "x"}], {"": ""},
)  # fmt: skip
STORED = [kind for kind in BUILTINS if "create" in kind.verbs and kind.kind != "CustomResourceDefinition"]


def made(schema: Raw, rng: Random, junk: float = 0.1) -> Any:
    """A value of a schema, in which some values are of other types."""
    if rng.random() < junk:
        return rng.choice(JUNK)
    match schema.get("type"):
        case "object":
            found = {
                name: made(below, rng, junk)
                for name, below in schema.get("properties", {}).items()
                if rng.random() < 0.7 or name in schema.get("required", ())
            }
            if isinstance(below := schema.get("additionalProperties"), dict):
                found["k"] = made(below, rng, junk)
            return found
        case "array":
            return [made(schema.get("items", {}), rng, junk) for _ in range(rng.randrange(3))]
        case "integer" | "number":
            return rng.choice((0, 1, 80))
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return rng.choice(schema.get("enum", ("a", "b.example.com", "2026-01-01T00:00:00Z", "YQ==")))
    return rng.choice(JUNK)


def broken(value: Any, rng: Random) -> Any:
    """A copy in which one value, anywhere, is junk."""
    if not value or not isinstance(value, dict) or rng.random() < 0.3:
        return rng.choice(JUNK)
    key = rng.choice(sorted(value))
    return {**value, key: broken(value[key], rng)}


async def refuses(browser: Browser, method: str, url: str, body: object, **headers: str) -> None:
    """Asks, and expects anything but an error of the server."""
    answer = await browser.request(method, url, body, **headers)
    assert answer.status < 500, (answer.status, method, url, body, answer.text[:500])


def path_of(kind: ServedKind) -> str:
    """Where objects of a kind are created."""
    group = f"/apis/{kind.group}" if kind.group else "/api"
    return f"{group}/{kind.version}/{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.plural)
async def test_a_new_object_of_wrong_types_is_refused(kind: ServedKind) -> None:
    """A new object is created or refused with 4xx, whatever types its values have."""
    rng = Random(kind.plural)
    async with browsing() as browser:
        for _ in range(60):
            body = made(kind.schema or {}, rng)
            if isinstance(body, dict) and rng.random() < 0.8:
                body |= {"apiVersion": kind.api_version, "kind": kind.kind}
                if rng.random() < 0.7:
                    body["metadata"] = {"name": "a"}
            await refuses(browser, "POST", f"{path_of(kind)}?dryRun=All", body)


@pytest.mark.parametrize("seed", seeds(8))
async def test_a_change_of_wrong_types_is_refused(seed: int) -> None:
    """An update, a patch and a deletion are done or refused with 4xx, whatever types their values have."""
    rng = Random(seed)
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        await browser.request("POST", WIDGET_PATH, WIDGET)
        created = {"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"a": "b"}}
        before = (await browser.request("POST", MAPS, created)).json
        widget = (await browser.request("GET", f"{WIDGET_PATH}/a")).json
        options: Raw = {
            "kind": "DeleteOptions",
            "preconditions": {"uid": "x", "resourceVersion": "1"},
            "dryRun": ["All"],
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
        }
        for _ in range(40):
            for path, obj in ((f"{MAPS}/a", before), (f"{WIDGET_PATH}/a", widget)):
                await refuses(browser, "PUT", f"{path}?dryRun=All", broken(obj, rng))
                await refuses(browser, "PATCH", f"{path}?dryRun=All", broken(obj, rng), content_type=MERGE)
                await refuses(
                    browser, "PATCH", f"{path}?dryRun=All", broken(obj, rng), content_type=STRATEGIC
                )
                step = {
                    "op": rng.choice(("add", "copy", "move", "test", "replace", "remove")),
                    "from": "/metadata",
                }
                step |= {
                    "path": rng.choice(("", "/metadata", "/kind", "/data/a", "/x/y")),
                    "value": rng.choice(JUNK),
                }
                patch = [broken(step, rng) if rng.random() < 0.5 else step]
                await refuses(browser, "PATCH", f"{path}?dryRun=All", patch, content_type=JSON_PATCH)
                await refuses(browser, "DELETE", f"{path}?dryRun=All", broken(options, rng))
            await refuses(browser, "PUT", f"{WIDGET_PATH}/a/status?dryRun=All", broken(widget, rng))


SPECS: tuple[Any, ...] = (
    5,
    "x",
    {"resourceAttributes": 5},
    {"nonResourceAttributes": "x"},
    {"nonResourceAttributes": {"path": 5, "verb": "get"}},
    {"resourceAttributes": {"verb": ["get"]}},
)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("plural", ["selfsubjectaccessreviews", "subjectaccessreviews"])
async def test_reviews_of_wrong_types_are_bad_requests(plural: str, spec: object) -> None:
    """A review whose question has values of wrong types is a bad request that names the field."""
    async with browsing() as browser:
        answer = await browser.request("POST", f"{REVIEWS}/{plural}", {"spec": spec}, token="alice")
        if plural == "subjectaccessreviews":
            answer = await browser.request("POST", f"{REVIEWS}/{plural}", {"spec": spec})
        assert (answer.status, answer.json["reason"], "spec" in answer.json["message"]) == (
            400,
            "BadRequest",
            True,
        )


async def test_other_wrong_reviews_are_refused() -> None:
    """Groups that are no list, a namespace that is no text and another kind are bad requests; no spec is invalid."""
    async with browsing() as browser:
        for plural, body, code in (
            ("subjectaccessreviews", {"spec": {"groups": 5}}, 400),
            ("selfsubjectrulesreviews", {"spec": {"namespace": 5}}, 400),
            ("selfsubjectaccessreviews", {"metadata": "x", "spec": {}}, 400),
            ("selfsubjectaccessreviews", {"kind": "Pod", "apiVersion": "v1", "spec": {}}, 400),
            ("selfsubjectaccessreviews", {}, 422),
        ):
            assert (await browser.request("POST", f"{REVIEWS}/{plural}", body)).status == code, body


@pytest.mark.parametrize(
    "options",
    [{"preconditions": "x"}, {"preconditions": 1.5}, {"preconditions": [1]}, {"dryRun": 5}, {"dryRun": "All"},
     {"preconditions": {"uid": 5}}, {"orphanDependents": "yes"}, {"propagationPolicy": []}],
    ids=str,
)  # fmt: skip
async def test_delete_options_of_wrong_types_are_bad_requests(options: Raw) -> None:
    """DeleteOptions with a value of a wrong type are a bad request that names the field, and nothing is deleted."""
    async with browsing() as browser:
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        for url in (f"{MAPS}/a", MAPS):
            answer = await browser.request("DELETE", url, options)
            assert (answer.status, next(iter(options)) in answer.json["message"]) == (400, True)
        assert (await browser.request("GET", f"{MAPS}/a")).status == 200


async def test_metadata_given_as_text_is_a_bad_request() -> None:
    """Metadata that are no object are the client's error, also where the kind is wrong as well."""
    async with browsing() as browser:
        await browser.request("POST", CRDS, WIDGETS)
        await browser.request("POST", WIDGET_PATH, WIDGET)
        for kind, code in (("Widget", 400), ("Gadget", 422)):
            body = {**WIDGET, "kind": kind, "metadata": "x"}
            assert (await browser.request("POST", WIDGET_PATH, body)).status == code
            assert (await browser.request("PUT", f"{WIDGET_PATH}/a", body)).status == code
        patch = {"apiVersion": [[]], "metadata": "x"}
        assert (await browser.request("PATCH", f"{WIDGET_PATH}/a", patch, content_type=MERGE)).status == 422


@pytest.mark.parametrize("version", ["9" * 5_000, "9" * 20, str(2**64), "٣", "-1", "1_0", " 1"])
async def test_versions_are_numbers_of_64_bits(version: str) -> None:
    """A resourceVersion that is no number of 64 bits is a bad request, wherever it stands."""
    async with browsing() as browser:
        await browser.request("POST", MAPS, {"metadata": {"name": "a"}})
        for url in (f"{MAPS}/a", MAPS):
            assert (await browser.request("GET", f"{url}?resourceVersion={version}")).status == 400
        body = {"metadata": {"name": "a", "resourceVersion": version}}
        assert (await browser.request("PUT", f"{MAPS}/a", body)).status == 400


@pytest.mark.parametrize("limit", ["٣", "1_0", "%205", "x", "9" * 30, "9" * 5_000])
async def test_limits_are_numbers_of_64_bits(limit: str) -> None:
    """A limit that is no number of 64 bits in ASCII digits is a bad request."""
    async with browsing() as browser:
        assert (await browser.request("GET", f"{MAPS}?limit={limit}")).status == 400
