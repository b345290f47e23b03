"""Objects that exclude each other and got past the webhooks, such as through two replicas at once.

The older one holds, then the first by name, and both get a message what to do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from lanloom.api.harvester import VlanConfig
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.refusals import title_for
from lanloom.text import listed

OVERLAPPING, SHARED_NIC, DUPLICATE_VLAN = "OverlappingNodes", "SharedNic", "DuplicateVlan"
"""Reasons of Events."""

Matching = Callable[[Mapping[str, str]], tuple[str, ...]]
"""The nodes that a selector matches, ordered by name."""


class Conflict(NamedTuple):
    """The Event about one object that conflicts with another."""

    about: VlanConfig
    reason: str
    message: str


def age(item: Object) -> tuple[str, str, str]:
    """Return the key that orders objects from the oldest to the youngest."""
    meta = item.metadata
    return meta.creation_timestamp or "", meta.namespace, meta.name


def config_conflicts(
    mine: Iterable[VlanConfig], every: Iterable[VlanConfig], matching: Matching
) -> Iterator[Conflict]:
    """Yield the VlanConfigs of one cluster network that have rivals, there or in another one.

    Each once for each of them.
    """
    present = sorted((item for item in every if not item.metadata.is_deleting), key=age)
    for config in mine:
        nodes, nics = set(matching(config.spec.node_selector)), set(config.spec.uplink.nics)
        for other in present:
            same = other.spec.cluster_network == config.spec.cluster_network
            taken = sorted(nics.intersection(other.spec.uplink.nics))
            if (
                config.metadata.is_deleting
                or other.metadata.name == config.metadata.name
                or not (same or taken)
            ):
                continue
            shared = sorted(nodes.intersection(matching(other.spec.node_selector)))
            if shared and same:
                yield Conflict(config, OVERLAPPING, _overlap(config, other, shared))
            elif shared:
                yield Conflict(config, SHARED_NIC, _shared_nics(other, taken, shared))


def _overlap(config: VlanConfig, other: VlanConfig, nodes: list[str]) -> str:
    title, remedy = other.metadata.name, "Narrow spec.nodeSelector of one of the two, or delete it."
    if age(config) < age(other):
        return (
            f"The younger VlanConfig {title} also matches {listed(nodes)}, and has no effect there. {remedy}"
        )
    return (
        f"spec.nodeSelector matches {listed(nodes)}, which the older VlanConfig {title} already covers: this one has "
        f"no effect there. {remedy}"
    )


def _shared_nics(other: VlanConfig, nics: list[str], nodes: list[str]) -> str:
    return (
        f"spec.uplink.nics has {', '.join(nics)}, which VlanConfig {other.metadata.name} of the cluster network "
        f"{other.spec.cluster_network} also names on {listed(nodes)}: only one of the two can use it there. Name "
        "other NICs in one of the two."
    )


def duplicate_vlan(vid: int, owner: NetworkAttachmentDefinition, younger: NetworkAttachmentDefinition) -> str:
    """Tell the owner of a VLAN of a younger network that asks for node addresses there, for an Event."""
    title = title_for(owner.metadata.namespace, NADS.kind, *younger.metadata.key)
    return (
        f"The younger network, {title}, also asks for node addresses on VLAN {vid}, and gets none. Change "
        "its VLAN id, or disable its node addresses."
    )
