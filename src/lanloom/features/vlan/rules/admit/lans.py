"""Which namespaces may join their LANs to VLANs of a cluster network, and to that of the nodes themselves.

A LAN belongs to a namespace, and a VLAN to all hosts on it. Lists of namespaces on the ClusterNetwork, which only an
administrator writes, say whose LANs may be joined to it:

    network.harvesterhci.io/lan-uplink-namespaces: '["infra"]'
    network.harvesterhci.io/management-vlan-namespaces: '["infra"]'

The first one is for all VLANs of the cluster network; absent, it restricts no namespace. The second one is for the VLAN
of the management network, on which pods and machines are neighbours of the nodes; absent, it admits none.
"""

from lanloom.api import names
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit.namespaces import list_of
from lanloom.refusals import Denied
from lanloom.text import listed, quote

LISTS = (names.LAN_UPLINK_NAMESPACES, names.MANAGEMENT_VLAN_NAMESPACES)


def check_lan_uplink(namespace: str, cluster_network: str, vlan: int, reader: ClusterReader) -> None:
    """Raise Denied where LANs of a namespace may not be joined to a VLAN."""
    network = reader.cluster_network(cluster_network)
    admitted = list_of(names.LAN_UPLINK_NAMESPACES, "LANs", network, cluster_network)
    if admitted is not None and namespace not in admitted:
        raise Denied(
            f"ClusterNetwork {cluster_network} allows LANs on its VLANs only to the namespaces of its annotation "
            f"{names.LAN_UPLINK_NAMESPACES} ({listed(admitted) or 'none'}); ask its administrator to add "
            f"{quote(namespace)}"
        )
    if cluster_network == names.MGMT and (why := _management(vlan, reader)):
        trusted = list_of(names.MANAGEMENT_VLAN_NAMESPACES, "LANs", network, cluster_network) or ()
        if namespace not in trusted:
            raise Denied(
                f"{why}, or ask an administrator to add {quote(namespace)} to the annotation "
                f"{names.MANAGEMENT_VLAN_NAMESPACES} of ClusterNetwork {names.MGMT}"
            )


def _management(vlan: int, reader: ClusterReader) -> str:
    """Return why a VLAN of `mgmt` is the nodes' own, or may be that; empty if it is not."""
    ids = reader.reserved().vlan_ids
    if vlan in ids:
        return f"VLAN {vlan} is that of the management network itself, on which the nodes are; choose another VLAN"
    reports = reader.statuses_of(names.MGMT)
    if ids or any(report.status.management is not None for report in reports):
        return ""
    return (
        "no agent has reported which VLAN is that of the management network; wait until one has, start the manager "
        "with --mgmt-vlan"
    )
