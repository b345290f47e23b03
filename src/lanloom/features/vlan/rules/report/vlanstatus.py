"""VlanStatus, the report that Harvester's clients read: what it tells of a node's report, and what is corrected."""

from collections.abc import Mapping
from ipaddress import IPv4Interface

from msgspec.structs import replace

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.harvester import LocalArea, VlanStatusFields
from lanloom.features.vlan.rules.report.status import READY
from lanloom.kube.conditions import find, is_true

_NOT_LANLOOMS = ("", "Error")
"""Reasons of Harvester's controller: it sets none, but for errors of its framework."""


def vlan_statuses(reports: Mapping[str, ClusterNetworkNodeStatus]) -> dict[str, VlanStatusFields]:
    """Return the statuses by cluster network, of those that come from a VlanConfig: `mgmt` and leftovers have none."""
    return {name: _vlan_status(report) for name, report in reports.items() if report.vlan_config}


def _vlan_status(report: ClusterNetworkNodeStatus) -> VlanStatusFields:
    return VlanStatusFields(
        cluster_network=report.cluster_network,
        vlan_config=report.vlan_config,
        link_monitor=report.cluster_network,
        node=report.node,
        local_areas=_local_areas(report.interfaces),
        conditions=tuple(
            replace(item, observed_generation=0) for item in report.conditions if item.type == READY
        ),
    )


def _local_areas(interfaces: tuple[VlanInterface, ...]) -> tuple[LocalArea, ...]:
    """Return the VLANs with node addresses, and the subnets of those that have one."""
    areas = {
        item.vlan_id: str(IPv4Interface(item.address).network) if item.address else ""
        for item in interfaces
        if item.name
    }
    return tuple(LocalArea(vlanID=vid, cidr=cidr) for vid, cidr in areas.items())


def written_alone(present: VlanStatusFields, now: VlanStatusFields) -> VlanStatusFields:
    """Return a VlanStatus that is ready again where Lanloom said that it is not, and it is `now`; else the present one.

    Lanloom said so while Harvester's controller was away, whose reports have no such reasons.
    """
    found = find(present.conditions, READY)
    mine = found is not None and found.status == "False" and found.reason not in _NOT_LANLOOMS
    return replace(present, conditions=now.conditions) if mine and is_true(now.conditions, READY) else present
