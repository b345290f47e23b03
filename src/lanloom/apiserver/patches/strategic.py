"""Strategic merge patches: merge patches that know which lists are sets and which have a key.

The schema of a built-in kind says it, in the extensions `x-kubernetes-patch-strategy` and
`x-kubernetes-patch-merge-key` (the same that OpenAPI shows to kubectl, which makes its patches by them).
A patch can also carry directives:

    $patch: delete | replace               on an object, or on an item of a list with a key
    $retainKeys: [key, …]                  the only keys that the object keeps
    $deleteFromPrimitiveList/field: […]    values to remove from a set
    $setElementOrder/field: […]            the order that the list gets
"""

import copy
from collections.abc import Mapping
from typing import Any

from lanloom.apiserver.errors import BadRequest, Invalid
from lanloom.apiserver.patches.ordering import identity, in_order, interleave

Schema = Mapping[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_NO_SCHEMA: Schema = {}


def strategic_merge_patch(current: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """The object after the patch. Raises BadRequest or Invalid for a patch that is malformed."""
    if not isinstance(patch, dict):
        raise BadRequest("a strategic merge patch must be an object that holds the fields to change")
    return _merge_object(current, patch, schema)


def _merge_object(current: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    match patch.get(_DIRECTIVE):
        case "replace":
            return _plain_object(patch)
        case "delete":
            return {}
        case None | "merge":
            result = _retained(current, patch)
        case other:
            raise BadRequest(f"unknown patch type: {other} in map: {patch}")
    orders = {key.removeprefix(_ORDER): order for key, order in patch.items() if key.startswith(_ORDER)}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            _remove_values(result, key.removeprefix(_DELETE), value)
        elif not key.startswith("$"):
            _merge_field(result, key, value, _below(schema, key))
    for key, order in orders.items():
        _reorder(result, key, order, current.get(key), patch.get(key), _below(schema, key))
    return result


def _merge_field(result: dict[str, Any], key: str, value: Any, schema: Schema) -> None:
    current = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict) and isinstance(current, dict) and "replace" not in _strategies(schema):
        result[key] = _merge_object(current, value, schema)
    elif isinstance(value, list) and isinstance(current, list) and "merge" in _strategies(schema):
        result[key] = _merge_list(current, value, schema)
    else:
        result[key] = _plain(value)


def _merge_list(current: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    if not current and not patch:
        return []
    key = str(schema.get("x-kubernetes-patch-merge-key", ""))
    if any(isinstance(each, list) for each in (*current, *patch)):
        raise Invalid("lists of lists are not supported")
    if not any(isinstance(each, dict) for each in (*current, *patch)):
        merged = [*current, *(each for each in dict.fromkeys(patch) if each not in current)]
        return interleave(merged, patch, current, "")
    if not key:
        raise BadRequest("cannot merge lists without merge key")
    kept, changed = _apply_item_directives(current, patch, key)
    return interleave(_merge_items(kept, changed, key, schema), changed, kept, key)


def _apply_item_directives(
    current: list[Any], patch: list[Any], key: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The items that stay and the items to merge into them."""
    kept, changed, replace = list(current), [], False
    for item in patch:
        if not isinstance(item, dict):
            raise BadRequest(f"expected a map in a list with the merge key {key}, but received {item!r}")
        match item.get(_DIRECTIVE):
            case None:
                identity(item, key)
                changed.append(item)
            case "delete":
                gone = identity(item, key)
                kept = [each for each in kept if identity(each, key) != gone]
            case "replace":
                replace = True
            case other:
                raise BadRequest(f"unknown patch type: {other} in map: {item}")
    return ([], changed) if replace else (kept, changed)


def _merge_items(kept: list[Any], changed: list[dict[str, Any]], key: str, schema: Schema) -> list[Any]:
    items = schema.get("items", _NO_SCHEMA)
    merged = list(kept)
    for item in changed:
        name = identity(item, key)
        at = next((index for index, each in enumerate(merged) if identity(each, key) == name), None)
        if at is None:
            merged.append(_plain(item))
        else:
            merged[at] = _merge_object(merged[at], item, items)
    return merged


def _reorder(result: dict[str, Any], key: str, order: Any, current: Any, patch: Any, schema: Schema) -> None:
    merge_key = str(schema.get("x-kubernetes-patch-merge-key", ""))
    if not isinstance(order, list):
        raise BadRequest("invalid patch format of setElementOrder list")
    if isinstance(patch, list) and not in_order(patch, order, merge_key):
        raise BadRequest(
            f"the order in the patch's list {patch} doesn't match the setElementOrder list {order}"
        )
    if isinstance(result.get(key), list):
        before = current if isinstance(current, list) else []
        result[key] = interleave(result[key], order, before, merge_key)


def _remove_values(result: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadRequest("invalid patch format of primitive list")
    if isinstance(result.get(key), list):
        result[key] = [each for each in result[key] if each not in values]


def _retained(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A copy of the current object with the keys that the patch lets it keep."""
    if _RETAIN not in patch:
        return dict(current)
    keys = patch[_RETAIN]
    named = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    if not isinstance(keys, list) or any(key not in keys for key in named):
        raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in current.items() if key in keys}


def _plain_object(value: dict[str, Any]) -> dict[str, Any]:
    """A copy of a patch without directives and nulls, for a place where there is nothing to merge with."""
    return {key: _plain(each) for key, each in value.items() if not key.startswith("$") and each is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [_plain(each) for each in value if not (isinstance(each, dict) and _DIRECTIVE in each)]
    return copy.deepcopy(value)


def _below(schema: Schema, key: str) -> Schema:
    found = schema.get("properties", _NO_SCHEMA).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else _NO_SCHEMA


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")
