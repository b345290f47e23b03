"""Pruning: a field that the schema doesn't know is not stored, unless the schema says otherwise at that place."""

from collections.abc import Mapping
from typing import Any

from lanloom.apiserver.schema.embedded import META_FIELDS

Schema = Mapping[str, Any]

_TYPE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING: Schema = {}


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Removes unknown fields from an object in place and returns their paths."""
    removed: list[str] = []
    _prune_object(obj, schema, "", removed, is_resource=True)
    return removed


def prune_value(value: Any, schema: Schema) -> list[str]:
    """Removes unknown fields from any value in place and returns their paths."""
    removed: list[str] = []
    _prune(value, schema, "", removed)
    return removed


def _prune(value: Any, schema: Schema, path: str, removed: list[str]) -> None:
    if isinstance(value, dict):
        is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
        if is_resource and isinstance(value.get("metadata"), dict):
            _prune_metadata(value["metadata"], f"{path}.metadata", removed)
        _prune_object(value, schema, path, removed, is_resource=is_resource)
    elif isinstance(value, list):
        items = schema.get("items", _NOTHING)
        if not items and schema.get("x-kubernetes-preserve-unknown-fields"):
            return
        for index, each in enumerate(value):
            _prune(each, items, f"{path}[{index}]", removed)


def _prune_object(
    value: dict[str, Any], schema: Schema, path: str, removed: list[str], *, is_resource: bool
) -> None:
    properties = schema.get("properties", _NOTHING)
    others = schema.get("additionalProperties")
    keep_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for key in tuple(value):
        if is_resource and key in _TYPE_FIELDS:
            continue
        below = f"{path}.{key}" if path else key
        if key in properties:
            _prune(value[key], properties[key], below, removed)
        elif others is not None and others is not False:
            _prune(value[key], _NOTHING if others is True else others, below, removed)
        elif not keep_unknown:
            del value[key]
            removed.append(below)


def _prune_metadata(metadata: dict[str, Any], path: str, removed: list[str]) -> None:
    for key in metadata.keys() - META_FIELDS:
        del metadata[key]
        removed.append(f"{path}.{key}")
