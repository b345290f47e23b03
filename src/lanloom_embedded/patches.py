"""The patch formats of the API: merge patches, JSON patches, and strategic merge patches for built-in kinds.

All of them return a new object and leave the current one alone. What can't be applied is refused with the
status that Kubernetes gives.

Merge patches (RFC 7386): objects merge, null deletes, everything else replaces. JSON patches (RFC 6902): a list of
operations that all apply, or none.

Strategic merge patches know which lists are sets and which have a key. The schema of a built-in kind says it, in the
extensions `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` (the same that OpenAPI shows to kubectl,
which makes its patches by them). A patch can also carry directives:

    $patch: delete | replace               on an object, or on an item of a list with a key
    $retainKeys: [key, …]                  the only keys that the object keeps
    $deleteFromPrimitiveList/field: […]    values to remove from a set
    $setElementOrder/field: […]            the order that the list gets
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointer, JsonPointerException

from lanloom.kube.patches import merge
from lanloom.runtime.https.bodies import BODY_BYTES, VALUES, count_values
from lanloom.runtime.https.errors import BadRequest, EntityTooLarge, Invalid

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]


def merge_patch(current: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the object after the patch, which shares no value with it.

    Raises BadRequest when the patch is no object.
    """
    if not isinstance(patch, dict):
        raise BadRequest("a merge patch must be an object that holds the fields to change")
    merged: dict[str, Any] = merge(current, msgspec.to_builtins(patch))
    return merged


def _identity(item: Any, key: str) -> str:
    """Return the identity of a list's item: its merge key's value, or itself in a set of values (empty key).

    Raises BadRequest for an object without the key.
    """
    if not key:
        return json.dumps(item, sort_keys=True)
    if not isinstance(item, dict) or key not in item:
        raise BadRequest(f"map: {item} does not contain declared merge key: {key}")
    return json.dumps(item[key], sort_keys=True)


def _interleave(merged: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """Sort a merged list: items of `wanted` in that order, and between them the others as they stood
    `before`.

    An item that was before another on the server stays before it where `wanted` doesn't say otherwise;
    where neither says anything, the patch's item comes first.
    """
    places = {_identity(item, key): index for index, item in enumerate(before)}
    ranks = {_identity(item, key): index for index, item in enumerate(wanted)}
    patched = [each for each in merged if _identity(each, key) in ranks]
    patched.sort(key=lambda each: ranks[_identity(each, key)])
    others = [each for each in merged if _identity(each, key) not in ranks]
    others.sort(key=lambda each: places.get(_identity(each, key), len(places)))
    result: list[Any] = []
    for item in patched:
        place = places.get(_identity(item, key))
        while place is not None and others and places.get(_identity(others[0], key), len(places)) < place:
            result.append(others.pop(0))
        result.append(item)
    return result + others


def in_order(items: list[Any], order: list[Any], key: str) -> bool:
    """Return whether the items, but for directives, come in the given order and are all named by it."""
    names = iter([_identity(each, key) for each in order])
    wanted = [_identity(each, key) for each in items if not (isinstance(each, dict) and "$patch" in each)]
    return all(any(name == each for name in names) for each in wanted)


Schema = Mapping[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_NO_SCHEMA: Schema = {}


def strategic_merge_patch(current: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """Return the object after the patch. Raises BadRequest or Invalid for a patch that is malformed."""
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
        return _interleave(merged, patch, current, "")
    if not key:
        raise BadRequest("cannot merge lists without merge key")
    kept, changed = _apply_item_directives(current, patch, key)
    return _interleave(_merge_items(kept, changed, key, schema), changed, kept, key)


def _apply_item_directives(
    current: list[Any], patch: list[Any], key: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the items that stay and the items to merge into them."""
    kept, changed, replace = list(current), [], False
    for item in patch:
        if not isinstance(item, dict):
            raise BadRequest(f"expected a map in a list with the merge key {key}, but received {item!r}")
        match item.get(_DIRECTIVE):
            case None:
                _identity(item, key)
                changed.append(item)
            case "delete":
                gone = _identity(item, key)
                kept = [each for each in kept if _identity(each, key) != gone]
            case "replace":
                replace = True
            case other:
                raise BadRequest(f"unknown patch type: {other} in map: {item}")
    return ([], changed) if replace else (kept, changed)


def _merge_items(kept: list[Any], changed: list[dict[str, Any]], key: str, schema: Schema) -> list[Any]:
    items = schema.get("items", _NO_SCHEMA)
    merged = list(kept)
    for item in changed:
        name = _identity(item, key)
        at = next((index for index, each in enumerate(merged) if _identity(each, key) == name), None)
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
        result[key] = _interleave(result[key], order, before, merge_key)


def _remove_values(result: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadRequest("invalid patch format of primitive list")
    if isinstance(result.get(key), list):
        result[key] = [each for each in result[key] if each not in values]


def _retained(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the current object with the keys that the patch lets it keep."""
    if _RETAIN not in patch:
        return dict(current)
    keys = patch[_RETAIN]
    named = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    if not isinstance(keys, list) or any(key not in keys for key in named):
        raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in current.items() if key in keys}


def _plain_object(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a patch without directives and nulls, for a place where there is nothing to merge with."""
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


_MOST_OPERATIONS = 10_000
_COPIED_BYTES = BODY_BYTES
"""JSON that all copies of a patch may add, as in kube-apiserver: each can double the object, so few make it endless."""
_REFUSED = "the server rejected our request due to an error in our request"


def json_patch(current: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Return the object after all operations. Raises BadRequest, EntityTooLarge or Invalid."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise BadRequest("a JSON patch must be a list of operations, each an object")
    if len(operations) > _MOST_OPERATIONS:
        raise EntityTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MOST_OPERATIONS}, got {len(operations)}"
        )
    result: Any = copy.deepcopy(current)
    copies = _Copies()
    for number, operation in enumerate(operations, 1):
        result = _applied(result, operation, number, copies)
    if not isinstance(result, dict):
        raise _refused("the patch makes something else than an object")
    return result


class _TooMuchCopied(ValueError):
    """The copies of a patch add more than a patch may."""


class _Copies:
    """Counts what the copies of one patch add."""

    def __init__(self) -> None:
        self._bytes = self._values = 0

    def add(self, value: Any) -> None:
        """Take in the value that is to be copied. Raises _TooMuchCopied."""
        text = msgspec.json.encode(value)
        self._bytes += len(text)
        self._values += count_values(text)
        if self._bytes > _COPIED_BYTES:
            raise _TooMuchCopied(f"all copies of a patch may add {_COPIED_BYTES} bytes")
        if self._values > VALUES:
            raise _TooMuchCopied(f"all copies of a patch may add {VALUES} values")


def _applied(document: Any, operation: dict[str, Any], number: int, copies: _Copies) -> Any:
    try:
        if _adds(document, operation):
            operation = {**operation, "op": "add"}
        elif operation.get("op") == "copy":
            copies.add(JsonPointer(operation["from"]).resolve(document))
        return JsonPatch([operation]).apply(document, in_place=True)
    except _TooMuchCopied as error:
        raise _refused(f"operation {number} of the patch ({_named(operation)}) is refused: {error}") from None
    except (JsonPatchException, JsonPointerException, TypeError, KeyError, ValueError) as error:
        why = f"operation {number} of the patch ({_named(operation)}) can't be applied to the object"
        raise _refused(why) from error


def _named(operation: dict[str, Any]) -> str:
    return f"{operation.get('op', 'without op')} {operation.get('path', 'without path')}"


def _adds(document: Any, operation: dict[str, Any]) -> bool:
    """Return whether it replaces an object's field, which Kubernetes adds where RFC 6902 wants one to be there."""
    if operation.get("op") != "replace" or not operation.get("path"):
        return False
    parent, _ = JsonPointer(operation["path"]).to_last(document)
    return isinstance(parent, dict)


def _refused(why: str) -> Invalid:
    """Return an error with Kubernetes' own message; the reason stands in the causes, which kubectl shows."""
    return Invalid(
        _REFUSED, details={"causes": [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]}
    )
