"""Definitions of custom kinds are taken only if the kind can then be served, and break nothing for others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from lanloom_embedded.kinds import Raw
from lanloom_embedded.schema.meta import DEPTH
from tests.embedded.front.browser import Browser, browsing
from tests.harness.examples import examples
from tests.harness.virtual import run

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"
ROOT = "spec.versions[0].schema.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"


def crd(schema: Any) -> Raw:
    """A definition of Things with a schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        },
    }


def of_spec(**keywords: Any) -> Raw:
    """The schema of a Thing with keywords for its spec."""
    return {"type": "object", "properties": {"spec": keywords}}


def nested(depth: int) -> Raw:
    """A schema in which so many schemas stand one inside the other, the outermost included."""
    schema: Raw = {"type": "string"}
    for _ in range(depth - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


WRONG_TYPES = [
    (True, ROOT, "object"),
    ([], ROOT, "object"),
    (of_spec(type="string", pattern=5), f"{SPEC}.pattern", "string"),
    (of_spec(type="string", pattern=["a"]), f"{SPEC}.pattern", "string"),
    (of_spec(type=["string"]), f"{SPEC}.type", "string"),
    (of_spec(type="string", format=5), f"{SPEC}.format", "string"),
    (of_spec(type="string", description=5), f"{SPEC}.description", "string"),
    (of_spec(type="string", maxLength="x"), f"{SPEC}.maxLength", "integer"),
    (of_spec(type="string", maxLength=1.5), f"{SPEC}.maxLength", "integer"),
    (of_spec(type="string", minLength=2**63), f"{SPEC}.minLength", "integer"),
    (of_spec(type="integer", minimum="x"), f"{SPEC}.minimum", "number"),
    (of_spec(type="integer", maximum=True), f"{SPEC}.maximum", "number"),
    (of_spec(type="integer", exclusiveMinimum=1), f"{SPEC}.exclusiveMinimum", "boolean"),
    (of_spec(type="object", nullable="yes"), f"{SPEC}.nullable", "boolean"),
    (of_spec(type="object", required=5), f"{SPEC}.required", "array"),
    (of_spec(type="object", required=[5]), f"{SPEC}.required[0]", "string"),
    (of_spec(type="object", properties=[1]), f"{SPEC}.properties", "object"),
    (of_spec(type="object", properties={"a": 5}), f"{SPEC}.properties[a]", "object"),
    (of_spec(type="object", additionalProperties=5), f"{SPEC}.additionalProperties", "object,boolean"),
    (of_spec(type="array", items=5), f"{SPEC}.items", "object,array"),
    (of_spec(type="object", anyOf={"a": {}}), f"{SPEC}.anyOf", "array"),
    (of_spec(type="object", allOf=[1, 2]), f"{SPEC}.allOf[0]", "object"),
    (of_spec(type="object", **{"not": []}), f"{SPEC}.not", "object"),
    (of_spec(type="string", enum="a"), f"{SPEC}.enum", "array"),
    (of_spec(type="string", **{"x-kubernetes-validations": {}}), f"{SPEC}.x-kubernetes-validations", "array"),
    (
        of_spec(type="string", **{"x-kubernetes-validations": [{"rule": 5}]}),
        f"{SPEC}.x-kubernetes-validations[0].rule",
        "string",
    ),
    (of_spec(**{"x-kubernetes-int-or-string": "yes"}), f"{SPEC}.x-kubernetes-int-or-string", "boolean"),
    (
        of_spec(type="array", items={"type": "object"}, **{"x-kubernetes-list-map-keys": "a"}),
        f"{SPEC}.x-kubernetes-list-map-keys",
        "array",
    ),
]


@pytest.mark.parametrize(("schema", "field", "wanted"), WRONG_TYPES, ids=str)
async def test_keyword_of_a_wrong_type_is_refused(schema: Any, field: str, wanted: str) -> None:
    """A definition whose schema has a keyword of a wrong type is a bad request that names the field and its type."""
    async with browsing() as browser:
        answer = await browser.request("POST", CRDS, crd(schema))
        assert answer.status == 400, answer.text
        assert answer.json["reason"] == "BadRequest"
        assert answer.json["message"].startswith("CustomResourceDefinition in version")
        assert f"{field} in body must be of type {wanted}: " in answer.json["message"]


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (None, ROOT),
        (of_spec(type="object", properties={"a": None}), "properties[spec].properties[a].type"),
        (of_spec(type="array", items=[{"type": "string"}]), "properties[spec].items"),
        (of_spec(type="string", pattern="(?=a)"), "properties[spec].pattern"),
        (nested(DEPTH + 1), "properties[a].properties[a].properties[a]"),
        (of_spec(type="object", default=nested(DEPTH)), "properties[spec].default"),
    ],
    ids=str,
)
async def test_schema_that_breaks_a_rule_is_refused(schema: Any, field: str) -> None:
    """A definition whose schema can be read and not be served is invalid, with a cause for the field."""
    async with browsing() as browser:
        answer = await browser.request("POST", CRDS, crd(schema))
        assert (answer.status, answer.json["reason"]) == (422, "Invalid"), answer.text
        assert any(field in cause["field"] for cause in answer.json["details"]["causes"])


@pytest.mark.parametrize(
    "schema",
    [
        of_spec(type="object", properties=None),
        of_spec(type="string", pattern=None, maxLength=None, enum=None, format=None),
        of_spec(type="object", additionalProperties=None, required=None, anyOf=None),
        of_spec(type="object", additionalProperties=True),
    ],
    ids=str,
)
async def test_null_keyword_counts_as_absent(schema: Any) -> None:
    """A keyword that is null is not stored and means nothing, as in kube-apiserver."""
    async with browsing() as browser:
        answer = await browser.request("POST", CRDS, crd(schema))
        assert answer.status == 201, answer.text
        assert "null" not in answer.text.replace('"nullable"', "").split('"status":')[0]
        made = await browser.request("POST", THINGS, {**THING, "spec": "a"})
        assert made.status in (201, 422)


THING: Raw = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}


async def test_deepest_schema_can_be_described() -> None:
    """With a schema as deep as the limit, every OpenAPI document is served and the kind can be written."""
    async with browsing() as browser:
        assert (await browser.request("POST", CRDS, crd(nested(DEPTH)))).status == 201
        value: Any = "x"
        for _ in range(DEPTH - 1):
            value = {"a": value}
        assert (await browser.request("POST", THINGS, {**THING, **value})).status == 201
        for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1"):
            for form in ("application/json", "application/yaml"):
                assert (await browser.request("GET", path, accept=form)).status == 200
        protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        answer, task, _ = browser.start("GET", "/openapi/v2", accept=protobuf)
        await task
        assert answer.status == 200


@pytest.mark.parametrize(
    "spec",
    [5, None, [], "x", {"versions": 5}, {"versions": [5]}, {"names": 5}, {"versions": [{"name": 5}]}],
    ids=str,
)
async def test_definition_of_a_wrong_form_is_refused(spec: Any) -> None:
    """A definition whose spec has a wrong form is refused as the client's mistake, never as the server's."""
    async with browsing() as browser:
        body: Raw = {"metadata": {"name": "things.example.com"}, "spec": spec}
        if isinstance(spec, dict):
            body["spec"] = {**crd({"type": "object"})["spec"], **spec}
        answer = await browser.request("POST", CRDS, body)
        assert answer.status in (400, 422), answer.text


WITH_RULES = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.mode != 'static' || has(self.ips)", "message": "no addresses"}
            ],
            "properties": {
                "mode": {"type": "string"},
                "ips": {
                    "type": "array",
                    "items": {"type": "string", "x-kubernetes-validations": [{"rule": "isCIDR(self)"}]},
                },
            },
        }
    },
}
PLACES = [f"{SPEC}.x-kubernetes-validations", f"{SPEC}.properties[ips].items.x-kubernetes-validations"]


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_rules_that_are_not_enforced_are_refused(validation: str) -> None:
    """A definition with rules in CEL is invalid, with a cause for each place, the reason and what to do."""
    async with browsing() as browser:
        answer = await browser.request("POST", f"{CRDS}?fieldValidation={validation}", crd(WITH_RULES))
        assert answer.status == 422, answer.text
        causes = answer.json["details"]["causes"]
        assert [cause["field"] for cause in causes] == PLACES
        for cause in causes:
            assert "not enforced by this server" in cause["message"]
            assert 'lanloom.io/unenforced-rules: "accept"' in cause["message"]


async def test_rules_are_kept_where_their_author_accepts_that_nothing_enforces_them() -> None:
    """With the annotation the definition is taken and kept as it is, with a warning for each place of rules."""
    async with browsing() as browser:
        body = crd(WITH_RULES)
        body["metadata"]["annotations"] = {"lanloom.io/unenforced-rules": "accept"}
        answer = await browser.request("POST", f"{CRDS}?fieldValidation=Strict", body)
        assert answer.status == 201, answer.text
        assert answer.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == WITH_RULES
        assert [text.partition(":")[0] for text in answer.warnings] == [f'299 - "{place}' for place in PLACES]
        made = await browser.request("POST", THINGS, {**THING, "spec": {"mode": "static", "ips": ["x"]}})
        assert made.status == 201
        assert (await browser.request("GET", "/openapi/v3/apis/example.com/v1")).status == 200
        removed = await browser.request(
            "PATCH",
            f"{CRDS}/things.example.com",
            {"metadata": {"annotations": {"lanloom.io/unenforced-rules": None}}},
            content_type="application/merge-patch+json",
        )
        assert removed.status == 422


KEYWORDS = st.sampled_from(
    [
        *("type", "format", "title", "pattern", "default", "enum", "required", "properties", "items", "not"),
        *(
            "additionalProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "maxLength",
            "minimum",
            "maxItems",
            "multipleOf",
        ),
        *("minProperties", "nullable", "uniqueItems", "exclusiveMaximum", "x-kubernetes-list-type"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"),
        *("x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    ]
)
STRANGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.just(10**400)
    | st.just(0.5)
    | st.sampled_from(["object", "string", "integer", "array", "map", "set", "a", "(", "", "date"]),
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(KEYWORDS | st.just("a"), below, max_size=4)
        | st.builds(lambda each: {"type": "object", "properties": {"a": each}}, below)
    ),
    max_leaves=10,
)
VALUES = st.sampled_from([None, "a", 5, 10**400, 0.5, True, [], [None], {}, {"a": None}, {"a": [1]}])


TYPES = st.sampled_from(
    [{}, *({"type": name} for name in ("array", "integer", "number", "object", "string"))]
)


@settings(max_examples=examples(100), deadline=None, phases=[Phase.explicit, Phase.generate])
@example({"type": "object", "items": []}, {}, [{}])
@example({"type": "number", "multipleOf": 0.5}, {}, [10**400])
@given(st.dictionaries(KEYWORDS, STRANGE, max_size=5), TYPES, st.lists(VALUES, min_size=4, max_size=4))
def test_no_schema_makes_the_server_fail(keywords: Raw, more: Raw, values: list[Any]) -> None:
    """Whatever a schema says, the definition is taken or refused, and then every write of the kind is."""

    async def scenario() -> None:
        async with browsing() as browser:
            async for status, text in _attempts(browser, of_spec(**keywords | more), values):
                assert status in (200, 201, 400, 422), text

    run(scenario())


async def _attempts(browser: Browser, schema: Raw, values: list[Any]) -> AsyncIterator[tuple[int, str]]:
    made = await browser.request("POST", CRDS, crd(schema))
    yield made.status, made.text
    if made.status != 201:
        return
    for index, value in enumerate(values):
        body = {**THING, "metadata": {"name": f"a{index}"}, "spec": value}
        answer = await browser.request("POST", THINGS, body)
        yield answer.status, answer.text
    for path in ("/openapi/v2", "/openapi/v3"):
        answer = await browser.request("GET", path)
        yield answer.status, answer.text
