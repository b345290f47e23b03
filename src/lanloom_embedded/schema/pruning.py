"""Pruning and defaulting, the steps that change an object.

A field that the schema doesn't know is not stored, unless the schema says otherwise at that place. Absent fields get
the schema's defaults; nulls that the schema doesn't allow count as absent.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from lanloom_embedded.schema.extensions import META_FIELDS

Schema = Mapping[str, Any]

_TYPE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING: Schema = {}


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Remove unknown fields from an object in place and return their paths."""
    removed: list[str] = []
    _prune_object(obj, schema, "", removed, is_resource=True)
    return removed


def prune_value(value: Any, schema: Schema) -> list[str]:
    """Remove unknown fields from any value in place and return their paths."""
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
            if isinstance(value[key], (dict, list)):
                _prune(value[key], properties[key], below, removed)
        elif others is not None and others is not False:
            if isinstance(value[key], (dict, list)):
                _prune(value[key], _NOTHING if others is True else others, below, removed)
        elif not keep_unknown:
            del value[key]
            removed.append(below)


def _prune_metadata(metadata: dict[str, Any], path: str, removed: list[str]) -> None:
    for key in sorted(metadata.keys() - META_FIELDS):
        del metadata[key]
        removed.append(f"{path}.{key}")


FillIn = Callable[[Any], None]


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Remove nulls that are neither nullable nor have a default, in place. What no schema describes keeps its own."""
    if schema is None:
        return
    if isinstance(value, dict):
        for key, item in tuple(value.items()):
            if item is None:
                if _is_stray_null(_below(schema, key)):
                    del value[key]
            elif isinstance(item, (dict, list)):
                drop_nulls(item, _below(schema, key))
    elif isinstance(value, list):
        for each in value:
            drop_nulls(each, schema.get("items"))


def _below(schema: Schema, key: str) -> Schema | None:
    found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else None


def _is_stray_null(schema: Schema | None) -> bool:
    return schema is not None and not schema.get("nullable") and schema.get("default") is None


def compile_defaults(schema: Schema) -> FillIn:
    """Return a function that fills in defaults in place."""
    return _compile(schema) or _leave_alone


def _leave_alone(_: Any) -> None:
    return None


def _compile(schema: Schema) -> FillIn | None:
    """None where nothing at or below the schema has a default: objects are walked only where needed."""
    if "items" in schema:
        return _for_items(schema["items"])
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        return _for_values(others)
    return _for_properties(schema.get("properties", {}))


def _for_items(schema: Schema) -> FillIn | None:
    fill_in = _compile(schema)
    default = schema.get("default")
    if fill_in is None and default is None:
        return None

    def fill_items(value: Any) -> None:
        if isinstance(value, list):
            for index, each in enumerate(value):
                if each is None and default is not None and not schema.get("nullable"):
                    value[index] = copy.deepcopy(default)
                if fill_in is not None:
                    fill_in(value[index])

    return fill_items


def _for_values(schema: Schema) -> FillIn | None:
    fill_in = _compile(schema)
    default = schema.get("default")
    if fill_in is None and default is None:
        return None

    def fill_values(value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                if each is None and default is not None and not schema.get("nullable"):
                    value[key] = copy.deepcopy(default)
                if fill_in is not None:
                    fill_in(value[key])

    return fill_values


def _for_properties(properties: Mapping[str, Schema]) -> FillIn | None:
    defaults = {
        key: (each["default"], bool(each.get("nullable")))
        for key, each in properties.items()
        if each.get("default") is not None
    }
    below = {key: fill_in for key, each in properties.items() if (fill_in := _compile(each)) is not None}
    if not defaults and not below:
        return None

    def fill_properties(value: Any) -> None:
        if not isinstance(value, dict):
            return
        for key, (default, nullable) in defaults.items():
            if key not in value or (value[key] is None and not nullable):
                value[key] = copy.deepcopy(default)
        for key, fill_in in below.items():
            if key in value:
                fill_in(value[key])

    return fill_properties
