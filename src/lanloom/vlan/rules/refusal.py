"""What admission rules have in common: how they refuse, and what they see of the cluster."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.multus import NetworkAttachmentDefinition


class Refused(Exception):
    """The request is refused; the message is the user's."""


class World(Protocol):
    """The cluster as the rules see it."""

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """One cluster network."""
        ...

    def cluster_networks(self) -> Iterable[ClusterNetwork]:
        """Every cluster network."""
        ...

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """The VlanConfigs of a cluster network."""
        ...

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """The NADs of a cluster network."""
        ...

    def statuses_of(self, cluster_network: str) -> Iterable[VlanStatus]:
        """What the agents report of a cluster network."""
        ...

    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        ...
