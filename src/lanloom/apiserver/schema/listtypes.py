"""Lists that are sets or maps (x-kubernetes-list-type): no item, or no key, may be there twice."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lanloom.apiserver.fields import FieldError, duplicate, invalid

Schema = Mapping[str, Any]


def list_errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """The repeated items at and below a value."""
    if isinstance(value, dict):
        yield from _in_object(value, schema, path)
    elif isinstance(value, list):
        match schema.get("x-kubernetes-list-type"):
            case "set":
                yield from _repeated(value, path)
            case "map":
                yield from _in_map(value, schema.get("x-kubernetes-list-map-keys", ()), path)
        if "items" in schema:
            for index, each in enumerate(value):
                yield from list_errors(each, schema["items"], f"{path}[{index}]")


def _in_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for key, each in value.items():
        if not isinstance(each, dict | list):
            continue
        if key in properties:
            yield from list_errors(each, properties[key], f"{path}.{key}" if path else key)
        elif isinstance(others, Mapping):
            yield from list_errors(each, others, f"{path}[{key}]")


def _in_map(value: list[Any], keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for index, each in enumerate(value):
        if each is not None and not isinstance(each, dict):
            yield invalid(f"{path}[{index}]", each, "must be an object for an array of list-type map")
            return
    yield from _repeated([{key: each[key] for key in keys if key in (each or {})} for each in value], path)


def _repeated(items: Sequence[Any], path: str) -> Iterator[FieldError]:
    """One error for each item that is there twice or more, at its second place."""
    seen: dict[str, int] = {}
    for index, each in enumerate(items):
        text = json.dumps(each, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield duplicate(f"{path}[{index}]", each)
