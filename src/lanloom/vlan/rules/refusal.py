"""What admission rules have in common: how they refuse, and what they see of the cluster."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.vlan.rules.reserved import Reserved


class Refused(Exception):
    """The request is refused; the message is the user's."""


class Malformed(Refused):
    """The object itself is wrong, whatever the cluster is like."""


_LISTED_MAX = 30
"""Names that a message lists; of the others it tells the number."""


def listed(titles: Iterable[str]) -> str:
    """Names for a message."""
    every = list(titles)
    more = f" and {len(every) - _LISTED_MAX} more" if len(every) > _LISTED_MAX else ""
    return f"{', '.join(every[:_LISTED_MAX])}{more}"


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

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """The nodes that a VlanConfig's selector matches, ordered by name."""
        ...

    def vms_on(self, nad: Key) -> Iterable[VirtualMachineInstance]:
        """The VMs that run, or are about to, and use a NAD."""
        ...

    def machines_naming(self, nad: Key) -> Iterable[VirtualMachine]:
        """The VirtualMachines that name a NAD, also those that are stopped."""
        ...

    def reserved(self) -> Reserved:
        """What belongs to the management network."""
        ...
