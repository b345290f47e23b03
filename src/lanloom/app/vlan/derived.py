"""A cluster's objects after a manager has looked at them, whether one runs or not."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.meta import Object
from lanloom.app.vlan.objects import VlanObjects
from lanloom.vlan.rules.cluster import annotation_patch, derive_annotations, matched_annotation, matching
from lanloom.vlan.rules.desired import node_networks
from lanloom.vlan.rules.network import NodeNetwork

T = TypeVar("T", bound=Object)
V = TypeVar("V", bound=VlanObjects)

CLUSTER = "lanloom"
"""What tells this cluster's profiles from another's: the agent's default."""


def derived(objects: V) -> V:
    """The objects with everything that a manager derives from them: matched nodes and L3 annotations."""
    configs = tuple(_matched(config, objects) for config in objects.configs)
    known = replace(objects, configs=configs)
    return replace(known, networks=tuple(_annotated(network, known) for network in known.networks))


def carried(objects: VlanObjects) -> dict[str, dict[str, NodeNetwork]]:
    """What every node should carry: node → cluster network → what. The objects must be derived."""
    reports = objects.reports_of(names.MGMT)
    result = {}
    for node in sorted(item.metadata.name for item in objects.nodes):
        report = reports.get(node)
        found = node_networks(
            node,
            CLUSTER,
            objects.networks,
            objects.configs,
            objects.nads,
            management=report.status.management if report else None,
        )
        result[node] = {item.cluster_network: item for item in found}
    return result


def _matched(config: VlanConfig, objects: VlanObjects) -> VlanConfig:
    nodes = matching(config.spec.node_selector, objects.nodes)
    return annotated(config, {names.MATCHED_NODES: matched_annotation(nodes)})


def _annotated(network: ClusterNetwork, objects: VlanObjects) -> ClusterNetwork:
    name = network.metadata.name
    found = derive_annotations(network, objects.nads_of(name), objects.configs_of(name))
    patch = annotation_patch(network, found.annotations)
    if name == names.MGMT:
        patch[names.MATCHED_NODES] = matched_annotation(matching({}, objects.nodes))
    return annotated(network, patch)


def annotated(item: T, patch: Mapping[str, str | None]) -> T:
    """An object with a merge patch applied to its annotations."""
    merged = {**item.metadata.annotations, **patch}
    annotations = {key: value for key, value in merged.items() if value is not None}
    return replace(item, metadata=replace(item.metadata, annotations=annotations))
