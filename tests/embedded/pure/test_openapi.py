"""What the server says about itself: discovery and OpenAPI documents that old and new kubectl understand."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lanloom.processes.definitions import manifests
from lanloom_embedded import discovery, openapi
from lanloom_embedded.builtin import BUILTINS
from lanloom_embedded.kinds import ServedKind


def widget(version: str) -> ServedKind:
    """A custom kind in one version."""
    return ServedKind(
        group="example.org",
        version=version,
        kind="Widget",
        plural="widgets",
        namespaced=True,
        short_names=("wd",),
        categories=("all",),
        has_status=True,
    )


DISCOVERED = (*BUILTINS, widget("v2"), widget("v1"))


def test_core_versions() -> None:
    """The core group has one version and the server's address."""
    document = discovery.api_versions("127.0.0.1:6443")
    assert document["versions"] == ["v1"]
    assert document["serverAddressByClientCIDRs"][0]["serverAddress"] == "127.0.0.1:6443"


def test_groups_are_listed_once_with_their_preferred_version() -> None:
    """Every group but the core is there once; its first served version is preferred."""
    groups = {each["name"]: each for each in discovery.group_list(DISCOVERED)["groups"]}
    assert groups.keys() == {kind.group for kind in DISCOVERED} - {""}
    widgets = groups["example.org"]
    assert [each["version"] for each in widgets["versions"]] == ["v2", "v1"]
    assert widgets["preferredVersion"] == {"groupVersion": "example.org/v2", "version": "v2"}
    assert discovery.group(DISCOVERED, "example.org") == {"kind": "APIGroup", "apiVersion": "v1", **widgets}


def test_what_is_not_served_is_not_found() -> None:
    """Unknown groups and versions have no document."""
    assert discovery.group(DISCOVERED, "nowhere.org") is None
    assert discovery.resource_list(DISCOVERED, "example.org", "v3") is None


def test_resources_of_a_version() -> None:
    """A custom resource is listed with its names and verbs, and its status next to it."""
    document = discovery.resource_list(DISCOVERED, "example.org", "v1")
    assert document is not None
    assert document["groupVersion"] == "example.org/v1"
    assert document["resources"] == [
        {
            "name": "widgets",
            "singularName": "widget",
            "namespaced": True,
            "kind": "Widget",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["wd"],
            "categories": ["all"],
        },
        {
            "name": "widgets/status",
            "singularName": "",
            "namespaced": True,
            "kind": "Widget",
            "verbs": ["get", "patch", "update"],
        },
    ]


def test_the_core_list_has_no_api_version() -> None:
    """The list of the core group is in the form that the oldest clients know, sorted by name."""
    document = discovery.resource_list(DISCOVERED, "", "v1")
    assert document is not None
    assert "apiVersion" not in document
    names = [each["name"] for each in document["resources"]]
    assert names == sorted(names)
    assert {"nodes", "nodes/status", "pods", "configmaps"} <= set(names)


def test_aggregated_documents_say_all() -> None:
    """Two documents together hold every kind, with its scope, its names and its status."""
    core = discovery.aggregated(DISCOVERED, core=True)
    others = discovery.aggregated(DISCOVERED, core=False, version="v2beta1")
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert others["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert [item["metadata"] for item in core["items"]] == [{}]
    found = {
        (item["metadata"].get("name", ""), version["version"], resource["resource"])
        for item in (*core["items"], *others["items"])
        for version in item["versions"]
        for resource in version["resources"]
    }
    assert found == {(kind.group, kind.version, kind.plural) for kind in DISCOVERED}
    widgets = next(item for item in others["items"] if item["metadata"]["name"] == "example.org")
    assert widgets["versions"][0]["resources"][0] == {
        "resource": "widgets",
        "responseKind": {"group": "example.org", "version": "v2", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        "shortNames": ["wd"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "example.org", "version": "v2", "kind": "Widget"},
                "verbs": ["get", "patch", "update"],
            }
        ],
    }


GVK = "x-kubernetes-group-version-kind"


def custom_kinds() -> Iterator[ServedKind]:
    """The kinds of Lanloom's own CRDs."""
    for crd in manifests():
        spec = crd["spec"]
        version = spec["versions"][0]
        yield ServedKind(
            group=spec["group"],
            version=version["name"],
            kind=spec["names"]["kind"],
            plural=spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
            schema=version["schema"]["openAPIV3Schema"],
            has_status="subresources" in version,
        )


KINDS = (*BUILTINS, *custom_kinds())
SWAGGER = openapi.swagger(KINDS, "v1.20.2")
DOCUMENTS = [SWAGGER] + [
    openapi.document(KINDS, group, version, "v1.20.2") or {}
    for group, version in sorted({(kind.group, kind.version) for kind in KINDS})
]


def references(value: Any) -> Iterator[str]:
    """Every $ref in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def definitions(document: dict[str, Any]) -> dict[str, Any]:
    """The definitions of a document of either version."""
    found: dict[str, Any] = document.get("definitions") or document["components"]["schemas"]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: str(each.get("openapi", "swagger")))
def test_references_lead_somewhere(document: dict[str, Any]) -> None:
    """Every reference in a document names one of its own definitions."""
    prefix = "#/definitions/" if "swagger" in document else "#/components/schemas/"
    assert {each.removeprefix(prefix) for each in references(document)} <= definitions(document).keys()


def test_every_kind_is_defined_once() -> None:
    """The definition of each kind says which kind it is, and so does that of its list."""
    found = [json.dumps(each) for schema in definitions(SWAGGER).values() for each in schema.get(GVK, ())]
    assert len(found) == len(set(found))
    for kind in KINDS:
        assert json.dumps({"group": kind.group, "version": kind.version, "kind": kind.kind}) in found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: str(each.get("openapi", "swagger")))
def test_patches_understand_dry_run_and_field_validation(document: dict[str, Any]) -> None:
    """kubectl finds both parameters at the patch operation of every kind that can be patched."""
    for path in document["paths"].values():
        if operation := path.get("patch"):
            assert {"dryRun", "fieldValidation"} <= {each["name"] for each in operation["parameters"]}
            assert operation[GVK]["kind"]


def test_operations_have_names_of_their_own() -> None:
    """No two operations share an operationId."""
    names = [
        operation["operationId"]
        for path in SWAGGER["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


def test_version_2_knows_neither_null_nor_choices() -> None:
    """Keys that swagger doesn't know are left out of its schemas."""
    assert not {"nullable", "anyOf", "oneOf", "allOf", "not"} & set(_keys(definitions(SWAGGER)))


def test_objects_inside_objects_are_described() -> None:
    """Version 3 says of an embedded object that it has a kind and the metadata of objects, wherever it stands."""
    template = {
        "type": "object",
        "properties": {"spec": {"type": "object"}, "metadata": {"type": "object"}},
        "required": ["spec"],
        "x-kubernetes-embedded-resource": True,
    }
    schema = {"type": "object", "properties": {"templates": {"type": "array", "items": template}}}
    kind = ServedKind(
        group="example.com", version="v1", kind="Thing", plural="things", namespaced=True, schema=schema
    )
    document = openapi.document([kind], "example.com", "v1", "v1.20.2") or {}
    found = definitions(document)["com.example.v1.Thing"]["properties"]["templates"]["items"]
    assert set(found["properties"]) == {"spec", "apiVersion", "kind", "metadata"}
    assert set(found["required"]) == {"spec", "apiVersion", "kind"}
    (meta,) = references(found["properties"]["metadata"])
    assert meta == "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "properties":
                for below in each.values():
                    yield from _keys(below)
            else:
                yield key
                yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)


def test_the_index_names_every_version() -> None:
    """The index leads to one document for each group and version, at an address that follows the content."""
    paths = openapi.index(KINDS)["paths"]
    assert "api/v1" in paths
    assert "apis/network.harvesterhci.io/v1beta1" in paths
    fewer = openapi.index(KINDS[:-1])["paths"]
    changed = {name for name in fewer if fewer[name] != paths[name]}
    assert changed <= {f"apis/{KINDS[-1].group}/{KINDS[-1].version}"}


def test_what_is_not_served_has_no_document() -> None:
    """An unknown version has no document."""
    assert openapi.document(KINDS, "nowhere.org", "v1", "v1.20.2") is None


def decode(content: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message in order: numbers, or bytes."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = content[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(content):
        key = varint()
        match key & 7:
            case 0:
                found.append((key >> 3, varint()))
            case 1:
                found.append((key >> 3, content[at : at + 8]))
                at += 8
            case 2:
                length = varint()
                found.append((key >> 3, content[at : at + length]))
                at += length
            case other:
                raise AssertionError(f"wire type {other}")
    assert at == len(content)
    return found


def fields(content: bytes, number: int) -> list[Any]:
    """The values of one field of a message."""
    return [value for field, value in decode(content) if field == number]


def named(content: bytes, number: int) -> dict[str, bytes]:
    """A map of a message: repeated entries of a name and a value."""
    return {fields(each, 1)[0].decode(): fields(each, 2)[0] for each in fields(content, number)}


def test_protobuf_holds_the_swagger_document() -> None:
    """Definitions, types, descriptions, requirements, extensions and parameters are where gnostic puts them."""
    document = openapi.encode_swagger(SWAGGER)
    assert fields(document, 1) == [b"2.0"]
    schemas = named(fields(document, 9)[0], 1)
    assert schemas.keys() == SWAGGER["definitions"].keys()
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert fields(fields(pod, 22)[0], 1) == [b"object"]
    extension = named(pod, 31)[GVK]
    assert json.loads(fields(extension, 2)[0]) == [{"group": "", "version": "v1", "kind": "Pod"}]
    properties = named(fields(pod, 25)[0], 1)
    assert fields(properties["metadata"], 1) == [
        b"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    ]
    spec = properties["spec"]
    assert fields(spec, 19) == [b"containers"]
    containers = named(fields(spec, 25)[0], 1)["containers"]
    assert json.loads(fields(named(containers, 31)["x-kubernetes-patch-merge-key"], 2)[0]) == "name"
    item = fields(fields(containers, 23)[0], 1)[0]
    assert fields(named(fields(item, 25)[0], 1)["image"], 4) == [b"The image that it runs."]


def test_protobuf_holds_the_parameters() -> None:
    """The old kubectl's check for dry run finds the query parameter of a patch, and the body next to it."""
    paths = named(fields(openapi.encode_swagger(SWAGGER), 8)[0], 2)
    patch = fields(paths["/api/v1/nodes/{name}"], 8)[0]
    parameters = [fields(each, 1)[0] for each in fields(patch, 8)]
    queries = [fields(fields(each, 2)[0], 3)[0] for each in parameters if fields(each, 2)]
    assert {"dryRun", "fieldManager"} <= {fields(each, 4)[0].decode() for each in queries}
    assert [fields(each, 1) for each in parameters if fields(each, 1)]
    assert json.loads(fields(named(patch, 13)[GVK], 2)[0])["kind"] == "Node"
