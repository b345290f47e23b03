"""Staged rollout: the policy, the revision of a configuration, and which nodes may carry it.

    network.harvesterhci.io/rollout: '{"maxUnavailable": "25%", "canary": ["node1"]}'

The user's policy and the manager's progress are annotations of the ClusterNetwork. Unknown fields of the policy are
refused, because a misspelt limit would be none at all. Manager and agents compute the same `revision` of the
configuration from the objects that they see. An agent that sees a mixture of old and new objects computes one that was
never released, and waits. Which nodes are released next is decided in `stages`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.l3 import AnnotationError, parse_node_name
from lanloom.api.l3annotations import is_l3_key, network_suffix, values_in_nads
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.vlan.rules.rollout.released import ReleasedNodes
from lanloom.text import quote


class RolloutState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of a roll-out: the nodes that may carry `revision`, and why no more are released, if so.

    `released` is written and read by `released.ReleasedNodes`.
    """

    revision: str = ""
    released: tuple[str, ...] = ()
    stopped: str = ""


def revision(
    annotations: Mapping[str, str],
    configs: Iterable[VlanConfig],
    nads: Iterable[NetworkAttachmentDefinition],
) -> str:
    """Return the revision of one cluster network, as a short hash. All arguments are of that network alone.

    `annotations` are those that the ClusterNetwork has or should have; of them count those of L3 and the MTU that the
    manager wrote, but not one that a user wrote on mgmt. Where they say that a NAD has a network's values itself, the
    NAD's annotations count. An object that is being deleted counts as gone, and a NAD
    without the label of a cluster network does not count, because agents do not see it. Without a policy the revision
    is empty: it is not needed, and as part of every node's report it would make a change that concerns one node cost
    a write by each.
    """
    if names.ROLLOUT not in annotations:
        return ""
    l3 = {key: value for key, value in annotations.items() if is_l3_key(key)}
    mtu = annotations.get(names.UPLINK_MTU) if names.MTU_SOURCE in annotations else None
    specs = {
        item.metadata.name: msgspec.to_builtins(item.spec)
        for item in configs
        if not item.metadata.is_deleting
    }
    elsewhere = values_in_nads(annotations)
    networks = {
        str(item.metadata.key): _agent_view(item, elsewhere)
        for item in nads
        if not item.metadata.is_deleting and names.CLUSTER_NETWORK_LABEL in item.metadata.labels
    }
    text = json.dumps([l3, mtu, specs, networks], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_IN_NAD = (names.L3_CONNECTIVITY, names.MODE, names.NODE_IP_MAP, names.GATEWAY, names.ROUTES, names.DNS)
_OPTIONAL = (names.IPV6_SUBNET,)
"""Where they are absent, the revision is that of earlier versions, which do not know them."""


def _agent_view(nad: NetworkAttachmentDefinition, elsewhere: frozenset[str]) -> object:
    """Return the parts of a NAD that nodes carry: its configuration, and L3 annotations that only it has."""
    if not elsewhere or network_suffix(nad.metadata.key) not in elsewhere:
        return nad.spec.config
    annotations = nad.metadata.annotations
    optional = {key: annotations[key] for key in _OPTIONAL if key in annotations}
    return [nad.spec.config, {key: annotations.get(key) for key in _IN_NAD} | optional]


def rollout_state(network: ClusterNetwork) -> RolloutState:
    """Read the state that the manager wrote on a ClusterNetwork; an empty one where there is none, or none readable."""
    try:
        return msgspec.json.decode(
            network.metadata.annotations.get(names.ROLLOUT_STATE, "{}"), type=RolloutState
        )
    except (msgspec.DecodeError, RecursionError):
        return RolloutState()


def may_carry(network: ClusterNetwork, node: str, present: str) -> bool:
    """Return whether `node` may carry the configuration with the revision `present`; always so without a policy."""
    if names.ROLLOUT not in network.metadata.annotations:
        return True
    state = rollout_state(network)
    return state.revision == present and node in ReleasedNodes(state.released)


POLICY_MAX = 64 * 1024
"""Longest policy in characters, a quarter of what Kubernetes allows for all annotations of an object."""

_FIELDS = ("maxUnavailable", "canary")
_EXAMPLE = '{"maxUnavailable": 1, "canary": ["node1"]}'
_PERCENTAGE = re.compile(r"([1-9][0-9]?|100)%", re.ASCII)


class Percentage(Struct, frozen=True):
    """A share of the nodes, 1 to 100."""

    value: int


class RolloutPolicy(Struct, frozen=True, kw_only=True):
    """The policy by which a configuration reaches the nodes. `canary` are the nodes that must carry it first."""

    max_unavailable: int | Percentage = 1
    canary: tuple[str, ...] = ()

    def limit(self, nodes: int) -> int:
        """Return how many nodes may be unavailable at once: a percentage is rounded down, but at least to one."""
        most = self.max_unavailable
        return max(1, nodes * most.value // 100) if isinstance(most, Percentage) else most


def parse_rollout(text: str) -> RolloutPolicy:
    """Return the policy of the annotation `rollout`. Raises AnnotationError."""
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
