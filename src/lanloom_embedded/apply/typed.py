"""A value divided into its fields by a schema: what they are, two values merged, and fields taken away.

Objects are divided into their fields. A list is one field, unless its schema says that it is a set, or a map of items
by keys (`x-kubernetes-list-type`; for built-in kinds the extensions of strategic patches say so).
"""

import copy
from collections.abc import Collection, Iterator
from typing import Any

from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.apply.paths import Path, Raw, field, item, member, shown

Schema = Raw | None
"""The schema of a value; None where anything goes."""

CONTAINER = object()
"""The value of a field that stands for what is below it."""

_TEXTS: Raw = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA: Raw = {
    "type": "object",
    "properties": {
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
"""Metadata of every kind."""


def of_object(schema: Schema) -> Raw:
    """Return the schema of a whole object, of which metadata is known."""
    known = schema or {"x-kubernetes-preserve-unknown-fields": True}
    return {**known, "properties": {**known.get("properties", {}), "metadata": METADATA}}


class Undeclared(StatusError):
    """A configuration has a field that its schema does not."""

    code = 500
    reason = ""


def _child(schema: Schema, name: str) -> tuple[Schema, bool]:
    """Return the schema of a field, and whether it is one that the schema names."""
    if schema is None:
        return None, False
    properties = schema.get("properties", {})
    if name in properties:
        return properties[name], True
    more = schema.get("additionalProperties")
    return (more if isinstance(more, dict) else None), False


def _keys(schema: Schema) -> list[str] | None:
    """Return the keys of a list's items, none for a set, None for a list that is one field."""
    if schema is None:
        return None
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return list(schema.get("x-kubernetes-list-map-keys", ()))
        case "set":
            return []
    if "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return [key] if key else []
    return None


def _is_atomic(schema: Schema) -> bool:
    return schema is not None and schema.get("x-kubernetes-map-type") == "atomic"


def _element(value: Any, keys: list[str], schema: Schema) -> str:
    if not keys or not isinstance(value, dict):
        return member(value)
    named = schema.get("items", {}).get("properties", {}) if schema else {}
    found = {key: value.get(key, named.get(key, {}).get("default")) for key in keys}
    return item({key: each for key, each in found.items() if each is not None})


def flatten(schema: Schema, value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Return the fields of a value with what they hold, as structured-merge-diff divides it."""
    if isinstance(value, dict) and not _is_atomic(schema):
        for name, each in value.items():
            below, named = _child(schema, name)
            here = (*path, field(name))
            if not named and isinstance(each, dict) and each:
                yield here, CONTAINER
            yield from [(here, each)] if each == {} else flatten(below, each, here)
        return
    keys = _keys(schema)
    if isinstance(value, list) and value and keys is not None:
        items = schema.get("items") if schema else None
        for each in value:
            here = (*path, _element(each, keys, schema))
            yield here, CONTAINER
            if keys:
                yield from flatten(items, each, here)
        return
    yield path, value


def check_declared(schema: Schema, value: Any, title: str, path: Path = ()) -> None:
    """Raise Undeclared for the first field that the schema does not have, and for an item that comes twice."""
    if schema is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            below, named = _child(schema, name)
            if not named and below is None and schema.get("additionalProperties") is not True:
                raise Undeclared(f"{title}: {shown((*path, field(name)))}: field not declared in schema")
            check_declared(below, each, title, (*path, field(name)))
    if isinstance(value, list) and (keys := _keys(schema)) is not None:
        seen: set[str] = set()
        for each in value:
            element = _element(each, keys, schema)
            if element in seen:
                raise Undeclared(f"{title}: {shown(path)}: duplicate entries for key {shown((element,))}")
            seen.add(element)
            check_declared(schema.get("items"), each, title, (*path, element))


def merged(schema: Schema, live: Any, config: Any) -> Any:
    """Return a value with that of a configuration merged into it."""
    if isinstance(live, dict) and isinstance(config, dict) and not _is_atomic(schema):
        result = dict(live)
        for name, each in config.items():
            result[name] = merged(_child(schema, name)[0], live[name], each) if name in live else each
        return result
    keys = _keys(schema)
    if isinstance(live, list) and isinstance(config, list) and keys is not None:
        return _merged_items(schema, live, config, keys)
    return copy.deepcopy(config)


def _merged_items(schema: Schema, live: list[Any], config: list[Any], keys: list[str]) -> list[Any]:
    """Return items in the order of the configuration; others follow the item that they follow in the live list."""
    items = schema.get("items") if schema else None
    wanted = {_element(each, keys, schema): each for each in config}
    present = {_element(each, keys, schema): each for each in live}
    order: dict[str, None] = {}
    coming = iter(wanted)
    for element in present:
        while element in wanted and element not in order:
            order[next(coming)] = None
        order[element] = None
    order.update(dict.fromkeys(wanted))
    return [
        merged(items, present[element], wanted[element])
        if element in present and element in wanted
        else wanted.get(element, present.get(element))
        for element in order
    ]


def without(schema: Schema, value: Any, gone: Collection[Path], kept: Collection[Path]) -> Any:
    """Return a value without some fields, and without what is empty then; `kept` are fields that stay.

    An item that no manager owns goes with all that is in it.
    """
    for path in sorted(gone, key=len):
        held = any(other[: len(path)] == path for other in kept)
        if not held:
            value = _cut(schema, value, path, kept, ())
    return value


def _cut(schema: Schema, value: Any, path: Path, kept: Collection[Path], above: Path) -> Any:
    head, rest = path[0], path[1:]
    here = (*above, head)
    if isinstance(value, dict) and head.startswith("f:"):
        name = head[2:]
        if name not in value:
            return value
        below = _cut(_child(schema, name)[0], value[name], rest, kept, here) if rest else None
        emptied = rest and below in ({}, []) and not any(other[: len(here)] == here for other in kept)
        left = {key: each for key, each in value.items() if key != name}
        return left if not rest or emptied else {**value, name: below}
    keys = _keys(schema)
    if not isinstance(value, list) or keys is None:
        return value
    items = schema.get("items") if schema else None
    result = []
    for each in value:
        if _element(each, keys, schema) != head:
            result.append(each)
        elif rest:
            result.append(_cut(items, each, rest, kept, here))
    return result
