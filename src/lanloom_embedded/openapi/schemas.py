"""Schemas of served kinds as OpenAPI definitions.

The two versions of OpenAPI differ in where definitions stand, and version 2 knows neither null nor
choices: such parts of a schema are left out there, as they would make kubectl refuse what the server
takes.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom_embedded.builtin import DEFINITIONS
from lanloom_embedded.kinds import Raw, ServedKind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FREE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
GVK = "x-kubernetes-group-version-kind"
"""The extension that says which kind a definition or an operation is about."""


class SchemaVersion(Struct, frozen=True):
    """A version of OpenAPI: where definitions are referred to, and the keys of schemas that it doesn't know."""

    prefix: str
    unknown: frozenset[str] = frozenset()


V2 = SchemaVersion("#/definitions/", frozenset({"default", "nullable", "anyOf", "oneOf", "allOf", "not"}))
V3 = SchemaVersion("#/components/schemas/")


def definition_name(kind: ServedKind) -> str:
    """Return the name of a kind's definition: Kubernetes' own for built-in kinds, else the group's name backwards."""
    if kind.builtin:
        return f"io.k8s.api.{kind.group.partition('.')[0] or 'core'}.{kind.version}.{kind.kind}"
    return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"


def reference(name: str, version: SchemaVersion) -> Raw:
    """Return a reference to a definition."""
    return {"$ref": version.prefix + name}


def common(name: str) -> str:
    """Return the name of a definition that all groups share: ObjectMeta, ListMeta, DeleteOptions or Status."""
    return _META + name


def gvk(kind: ServedKind) -> Raw:
    """Return the value of the extension `GVK` for a kind."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def definitions_of(kinds: Iterable[ServedKind], version: SchemaVersion) -> dict[str, Raw]:
    """Return the definitions of the kinds, their lists, and what they share."""
    made = {common(name): _converted(schema, version) for name, schema in DEFINITIONS.items()}
    for kind in kinds:
        name = definition_name(kind)
        made[name] = _object(kind, version)
        if "list" in kind.verbs:
            made[f"{name}List"] = _list(kind, name, version)
    return made


def _object(kind: ServedKind, version: SchemaVersion) -> Raw:
    schema = _converted(kind.schema or {"type": "object"}, version)
    if version is V2 and schema.get(_FREE) and "properties" not in schema:
        # kubectl 1.20 takes named properties for the only ones, and would refuse all others.
        return schema | {GVK: [gvk(kind)]}
    properties = {**_TYPE, **schema.get("properties", {}), "metadata": _object_meta(version)}
    return schema | {"properties": properties, GVK: [gvk(kind)]}


_TYPE: dict[str, Raw] = {
    "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
}


def _object_meta(version: SchemaVersion) -> Raw:
    return _with_description(common("ObjectMeta"), "Names, labels and versions.", version)


def _list(kind: ServedKind, name: str, version: SchemaVersion) -> Raw:
    items = {"type": "array", "description": "The objects.", "items": reference(name, version)}
    return {
        "description": f"A list of {kind.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_TYPE,
            "metadata": _with_description(common("ListMeta"), "Version and pages.", version),
            "items": items,
        },
        GVK: [{**gvk(kind), "kind": kind.list_name}],
    }


def _with_description(name: str, description: str, version: SchemaVersion) -> Raw:
    """In OpenAPI 3.0 nothing may stand next to a reference, so it is wrapped there."""
    if version is V3:
        return {"description": description, "allOf": [reference(name, version)]}
    return {"description": description, **reference(name, version)}


def _converted(schema: Raw, version: SchemaVersion) -> Raw:
    made: Raw = {
        key: _converted_part(key, value, version)
        for key, value in schema.items()
        if key not in version.unknown
    }
    if version is V3 and schema.get(_EMBEDDED):
        # An object inside the object. Version 2 stays silent about it, as it is about what keeps unknown fields.
        made["properties"] = {**made.get("properties", {}), **_TYPE, "metadata": _object_meta(version)}
        made["required"] = sorted({*made.get("required", ()), *_TYPE})
    return made


def _converted_part(key: str, value: Any, version: SchemaVersion) -> Any:
    match key:
        case "properties":
            return {name: _converted(each, version) for name, each in value.items()}
        case "items" | "additionalProperties" | "not" if isinstance(value, dict):
            return _converted(value, version)
        case "anyOf" | "oneOf" | "allOf":
            return [_converted(each, version) for each in value]
    return value
