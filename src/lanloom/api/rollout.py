"""The codec of a ClusterNetwork's roll-out policy: how many nodes may be unavailable at once, and which go first.

    network.harvesterhci.io/rollout: '{"maxUnavailable": "25%", "canary": ["node1"]}'

Both fields are optional; unknown ones are refused, because a misspelt limit would be none at all.
"""

import json
import re

from msgspec import Struct

from lanloom.api import names
from lanloom.api.l3 import AnnotationError, parse_node_name, quote

POLICY_MAX = 64 * 1024
"""Longest policy in characters, a quarter of what Kubernetes allows for all annotations of an object."""

_FIELDS = ("maxUnavailable", "canary")
_EXAMPLE = '{"maxUnavailable": 1, "canary": ["node1"]}'
_PERCENTAGE = re.compile(r"([1-9][0-9]?|100)%", re.ASCII)


class Percentage(Struct, frozen=True):
    """A share of the nodes, 1 to 100."""

    value: int


class RolloutPolicy(Struct, frozen=True, kw_only=True):
    """How a cluster network's configuration reaches its nodes. `canary` are the nodes that must carry it first."""

    max_unavailable: int | Percentage = 1
    canary: tuple[str, ...] = ()

    def limit(self, nodes: int) -> int:
        """How many of so many nodes may be unavailable at once: a percentage is rounded down, but one always may."""
        most = self.max_unavailable
        return max(1, nodes * most.value // 100) if isinstance(most, Percentage) else most


def parse_rollout(text: str) -> RolloutPolicy:
    """The policy of the annotation `rollout`. Raises AnnotationError."""
    field = names.ROLLOUT
    if len(text) > POLICY_MAX:
        raise AnnotationError(field, f"has {len(text)} characters; at most {POLICY_MAX} are allowed")
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise AnnotationError(field, f"is not valid JSON; it must be an object such as {_EXAMPLE}") from None
    if not isinstance(pairs, _Pairs):
        raise AnnotationError(field, f"must be a JSON object such as {_EXAMPLE}")
    values: dict[str, object] = {}
    for key, value in pairs:
        if key not in _FIELDS:
            raise AnnotationError(field, f"has the field {quote(key)}; it may have {' and '.join(_FIELDS)}")
        if key in values:
            raise AnnotationError(field, f"has the field {quote(key)} twice")
        values[key] = dict(value) if isinstance(value, _Pairs) else value
    return RolloutPolicy(
        max_unavailable=_max_unavailable(values.get("maxUnavailable", 1)),
        canary=_canary(values.get("canary", [])),
    )


class _Pairs(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a repeated key is seen."""


def _max_unavailable(value: object) -> int | Percentage:
    if type(value) is int and value >= 1:
        return value
    found = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if found:
        return Percentage(int(found[1]))
    problem = f'is {quote(value)}; it must be a number of nodes from 1, or a percentage from "1%" to "100%"'
    raise AnnotationError(f"{names.ROLLOUT}.maxUnavailable", problem)


def _canary(value: object) -> tuple[str, ...]:
    field = f"{names.ROLLOUT}.canary"
    if not isinstance(value, list):
        raise AnnotationError(field, f'is {quote(value)}; it must be a list of node names such as ["node1"]')
    nodes: dict[str, None] = {}
    for item in value:
        node = _node(field, item)
        if node in nodes:
            raise AnnotationError(field, f"names node {quote(node)} twice")
        nodes[node] = None
    return tuple(nodes)


def _node(field: str, item: object) -> str:
    try:
        return parse_node_name(field, item if isinstance(item, str) else "")
    except AnnotationError:
        raise AnnotationError(field, f"has the item {quote(item)}, which is not the name of a node") from None
