"""Migrate a cluster between Harvester's network controller and Lanloom: the objects that matter, and plans as values.

A plan is made of one snapshot, by `adopt` or `handover`, and lists everything that is left to do. The command does what
comes before the first wait, reads the cluster again, and plans again. So a dry run shows what a run does, and a run
that dies between two writes goes on where it was.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.api.core import CustomResourceDefinition, Node
from lanloom.api.harvester import ClusterNetwork, HostNetworkConfig, VlanConfig
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.node import matched_nodes
from lanloom.features.vlan.rules.report.cluster import is_live

Raw = dict[str, Any]


class Snapshot(Struct, frozen=True, kw_only=True):
    """The objects that Harvester's controller and Lanloom both know, as they are at one moment.

    `controller` and `webhook` say whether the service accounts of Harvester's processes exist. `webhooks` are its
    configurations. `others` are objects of kinds that only Harvester uses.
    """

    controller: bool = False
    webhook: bool = False
    nodes: tuple[Node, ...] = ()
    networks: tuple[ClusterNetwork, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    reports: tuple[ClusterNetworkNode, ...] = ()
    host_networks: tuple[HostNetworkConfig, ...] = ()
    others: tuple[tuple[Resource[Any], Object], ...] = ()
    definitions: tuple[CustomResourceDefinition, ...] = ()
    webhooks: tuple[tuple[Resource[Any], str], ...] = ()

    def live_nodes(self) -> frozenset[str]:
        """Return the nodes that are not known to be down."""
        return frozenset(node.metadata.name for node in self.nodes if is_live(node))

    def nodes_of(self, network: ClusterNetwork) -> tuple[str, ...]:
        """Return the nodes that are to carry a cluster network, ordered by name."""
        name = network.metadata.name
        sources: Iterable[VlanConfig | ClusterNetwork] = (network,)
        if name != names.MGMT:
            sources = (item for item in self.configs if item.spec.cluster_network == name)
        return tuple(sorted({node for item in sources for node in matched_nodes(item) or ()}))

    def report(self, cluster_network: str, node: str) -> ClusterNetworkNodeStatus | None:
        """Return what a node reports of a cluster network."""
        found = (item.status for item in self.reports)
        return next(
            (item for item in found if (item.cluster_network, item.node) == (cluster_network, node)), None
        )

    def modes(self) -> dict[str, str]:
        """Return the mode of the agent of each live node that reports anything."""
        live = self.live_nodes()
        found = {item.status.node: item.status.mode for item in self.reports if item.status.mode}
        return {node: mode for node, mode in sorted(found.items()) if node in live}


class Change(Struct, frozen=True, kw_only=True):
    """One write. `body` is a merge patch, or the object to create. A `version` makes it conditional."""

    verb: Literal["create", "change", "delete"]
    resource: Resource[Any]
    key: Key
    what: str
    body: Raw = {}
    version: str = ""
    status: bool = False

    @property
    def title(self) -> str:
        """The object, as in a message."""
        return f"{self.resource.kind} {self.key}"


class Wait(Struct, frozen=True, kw_only=True):
    """Something that others have to do first. `remedy` says how an administrator has it done; empty if it comes."""

    until: str
    remedy: str = ""


Item = Change | Wait


class MigrationPlan(Struct, frozen=True, kw_only=True):
    """What is left to do, in order. With `refusals` nothing is done; `notes` are worth knowing."""

    items: tuple[Item, ...] = ()
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def ready(plan: MigrationPlan) -> tuple[Change, ...]:
    """Return the changes that nothing has to happen before."""
    found: list[Change] = []
    for item in plan.items:
        if isinstance(item, Wait):
            break
        found.append(item)
    return tuple(found) if not plan.refusals else ()


def annotate(resource: Resource[Any], key: Key, what: str, annotations: Mapping[str, str | None]) -> Change:
    """Return the change of some annotations; None removes one."""
    body = {"metadata": {"annotations": dict(annotations)}}
    return Change(verb="change", resource=resource, key=key, what=what, body=body)


def foreign_finalizers(item: Object) -> list[str]:
    """Return the finalizers of an object that are not of Harvester's network controller."""
    return [name for name in item.metadata.finalizers if not name.startswith(names.HARVESTER_FINALIZERS)]
