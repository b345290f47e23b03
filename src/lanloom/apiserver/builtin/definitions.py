"""Schemas inside CRDs: keys that this server doesn't act upon are dropped and told, not kept in vain.

Rules in CEL (x-kubernetes-validations) are such: whoever relies on them must know that nothing enforces them here.
"""

from collections.abc import Mapping
from typing import Any

from lanloom.apiserver.kinds import Raw

_KNOWN = frozenset(
    {
        "$ref",
        "$schema",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "definitions",
        "dependencies",
        "description",
        "enum",
        "example",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "externalDocs",
        "format",
        "id",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "nullable",
        "oneOf",
        "pattern",
        "patternProperties",
        "properties",
        "required",
        "title",
        "type",
        "uniqueItems",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)


def prune_schemas(crd: Raw) -> list[str]:
    """Removes unknown keys from the schemas of a CRD in place and returns their paths."""
    removed: list[str] = []
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            _prune(schema.get("openAPIV3Schema"), path, removed)
    return removed


def _prune(schema: Any, path: str, removed: list[str]) -> None:
    if not isinstance(schema, dict):
        return
    for key in schema.keys() - _KNOWN:
        del schema[key]
        removed.append(f"{path}.{key}")
    for key in ("items", "additionalProperties", "not"):
        _prune(schema.get(key), f"{path}.{key}", removed)
    for key in ("allOf", "anyOf", "oneOf"):
        listed = schema.get(key)
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            _prune(each, f"{path}.{key}[{index}]", removed)
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, Mapping) else ():
        _prune(each, f"{path}.properties[{name}]", removed)
