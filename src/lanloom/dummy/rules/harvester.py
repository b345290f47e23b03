"""Which ClusterNetwork the name of a bridge implies.

Harvester's webhook, and Lanloom's own for VLANs, take a NAD of a bridge only if the bridge is called `<name>-br` and a
ClusterNetwork of that name is there. So an isolated network whose bridge is called like that gets one without
uplinks, unless there is one already.
"""

from collections.abc import Iterable

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VlanConfig
from lanloom.dummy.rules.listing import listed
from lanloom.dummy.rules.marks import Raw, marks
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.spec import label_fault

_SHOWN = 5


def implied_cluster_network(bridge: str) -> str:
    """The ClusterNetwork whose bridge has this name; empty if none can have it."""
    name = bridge.removesuffix(names.BRIDGE_SUFFIX)
    fits = name != bridge and len(name) <= names.CLUSTER_NETWORK_NAME_MAX
    return name if fits and not label_fault(name, "", "") else ""


def cluster_network_body(net: Isolated, cluster_network: str) -> Raw:
    """The ClusterNetwork without uplinks of which a NAD's bridge must be one."""
    return {
        "apiVersion": CLUSTER_NETWORKS.api_version,
        "kind": CLUSTER_NETWORKS.kind,
        "metadata": {"name": cluster_network, **marks(net.name, net.uid)},
    }


def uplink_fault(bridge: str, configs: Iterable[VlanConfig]) -> str:
    """Why a bridge can't be isolated: VlanConfigs give it an uplink. Empty if none does.

    `configs` are those of the implied ClusterNetwork, or all.
    """
    implied = implied_cluster_network(bridge)
    uplinks = sorted(
        item.metadata.name for item in configs if implied and item.spec.cluster_network == implied
    )
    if not uplinks:
        return ""
    return (
        f"spec.bridgeName is {bridge}, the bridge of ClusterNetwork {implied}, which has an uplink by VlanConfig "
        f"{listed(uplinks, _SHOWN)}; choose another bridge, or delete what gives this one its uplink"
    )
