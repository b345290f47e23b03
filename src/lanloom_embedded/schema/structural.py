"""The rules that a CRD's schema itself must keep, so that pruning and defaulting mean the same to everyone.

A structural schema gives every field a type outside of the combinations (allOf, anyOf, oneOf, not), which
may only narrow what is there already. See "Specifying a structural schema" in Kubernetes' documentation
of custom resources.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from lanloom.runtime.https.fields import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from lanloom_embedded.schema.meta import check_depth
from lanloom_embedded.schema.pruning import prune_value
from lanloom_embedded.schema.scalars import PatternError, compile_pattern
from lanloom_embedded.schema.validation import Findings, compile_validation

Schema = Mapping[str, Any]
Level = Literal["root", "item", "field"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_UNTYPED = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED_FORBIDDEN = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_PATTERN_SYNTAX = "the syntax is RE2's, without look-around and back-references"
_COMBINATIONS = ("anyOf", "allOf", "oneOf")


def check_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return the faults of a CRD's openAPIV3Schema, which stands at `path`, in the order of the messages.

    The keywords of the schema have the right types (see `meta.check_types`).
    """
    if too_deep := list(check_depth(schema, path)):
        return too_deep
    found = [*_check(schema, path, "root"), *_complete(schema, schema, path, path)]
    if schema.get("nullable"):
        found.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return sorted(found, key=str)


def _check(schema: Schema, path: str, level: Level) -> Iterator[FieldError]:
    unsupported = [key for key in _UNSUPPORTED if key in schema]
    if unsupported:
        yield from (forbidden(f"{path}.{key}", f"{key} is not supported") for key in unsupported)
        return
    yield from _check_type(schema, path, level)
    yield from _check_extensions(schema, path)
    yield from _check_list(schema, path)
    yield from _check_values(schema, path)
    yield from _check_resource(schema, path, level)
    yield from _check_default(schema, path)
    yield from _check_below(schema, path, level)


def _check_below(schema: Schema, path: str, level: Level) -> Iterator[FieldError]:
    others = schema.get("additionalProperties")
    if others is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if others is not None and others is not True and schema.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    if isinstance(others, Mapping):
        yield from _check(others, f"{path}.additionalProperties", "field")
    if isinstance(items := schema.get("items"), Mapping):
        yield from _check(items, f"{path}.items", "item")
    for key, each in schema.get("properties", {}).items():
        yield from _check(each, f"{path}.properties[{key}]", "field")


def _check_type(schema: Schema, path: str, level: Level) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not free:
        yield required(f"{path}.type", _UNTYPED[level])
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    elif kind and kind != "object" and level == "root":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")


def _check_extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-int-or-string"):
        for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(key):
                yield invalid(f"{path}.{key}", True, "must be false if x-kubernetes-int-or-string is true")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        yield from _typed(schema, path, "object", "x-kubernetes-map-type")
        if map_type not in ("atomic", "granular"):
            yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _typed(schema: Schema, path: str, kind: str, key: str) -> Iterator[FieldError]:
    actual = schema.get("type", "")
    if actual == kind:
        return
    text = f"must be {kind} if {key} is specified"
    yield invalid(f"{path}.type", actual, text) if actual else required(f"{path}.type", text)


def _check_list(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if list_type is not None:
        yield from _typed(schema, path, "array", "x-kubernetes-list-type")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield required(where, text) if list_type is None else invalid(where, list_type, text)
    if list_type == "map":
        yield from _check_map_keys(schema.get("items", {}), keys, path)


def _check_map_keys(items: Schema, keys: Sequence[str], path: str) -> Iterator[FieldError]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    if len(set(keys)) < len(keys):
        yield invalid(where, list(keys), "must not contain duplicate entries")
    for key in keys:
        property_path = f"{path}.items.properties[{key}]"
        schema = items.get("properties", {}).get(key)
        if schema is None:
            yield invalid(where, list(keys), "entries must all be names of item properties")
        elif key not in items.get("required", ()) and "default" not in schema:
            text = (
                "this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            )
            yield required(f"{property_path}.default", text)


def _check_resource(schema: Schema, path: str, level: Level) -> Iterator[FieldError]:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    properties = schema.get("properties", {})
    if embedded:
        yield from _typed(schema, path, "object", "x-kubernetes-embedded-resource")
        if not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
            text = (
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{path}.properties", text)
    if not embedded and level != "root":
        return
    for key, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if key in properties and properties[key].get("type", "") != kind:
            text = f"must be {kind}"
            yield invalid(f"{path}.properties[{key}].type", properties[key].get("type", ""), text)
    if level == "root" and not _is_plain_metadata(properties.get("metadata", {})):
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden(f"{path}.properties[metadata]", text)


def _is_plain_metadata(schema: Schema) -> bool:
    properties = schema.get("properties", {})
    return properties.keys() <= {"name", "generateName"} and schema.keys() <= {
        "type",
        "properties",
        "description",
    }


def _check_default(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield why a default is not valid: the server would store what it refuses from users."""
    default = schema.get("default")
    if default is None:
        return
    where = f"{path}.default"
    if prune_value(copy.deepcopy(default), schema):
        yield invalid(where, default, "must not have unknown fields")
    broken = Findings()
    compile_validation(schema)(default, "", broken)
    for error in broken:
        below = f".{error.field}" if error.field else ""
        yield FieldError(error.type, f"{where}{below}", error.value, error.detail)


def _check_values(schema: Schema, path: str) -> Iterator[FieldError]:
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}; {_PATTERN_SYNTAX}"
            yield invalid(f"{path}.pattern", pattern, text)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    for key in _COMBINATIONS:
        for index, each in enumerate(schema.get(key, ())):
            if int_or_string and _is_int_or_string(key, index, schema):
                continue
            yield from _check_nested(each, f"{path}.{key}[{index}]", int_or_string)
    if isinstance(never := schema.get("not"), Mapping):
        yield from _check_nested(never, f"{path}.not", False)


def _is_int_or_string(key: str, index: int, schema: Schema) -> bool:
    """Return whether it is the one combination that may give types: integer or string."""
    if key == "anyOf":
        return bool(schema["anyOf"] == _INT_OR_STRING)
    return key == "allOf" and index == 0 and bool(schema["allOf"][0].get("anyOf") == _INT_OR_STRING)


def _check_nested(schema: Schema, path: str, int_or_string: bool) -> Iterator[FieldError]:
    for key, text in _NESTED_FORBIDDEN.items():
        if schema.get(key):
            yield forbidden(f"{path}.{key}", text)
    if int_or_string and schema.get("anyOf") == _INT_OR_STRING:
        return
    yield from _check_values(schema, path)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _check_nested(items, f"{path}.items", False)
    for key, each in schema.get("properties", {}).items():
        if key == "metadata":
            yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
        yield from _check_nested(each, f"{path}.properties[{key}]", False)


def _complete(nested: Schema, schema: Schema, path: str, nested_path: str) -> Iterator[FieldError]:
    """Yield fields that a combination speaks of and that the schema outside doesn't specify."""
    for key in _COMBINATIONS:
        for index, each in enumerate(nested.get(key, ())):
            yield from _complete_nested(each, schema, path, f"{nested_path}.{key}[{index}]")
    if isinstance(never := nested.get("not"), Mapping):
        yield from _complete_nested(never, schema, path, f"{nested_path}.not")


def _complete_nested(nested: Schema, schema: Schema, path: str, nested_path: str) -> Iterator[FieldError]:
    yield from _complete(nested, schema, path, nested_path)
    if isinstance(items := nested.get("items"), Mapping):
        below = f"{nested_path}.items"
        if isinstance(schema.get("items"), Mapping):
            yield from _complete_nested(items, schema["items"], f"{path}.items", below)
        else:
            yield required(f"{path}.items", f"because it is defined in {below}")
    for key, each in nested.get("properties", {}).items():
        outer, below = f"{path}.properties[{key}]", f"{nested_path}.properties[{key}]"
        if key in schema.get("properties", {}):
            yield from _complete_nested(each, schema["properties"][key], outer, below)
        else:
            yield required(outer, f"because it is defined in {below}")
