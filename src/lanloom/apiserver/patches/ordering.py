"""The order of a list after a strategic merge: the patch's own order first, the server's among the rest."""

import json
from typing import Any

from lanloom.apiserver.errors import BadRequest


def identity(item: Any, key: str) -> str:
    """What an item of a list is known by: its merge key's value, or itself in a set of values (empty key).

    Raises BadRequest for an object without the key.
    """
    if not key:
        return json.dumps(item, sort_keys=True)
    if not isinstance(item, dict) or key not in item:
        raise BadRequest(f"map: {item} does not contain declared merge key: {key}")
    return json.dumps(item[key], sort_keys=True)


def interleave(merged: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """Sorts a merged list: items of `wanted` in that order, and between them the others as they stood
    `before`.

    An item that was before another on the server stays before it where `wanted` doesn't say otherwise;
    where neither says anything, the patch's item comes first.
    """
    places = {identity(item, key): index for index, item in enumerate(before)}
    ranks = {identity(item, key): index for index, item in enumerate(wanted)}
    patched = [each for each in merged if identity(each, key) in ranks]
    patched.sort(key=lambda each: ranks[identity(each, key)])
    others = [each for each in merged if identity(each, key) not in ranks]
    others.sort(key=lambda each: places.get(identity(each, key), len(places)))
    result: list[Any] = []
    for item in patched:
        place = places.get(identity(item, key))
        while place is not None and others and places.get(identity(others[0], key), len(places)) < place:
            result.append(others.pop(0))
        result.append(item)
    return result + others


def in_order(items: list[Any], order: list[Any], key: str) -> bool:
    """Whether the items, but for directives, come in the given order and are all named by it."""
    names = iter([identity(each, key) for each in order])
    wanted = [identity(each, key) for each in items if not (isinstance(each, dict) and "$patch" in each)]
    return all(any(name == each for name in names) for each in wanted)
