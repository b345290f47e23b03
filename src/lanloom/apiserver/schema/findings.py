"""What a validation found, and what it need not look at: values that an update leaves as they were.

A schema may become stricter than the objects that are stored. As Kubernetes 1.30 and newer do ("ratcheting"), an
update is refused for what it changes only. Unchanged values are known by their paths.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lanloom.apiserver.fields import FieldError

Schema = Mapping[str, Any]


class Findings(list[FieldError]):
    """The broken rules of one validation; values at `unchanged` paths are not looked at."""

    unchanged: frozenset[str] = frozenset()


def unchanged_paths(value: Any, old: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """The outermost values that equal those of the object before, as paths (`spec.ports[0].port`).

    Items of a list are compared with those of the same key, and in lists without keys not at all.
    """
    if _text(value) == _text(old):
        yield path
    elif isinstance(value, dict) and isinstance(old, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key in value.keys() & old.keys():
            below = properties.get(key, others if isinstance(others, Mapping) else {})
            yield from unchanged_paths(value[key], old[key], below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(old, list) and schema.get("x-kubernetes-list-type") == "map":
        keys = schema.get("x-kubernetes-list-map-keys", ())
        before = {_identity(each, keys): each for each in old}
        for index, each in enumerate(value):
            if (identity := _identity(each, keys)) in before:
                yield from unchanged_paths(each, before[identity], schema["items"], f"{path}[{index}]")


def _identity(item: Any, keys: tuple[str, ...]) -> str:
    return _text([item.get(key) for key in keys] if isinstance(item, dict) else item)


def _text(value: Any) -> str:
    """A value as text: Python takes 1 and true for equal, which JSON doesn't."""
    return json.dumps(value, sort_keys=True)
