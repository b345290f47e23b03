"""Schemas of served kinds as OpenAPI definitions.

The two versions of OpenAPI differ in where definitions stand, and version 2 knows neither null nor
choices: such parts of a schema are left out there, as they would make kubectl refuse what the server
takes.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom.apiserver.builtin.shapes import OBJECT_META, anything, record, text, values
from lanloom.apiserver.kinds import Raw, ServedKind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FREE = "x-kubernetes-preserve-unknown-fields"
GVK = "x-kubernetes-group-version-kind"
"""The extension that says which kind a definition or an operation is about."""


class Flavour(Struct, frozen=True):
    """A version of OpenAPI: where definitions are referred to, and the keys of schemas that it doesn't know."""

    prefix: str
    unknown: frozenset[str] = frozenset()


V2 = Flavour("#/definitions/", frozenset({"default", "nullable", "anyOf", "oneOf", "allOf", "not"}))
V3 = Flavour("#/components/schemas/")

_LIST_META = record(
    "What every list carries.",
    {
        "resourceVersion": text("Version of the list; a watch can start from it."),
        "continue": text("Where the next page starts."),
        "remainingItemCount": {"type": "integer", "format": "int64", "description": "Items on later pages."},
        "selfLink": text("No longer used."),
    },
)
_DELETE_OPTIONS = record(
    "How an object is deleted.",
    {
        "apiVersion": text(),
        "kind": text(),
        "dryRun": values("All: nothing is changed."),
        "gracePeriodSeconds": {
            "type": "integer",
            "format": "int64",
            "description": "Seconds to end gracefully.",
        },
        "orphanDependents": {"type": "boolean", "description": "No longer used."},
        "preconditions": record("What must hold.", {"uid": text(), "resourceVersion": text()}),
        "propagationPolicy": text("Background, Foreground or Orphan."),
    },
)
_STATUS = record(
    "The outcome of a request.",
    {
        "apiVersion": text(),
        "kind": text(),
        "metadata": anything(),
        "status": text("Success or Failure."),
        "message": text("Why, for people."),
        "reason": text("Why, in one word."),
        "code": {"type": "integer", "format": "int32", "description": "The HTTP code."},
        "details": anything("More about it."),
    },
)
_COMMON = {
    "ObjectMeta": OBJECT_META,
    "ListMeta": _LIST_META,
    "DeleteOptions": _DELETE_OPTIONS,
    "Status": _STATUS,
}


def definition_name(kind: ServedKind) -> str:
    """The name of a kind's definition: Kubernetes' own for built-in kinds, else the group's name backwards."""
    if kind.builtin:
        return f"io.k8s.api.{kind.group.partition('.')[0] or 'core'}.{kind.version}.{kind.kind}"
    return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"


def reference(name: str, flavour: Flavour) -> Raw:
    """A reference to a definition."""
    return {"$ref": flavour.prefix + name}


def common(name: str) -> str:
    """The name of a definition that all groups share: ObjectMeta, ListMeta, DeleteOptions or Status."""
    return _META + name


def gvk(kind: ServedKind, suffix: str = "") -> Raw:
    """The value of the extension `GVK` for a kind (or its list, with the suffix)."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind + suffix}


def definitions_of(kinds: Iterable[ServedKind], flavour: Flavour) -> dict[str, Raw]:
    """The definitions of the kinds, their lists, and what they share."""
    made = {common(name): _converted(schema, flavour) for name, schema in _COMMON.items()}
    for kind in kinds:
        name = definition_name(kind)
        made[name] = _object(kind, flavour)
        if "list" in kind.verbs:
            made[f"{name}List"] = _list(kind, name, flavour)
    return made


def _object(kind: ServedKind, flavour: Flavour) -> Raw:
    schema = _converted(kind.schema or {"type": "object"}, flavour)
    if flavour is V2 and schema.get(_FREE) and "properties" not in schema:
        # kubectl 1.20 takes named properties for the only ones, and would refuse all others.
        return schema | {GVK: [gvk(kind)]}
    properties = {
        "apiVersion": text("Group and version of this form of the object."),
        "kind": text("Kind of the object."),
    }
    properties |= schema.get("properties", {})
    properties["metadata"] = _with_description(common("ObjectMeta"), "Names, labels and versions.", flavour)
    return schema | {"properties": properties, GVK: [gvk(kind)]}


def _list(kind: ServedKind, name: str, flavour: Flavour) -> Raw:
    items = {"type": "array", "description": "The objects.", "items": reference(name, flavour)}
    return {
        "description": f"A list of {kind.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text(),
            "kind": text(),
            "metadata": _with_description(common("ListMeta"), "Version and pages.", flavour),
            "items": items,
        },
        GVK: [{**gvk(kind), "kind": kind.list_name}],
    }


def _with_description(name: str, description: str, flavour: Flavour) -> Raw:
    """In OpenAPI 3.0 nothing may stand beside a reference, so it is wrapped there."""
    if flavour is V3:
        return {"description": description, "allOf": [reference(name, flavour)]}
    return {"description": description, **reference(name, flavour)}


def _converted(schema: Raw, flavour: Flavour) -> Raw:
    made: Raw = {
        key: _converted_part(key, value, flavour)
        for key, value in schema.items()
        if key not in flavour.unknown
    }
    return made


def _converted_part(key: str, value: Any, flavour: Flavour) -> Any:
    match key:
        case "properties":
            return {name: _converted(each, flavour) for name, each in value.items()}
        case "items" | "additionalProperties" | "not" if isinstance(value, dict):
            return _converted(value, flavour)
        case "anyOf" | "oneOf" | "allOf":
            return [_converted(each, flavour) for each in value]
    return value
