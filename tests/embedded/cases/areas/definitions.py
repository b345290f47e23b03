"""CRDs: what a definition must say, what happens when it comes, changes and goes."""

from typing import Any

from lanloom.processes.definitions import manifests
from tests.embedded.cases.kit.objects import (
    Raw,
    crd,
    crd_version,
    named,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Answer

case = Area(__name__)

CRDS = "customresourcedefinitions"


def group_of(api: Api) -> str:
    """A group of the case's own."""
    return f"{api.name}.example.com"


def established(api: Api, body: Raw) -> Answer:
    """Create a definition, and wait until its kind is served."""
    with api.quietly():
        api.post(CRDS, body, expect=-1)
        api.until(f"{CRDS}/{body['metadata']['name']}", _is_established)
        spec = body["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        return api.until(path, lambda answer: answer.status == 200)


def _is_established(answer: Answer) -> bool:
    conditions = answer.body.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@case
def that_are_new(api: Api) -> None:
    """A new definition is accepted, named in its status, established and served."""
    group = group_of(api)
    body = crd(group, "Thing")
    api.post(CRDS, body, expect=201)
    api.until(f"{CRDS}/things.{group}", _is_established)
    api.until(f"/apis/{group}/v1/things", lambda answer: answer.status == 200)
    api.post(f"/apis/{group}/v1/namespaces/{api.ns}/things", named(f"{group}/v1", "Thing", "a"), expect=201)
    api.until(f"/apis/{group}/v1", lambda answer: answer.status == 200)


@case
def with_the_least(api: Api) -> None:
    """Names that are left out are derived from the kind."""
    body = crd(group_of(api), "Thing", names={"plural": "things", "kind": "Thing"})
    api.post(CRDS, body, expect=201)


@case.each({name: (position,) for position, name in enumerate(m["metadata"]["name"] for m in manifests())})
def of_lanloom(api: Api, position: int) -> None:
    """Lanloom's own definitions are accepted without a word of complaint, as a dry run shows."""
    body = dict(manifests()[position])
    metadata = {**body["metadata"], "name": f"{body['spec']['names']['plural']}.{group_of(api)}"}
    spec = {**body["spec"], "group": group_of(api)}
    api.post(CRDS, {**body, "metadata": metadata, "spec": spec}, query={"dryRun": "All"}, expect=201)


def without(body: Raw, *path: str) -> Raw:
    """A copy of nested objects without the field at the path."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in body.items() if key != name}
    return {**body, name: without(body[name], *rest)}


INVALID: dict[str, Any] = {
    "no-group": lambda body: without(body, "spec", "group"),
    "no-scope": lambda body: without(body, "spec", "scope"),
    "no-versions": lambda body: without(body, "spec", "versions"),
    "no-names": lambda body: without(body, "spec", "names"),
    "no-spec": lambda body: without(body, "spec"),
    "no-plural": lambda body: without(body, "spec", "names", "plural"),
    "no-kind": lambda body: without(body, "spec", "names", "kind"),
    "empty-versions": lambda body: {**body, "spec": {**body["spec"], "versions": []}},
    "bad-scope": lambda body: {**body, "spec": {**body["spec"], "scope": "Nonsense"}},
    "bad-name": lambda body: {**body, "metadata": {"name": "other.example.com"}},
    "bad-plural": lambda body: {
        **body,
        "spec": {**body["spec"], "names": {**body["spec"]["names"], "plural": "Things"}},
    },
    "old-version": lambda body: {**body, "apiVersion": "apiextensions.k8s.io/v2"},
}


@case.each(INVALID)
def that_are_invalid(api: Api, change: Any) -> None:
    """A definition that lacks something, or has a wrong name, is refused."""
    api.post(CRDS, change(crd(group_of(api), "Thing")), expect=-1)


def obj(**properties: Raw) -> Raw:
    """The schema of an object."""
    return {"type": "object", "properties": properties}


SCHEMAS: dict[str, Raw] = {
    "no-type": {"properties": {"spec": {"type": "object"}}},
    "not-an-object": {"type": "string"},
    "property-without-type": obj(spec={"description": "x"}),
    "items-missing": obj(spec=obj(a={"type": "array"})),
    "items-without-type": obj(spec=obj(a={"type": "array", "items": {}})),
    "unknown-type": obj(spec={"type": "nonsense"}),
    "properties-and-additional": obj(
        spec={**obj(a={"type": "string"}), "additionalProperties": {"type": "string"}}
    ),
    "additional-false": obj(spec={"type": "object", "additionalProperties": False}),
    "reference": obj(spec={"$ref": "#/x"}),
    "unique-items": obj(spec=obj(a={"type": "array", "items": {"type": "string"}, "uniqueItems": True})),
    "bad-default": obj(spec=obj(a={"type": "integer", "default": "x"})),
    "default-out-of-range": obj(spec=obj(a={"type": "integer", "default": 0, "minimum": 1})),
    "default-with-unknown-field": obj(spec={**obj(a={"type": "string"}), "default": {"b": 1}}),
    "bad-pattern": obj(spec=obj(a={"type": "string", "pattern": "("})),
    "bad-list-type": obj(
        spec=obj(a={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "nonsense"})
    ),
    "map-without-keys": obj(
        spec=obj(a={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})
    ),
    "type-inside-any-of": obj(spec={"type": "object", "anyOf": [{"type": "object"}]}),
    "default-inside-any-of": obj(
        spec={**obj(a={"type": "string"}), "anyOf": [{"properties": {"a": {"default": "x"}}}]}
    ),
    "property-only-in-any-of": obj(
        spec={"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]}
    ),
    "int-or-string-with-type": obj(spec=obj(a={"type": "string", "x-kubernetes-int-or-string": True})),
    "metadata-with-schema": obj(metadata=obj(name={"type": "string", "pattern": "^a"})),
    "metadata-with-more": obj(metadata=obj(labels={"type": "object"})),
    "embedded-without-anything": obj(spec={"type": "object", "x-kubernetes-embedded-resource": True}),
    "preserve-false": obj(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    "min-above-max": obj(spec=obj(a={"type": "integer", "minimum": 5, "maximum": 1})),
    "unknown-format": obj(spec=obj(a={"type": "string", "format": "nonsense"})),
    "enum-of-wrong-type": obj(spec=obj(a={"type": "string", "enum": [1]})),
    "cel-rules": obj(spec={"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}),
    "forbidden-keywords": obj(spec={"type": "object", "patternProperties": {"a": {"type": "string"}}}),
    "required-of-nothing": obj(spec={"type": "object", "required": ["a"]}),
}


@case.each({name: (schema,) for name, schema in SCHEMAS.items()})
def with_the_schema(api: Api, schema: Raw) -> None:
    """A schema must be structural, and its defaults valid."""
    body = crd(group_of(api), "Thing", versions=[crd_version("v1", schema)])
    api.post(CRDS, body, query={"dryRun": "All"}, expect=-1)


VERSIONS: dict[str, list[Raw]] = {
    "no-storage": [crd_version("v1", storage=False)],
    "two-storages": [crd_version("v1"), crd_version("v2")],
    "same-name": [crd_version("v1"), crd_version("v1", storage=False)],
    "bad-name": [crd_version("V_1")],
    "no-schema": [{"name": "v1", "served": True, "storage": True}],
    "none-served": [{**crd_version("v1"), "served": False}],
    "bad-column-type": [
        crd_version("v1", additionalPrinterColumns=[{"name": "A", "type": "nonsense", "jsonPath": ".spec"}])
    ],
    "bad-column-path": [
        crd_version("v1", additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec["}])
    ],
    "column-without-path": [crd_version("v1", additionalPrinterColumns=[{"name": "A", "type": "string"}])],
    "column-without-name": [
        crd_version("v1", additionalPrinterColumns=[{"type": "string", "jsonPath": ".spec"}])
    ],
    "deprecated": [{**crd_version("v1"), "deprecated": True}],
}


@case.each({name: (versions,) for name, versions in VERSIONS.items()})
def with_the_versions(api: Api, versions: list[Raw]) -> None:
    """Of the versions exactly one is stored, each has a name of its own and a schema."""
    body = crd(group_of(api), "Thing", versions=versions)
    api.post(CRDS, body, query={"dryRun": "All"}, expect=-1)


@case
def whose_names_are_taken(api: Api) -> None:
    """A kind that another definition of the group has already is not accepted nor established."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    names = {"plural": "others", "singular": "other", "kind": "Thing", "listKind": "ThingList"}
    body = {**crd(group, "Other", names=names)}
    with api.quietly():
        api.post(CRDS, body, expect=201)
        answer = api.until(f"{CRDS}/others.{group}", _is_judged)
    api.note("conditions", sorted(answer.body["status"]["conditions"], key=lambda each: str(each["type"])))
    api.note("accepted names", answer.body["status"]["acceptedNames"])


def _is_judged(answer: Answer) -> bool:
    return bool(answer.body.get("status", {}).get("conditions"))


@case
def that_change(api: Api) -> None:
    """A definition can gain a version, a column and a schema; what it serves changes with it."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    path = f"/apis/{group}/v1/namespaces/{api.ns}/things"
    api.post(path, named(f"{group}/v1", "Thing", "a", spec={"size": 1}))
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    second = crd_version("v2", storage=False, additionalPrinterColumns=[column])
    versions = [crd_version("v1"), second]
    api.patch(f"{CRDS}/things.{group}", {"spec": {"versions": versions}})
    other = f"/apis/{group}/v2/namespaces/{api.ns}/things"
    with api.quietly():
        api.until(other, lambda answer: answer.status == 200)
    api.get(other)
    api.get(f"{other}/a", accept="application/json;as=Table;v=v1;g=meta.k8s.io")


@case
def that_change_what_must_stay(api: Api) -> None:
    """The scope, the kind and the stored versions of an established definition stay."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    path = f"{CRDS}/things.{group}"
    api.patch(path, {"spec": {"scope": "Cluster"}}, expect=422)
    api.patch(path, {"spec": {"names": {"kind": "Other"}}}, expect=-1)
    api.patch(path, {"spec": {"group": "other.example.com"}}, expect=422)
    api.patch(path, {"spec": {"versions": [crd_version("v2")]}}, expect=422)


@case
def that_have_a_default_status(api: Api) -> None:
    """A new object has the status that the schema has by default, whatever status it is created with."""
    group = group_of(api)
    status = {**obj(seen={"type": "integer"}, phase={"type": "string"}), "default": {"seen": -1}}
    version = crd_version(
        "v1", obj(spec=obj(a={"type": "string"}), status=status), subresources={"status": {}}
    )
    established(api, crd(group, "Thing", versions=[version]))
    path = f"/apis/{group}/v1/namespaces/{api.ns}/things"
    api.post(path, named(f"{group}/v1", "Thing", "a", spec={"a": "x"}))
    api.post(path, named(f"{group}/v1", "Thing", "b", status={"phase": "mine"}))
    api.get(f"{path}/b")
    api.patch(f"{path}/a", {"spec": {"a": "y"}})
    api.patch(f"{path}/a/status", {"status": {"phase": "y"}})
    api.put(f"{path}/a/status", {**api.get(f"{path}/a").body, "status": {"phase": "z"}})


@case
def that_become_stricter(api: Api) -> None:
    """Objects that were stored before a schema became stricter can be read; what breaks it must not be touched."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    path = f"/apis/{group}/v1/namespaces/{api.ns}/things"
    api.post(path, named(f"{group}/v1", "Thing", "a", spec={"size": 99, "gone": True}))
    schema = obj(
        spec=obj(size={"type": "integer", "maximum": 10}, colour={"type": "string", "default": "red"})
    )
    api.patch(f"{CRDS}/things.{group}", {"spec": {"versions": [crd_version("v1", schema)]}})
    with api.quietly():
        api.until(f"/apis/{group}/v1/namespaces/{api.ns}", lambda _: _refuses(api, path, f"{group}/v1"))
    api.get(f"{path}/a")
    api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}}, expect=-1)
    api.patch(f"{path}/a", {"spec": {"size": 5}})


def _refuses(api: Api, path: str, version: str) -> bool:
    probe = named(version, "Thing", "probe", spec={"size": 99})
    return api.post(path, probe, query={"dryRun": "All"}, expect=-1).status == 422


@case
def that_go(api: Api) -> None:
    """A definition goes with all of its objects, and its kind is served no more."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    path = f"/apis/{group}/v1/namespaces/{api.ns}/things"
    api.post(path, named(f"{group}/v1", "Thing", "a"))
    with api.quietly():
        api.delete(f"{CRDS}/things.{group}")
        api.gone(f"{CRDS}/things.{group}")
        api.until(path, lambda answer: answer.status == 404)
    api.get(f"{CRDS}/things.{group}", expect=404)
    api.get(path, expect=404)
    established(api, crd(group, "Thing"))
    api.note("empty again", api.get(path).names)


@case
def that_go_while_objects_stay(api: Api) -> None:
    """A definition whose object has a finalizer is terminating until that is removed."""
    group = group_of(api)
    established(api, crd(group, "Thing"))
    path = f"/apis/{group}/v1/namespaces/{api.ns}/things"
    api.post(path, named(f"{group}/v1", "Thing", "a", metadata={"finalizers": ["example.com/stay"]}))
    with api.quietly():
        api.delete(f"{CRDS}/things.{group}")
    api.until(f"{path}/a", lambda answer: "deletionTimestamp" in answer.metadata)
    with api.quietly():
        api.until(path, lambda _: _takes_no_more(api, path, f"{group}/v1"))
    api.post(path, named(f"{group}/v1", "Thing", "b"), expect=-1)
    api.patch(f"{path}/a", {"metadata": {"finalizers": None}})
    api.gone(f"{CRDS}/things.{group}")


def _takes_no_more(api: Api, path: str, version: str) -> bool:
    probe = named(version, "Thing", "probe")
    return api.post(path, probe, query={"dryRun": "All"}, expect=-1).status in (403, 405)


@case
def with_status_and_without(api: Api) -> None:
    """The status of a definition is the server's: a client's is dropped."""
    body = {**crd(group_of(api), "Thing"), "status": {"conditions": [], "storedVersions": ["nonsense"]}}
    api.post(CRDS, body, query={"dryRun": "All"}, expect=201)


@case
def that_are_deprecated(api: Api) -> None:
    """The use of a deprecated version is warned of."""
    group = group_of(api)
    old = {
        **crd_version("v1beta1", storage=False),
        "deprecated": True,
        "deprecationWarning": 'take "v1" instead',
    }
    plain = {**crd_version("v1alpha1", storage=False), "deprecated": True}
    established(api, crd(group, "Thing", versions=[crd_version("v1"), old, plain]))
    for version in ("v1", "v1beta1", "v1alpha1"):
        api.get(f"/apis/{group}/{version}/namespaces/{api.ns}/things")


@case
def in_the_order_of_versions(api: Api) -> None:
    """A group prefers stable versions to betas, betas to alphas, and newer to older."""
    names = ["v1alpha1", "v2", "v1", "v10", "v2beta1", "foo1"]
    versions = [crd_version(name, storage=name == "v1") for name in names]
    group = group_of(api)
    established(api, crd(group, "Thing", versions=versions))
    # The versions appear one after the other.
    api.until(f"/apis/{group}", lambda answer: _has_versions(answer, len(names)))


def _has_versions(answer: Answer, count: int) -> bool:
    return answer.status == 200 and len(answer.body["versions"]) == count
