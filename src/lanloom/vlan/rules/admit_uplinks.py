"""What the webhooks allow of ClusterNetworks, VlanConfigs and VlanStatuses.

Every refusal names the object, the field and what is allowed there.
"""

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.l3 import VID_MAX, quote
from lanloom.vlan.rules.cluster import matching
from lanloom.vlan.rules.desired import DEFAULT_MTU
from lanloom.vlan.rules.names import interface_name, node_label, vlan_status_name
from lanloom.vlan.rules.refusal import Refused, World

BOND_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)
MTU_MIN, MTU_MAX = 576, 9000


def check_cluster_network(new: ClusterNetwork, world: World) -> None:
    """Whether a ClusterNetwork may be created so: its name is part of the names of links."""
    name = new.metadata.name
    title = f"can't create ClusterNetwork {quote(name)}"
    if len(name) > names.CLUSTER_NETWORK_NAME_MAX or "." in name:
        raise Refused(
            f"{title} because metadata.name must have at most {names.CLUSTER_NETWORK_NAME_MAX} characters and no dot: "
            f"the bridge {quote(names.bridge_name(name))} is named after it"
        )
    for other in world.cluster_networks():
        taken = other.metadata.name
        if taken != name and interface_name(taken, VID_MAX) == interface_name(name, VID_MAX):
            raise Refused(
                f"{title} because its VLAN interfaces would be called like those of ClusterNetwork {taken} "
                f"({interface_name(name, VID_MAX)}); choose another metadata.name"
            )


def check_cluster_network_deletion(old: ClusterNetwork, world: World) -> None:
    """Whether a ClusterNetwork may be deleted: nothing may use it."""
    name = old.metadata.name
    title = f"can't delete ClusterNetwork {name}"
    if name == names.MGMT:
        raise Refused(f"{title} because it is the management network")
    configs = sorted(item.metadata.name for item in world.configs_of(name))
    if configs:
        raise Refused(f"{title} because the VlanConfigs {', '.join(configs)} belong to it; delete them first")
    nads = sorted(str(item.metadata.key) for item in world.nads_of(name))
    if nads:
        raise Refused(f"{title} because the networks {', '.join(nads)} use it; delete them first")


def check_vlan_config(new: VlanConfig, old: VlanConfig | None, world: World) -> None:
    """Whether a VlanConfig may be created or changed so."""
    title = f"can't {'create' if old is None else 'update'} VlanConfig {new.metadata.name}"
    if old is not None and old.spec == new.spec:
        return  # the manager's own annotations must get through whatever became of the cluster since
    try:
        _check_config_target(new, old, world)
        _check_uplink(new)
        _check_config_peers(new, world)
        _check_nics_free(new, world)
    except Refused as refusal:
        raise Refused(f"{title} because {refusal}") from None


def _check_config_target(new: VlanConfig, old: VlanConfig | None, world: World) -> None:
    name = new.spec.cluster_network
    if old is not None and old.spec.cluster_network != name:
        raise Refused(
            f"spec.clusterNetwork can't change (it is {quote(old.spec.cluster_network)}); create another VlanConfig"
        )
    if name == names.MGMT:
        raise Refused(
            "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network"
        )
    if world.cluster_network(name) is None:
        raise Refused(f"spec.clusterNetwork {quote(name)} does not exist; create the ClusterNetwork first")


def _check_uplink(new: VlanConfig) -> None:
    uplink = new.spec.uplink
    if not uplink.nics:
        raise Refused("spec.uplink.nics is empty; name at least one NIC")
    for nic in uplink.nics:
        if (
            not 0 < len(nic) <= names.LINK_NAME_MAX
            or not nic.isascii()
            or any(char in "/: \t\r\n" or not char.isprintable() for char in nic)
        ):
            raise Refused(f"spec.uplink.nics has {quote(nic)}, which is not the name of a NIC")
    if len(set(uplink.nics)) != len(uplink.nics):
        raise Refused("spec.uplink.nics names a NIC twice")
    mtu = uplink.linkAttributes.mtu
    if mtu and not MTU_MIN <= mtu <= MTU_MAX:
        raise Refused(f"spec.uplink.linkAttributes.mtu is {mtu}; it must be 0 or from {MTU_MIN} to {MTU_MAX}")
    if uplink.bondOptions.mode not in BOND_MODES:
        raise Refused(
            f"spec.uplink.bondOptions.mode is {quote(uplink.bondOptions.mode)}; allowed are {', '.join(BOND_MODES)}"
        )
    if not -1 <= uplink.bondOptions.miimon <= 60_000:
        raise Refused(
            f"spec.uplink.bondOptions.miimon is {uplink.bondOptions.miimon}; it must be from -1 to 60000 milliseconds"
        )


def _check_config_peers(new: VlanConfig, world: World) -> None:
    nodes = world.nodes()
    mine = set(matching(new.spec.node_selector, nodes.values()))
    mtu = new.spec.uplink.linkAttributes.mtu or DEFAULT_MTU
    for other in sorted(world.configs_of(new.spec.cluster_network), key=lambda item: item.metadata.name):
        if other.metadata.name == new.metadata.name or other.metadata.deletion_timestamp is not None:
            continue
        shared = sorted(mine & set(matching(other.spec.node_selector, nodes.values())))
        if shared:
            raise Refused(
                f"spec.nodeSelector matches {', '.join(shared)}, which VlanConfig {other.metadata.name} already covers"
            )
        theirs = other.spec.uplink.linkAttributes.mtu or DEFAULT_MTU
        if theirs != mtu:
            raise Refused(
                f"spec.uplink.linkAttributes.mtu is {mtu} but VlanConfig {other.metadata.name} of the same cluster "
                f"network has {theirs}; make them equal"
            )


def _check_nics_free(new: VlanConfig, world: World) -> None:
    nodes = world.nodes().values()
    mine = set(matching(new.spec.node_selector, nodes))
    for network in sorted(item.metadata.name for item in world.cluster_networks()):
        if network == new.spec.cluster_network:
            continue
        for other in world.configs_of(network):
            taken = sorted(set(new.spec.uplink.nics) & set(other.spec.uplink.nics))
            shared = sorted(mine & set(matching(other.spec.node_selector, nodes)))
            if taken and shared and other.metadata.deletion_timestamp is None:
                raise Refused(
                    f"spec.uplink.nics has {', '.join(taken)}, which VlanConfig {other.metadata.name} of the cluster "
                    f"network {network} already uses on {', '.join(shared)}"
                )


def check_vlan_status(status: VlanStatus, node: str) -> None:
    """Whether the agent of `node` may write a VlanStatus: only one of its own node, under its own name."""
    labels = status.metadata.labels
    name = vlan_status_name(labels.get(names.CLUSTER_NETWORK_LABEL, ""), node)
    own = labels.get(names.NODE_LABEL) == node_label(node) and status.metadata.name == name
    if not own or status.status.node not in ("", node):
        raise Refused(
            f"can't write VlanStatus {status.metadata.name} because the agent of node {quote(node)} may only write "
            "its own node's"
        )
