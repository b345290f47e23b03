"""Staged roll-out: which nodes may take up a cluster network's present configuration.

The user's policy and the manager's progress are annotations of the ClusterNetwork. Manager and agents compute the
same `revision` of the configuration from the objects that they see; an agent that sees a mixture of old and new
objects computes one that nobody released, and waits. Which nodes are released next is decided in `stages`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.l3keys import is_l3_key
from lanloom.api.multus import NetworkAttachmentDefinition

EVERY_NODE = "*"


class RolloutState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a roll-out is: the nodes that may carry `revision`, and why no more are released, if so."""

    revision: str = ""
    released: tuple[str, ...] = ()
    stopped: str = ""


def revision(
    annotations: Mapping[str, str],
    configs: Iterable[VlanConfig],
    nads: Iterable[NetworkAttachmentDefinition],
) -> str:
    """What the nodes of one cluster network are to carry, as a short hash. All arguments are of that network alone.

    `annotations` are those that the ClusterNetwork has or should have; of them count those of L3 and the MTU that the
    manager wrote, but not one that a user wrote on mgmt. An object that is being deleted counts as gone, and a NAD
    without the label of a cluster network does not count, because agents do not see it. Without a policy the revision
    is empty: nobody asks for it, and as part of every node's report it would make a change that concerns one node cost
    a write by each.
    """
    if names.ROLLOUT not in annotations:
        return ""
    l3 = {key: value for key, value in annotations.items() if is_l3_key(key)}
    mtu = annotations.get(names.UPLINK_MTU) if names.MTU_SOURCE in annotations else None
    specs = {
        item.metadata.name: msgspec.to_builtins(item.spec) for item in configs if not item.metadata.is_leaving
    }
    networks = {
        str(item.metadata.key): item.spec.config
        for item in nads
        if not item.metadata.is_leaving and names.CLUSTER_NETWORK_LABEL in item.metadata.labels
    }
    text = json.dumps([l3, mtu, specs, networks], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rollout_state(network: ClusterNetwork) -> RolloutState:
    """What the manager wrote on a ClusterNetwork; an empty state where it wrote nothing, or nothing readable."""
    try:
        return msgspec.json.decode(
            network.metadata.annotations.get(names.ROLLOUT_STATE, "{}"), type=RolloutState
        )
    except (msgspec.DecodeError, RecursionError):
        return RolloutState()


def may_carry(network: ClusterNetwork, node: str, present: str) -> bool:
    """Whether `node` may carry the configuration with the revision `present`; always so without a policy."""
    if names.ROLLOUT not in network.metadata.annotations:
        return True
    state = rollout_state(network)
    return state.revision == present and (node in state.released or EVERY_NODE in state.released)
