"""Sets of fields, as paths, and `FieldsV1`, their form on the wire.

A path is a tuple of elements as `FieldsV1` has them: `f:NAME` is a field, `k:{…}` an item of a list by its keys, `v:…`
an item of a set.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

Raw = dict[str, Any]
Path = tuple[str, ...]
Fields = frozenset[Path]

_ITSELF = "."


def to_wire(fields: Iterable[Path]) -> Raw:
    """Return the trie of a set; a node that is a field itself, in addition to those below it, holds a dot."""
    trie: Raw = {}
    for path in sorted(fields):
        node = trie
        for element in path:
            node = node.setdefault(element, {})
        node[_ITSELF] = {}
    return {element: _plain(child) for element, child in trie.items()}


def _plain(node: Raw) -> Raw:
    if node.keys() == {_ITSELF}:
        return {}
    return {element: _plain(child) if element != _ITSELF else {} for element, child in node.items()}


def from_wire(trie: Any) -> Fields:
    """Return the set of a trie; what is none holds nothing."""
    return frozenset(_walk(trie, ())) if isinstance(trie, dict) else frozenset()


def _walk(node: Raw, path: Path) -> Iterator[Path]:
    for element, child in node.items():
        if element == _ITSELF:
            yield path
        elif isinstance(child, dict) and child:
            yield from _walk(child, (*path, element))
        else:
            yield (*path, element)


def field(name: str) -> str:
    """Return the element of a field."""
    return f"f:{name}"


def item(keys: Raw) -> str:
    """Return the element of an item of a list by its keys."""
    return "k:" + json.dumps(keys, sort_keys=True, separators=(",", ":"))


def member(value: Any) -> str:
    """Return the element of an item of a set."""
    return "v:" + json.dumps(value, separators=(",", ":"))


def shown(path: Path) -> str:
    """Return a path as messages show it, such as `.spec.ports[port=80].name`."""
    return "".join(map(_shown, path))


def _shown(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(text).items()) + "]"
