"""What the webhooks allow of VlanConfigs.

Every refusal names the object, the field and what is allowed there.
"""

from lanloom.api import names
from lanloom.api.harvester import Uplink, VlanConfig
from lanloom.api.l3 import AnnotationError, quote
from lanloom.api.uplinks import BOND_MODES, MTU_MAX, MTU_MIN, parse_mac, parse_tx_queue_length
from lanloom.vlan.rules.admit_vms import check_nodes_lost
from lanloom.vlan.rules.names import is_link
from lanloom.vlan.rules.refusal import Malformed, Refused, World, listed

MIIMON_MAX = 60_000
"""Milliseconds. A bond that looks at its links more seldom is of no use."""


def check_vlan_config(new: VlanConfig, old: VlanConfig | None, world: World) -> tuple[str, ...]:
    """Whether a VlanConfig may be created or changed so; returns warnings."""
    title = f"can't {'create' if old is None else 'update'} VlanConfig {new.metadata.name}"
    if old is not None and old.spec == new.spec:
        return ()  # the manager's own annotations must get through whatever became of the cluster since
    try:
        _check_target(new, old, world)
        _check_uplink(new.spec.uplink)
        nodes = world.matching(new.spec.node_selector)
        _check_hardware_address(new, nodes)
        _check_peers(new, nodes, world)
        _check_nics_free(new, nodes, world)
        if old is not None:
            check_nodes_lost(new, set(world.matching(old.spec.node_selector)) - set(nodes), world)
    except AnnotationError as error:
        raise Malformed(f"{title} because {error}") from None
    except Refused as refusal:
        raise Refused(f"{title} because {refusal}") from None
    return () if nodes else ("spec.nodeSelector matches no node, so that no node gets this uplink",)


def check_vlan_config_deletion(old: VlanConfig, world: World) -> None:
    """Whether a VlanConfig may be deleted: no VM may need the uplink."""
    try:
        check_nodes_lost(old, world.matching(old.spec.node_selector), world)
    except Refused as refusal:
        raise Refused(f"can't delete VlanConfig {old.metadata.name} because {refusal}") from None


def _check_target(new: VlanConfig, old: VlanConfig | None, world: World) -> None:
    name = new.spec.cluster_network
    if old is not None and old.spec.cluster_network != name:
        raise Refused(
            f"spec.clusterNetwork can't change (it is {quote(old.spec.cluster_network)}); create another VlanConfig"
        )
    if name == names.MGMT:
        raise Refused(
            "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network"
        )
    network = world.cluster_network(name)
    if network is None or (old is None and network.metadata.is_leaving):
        raise Refused(f"spec.clusterNetwork {quote(name)} does not exist; create the ClusterNetwork first")


def _check_uplink(uplink: Uplink) -> None:
    if not uplink.nics:
        raise Refused("spec.uplink.nics is empty; name at least one NIC")
    for nic in uplink.nics:
        if not is_link(nic):
            raise Refused(f"spec.uplink.nics has {quote(nic)}, which is not the name of a NIC")
    if len(set(uplink.nics)) != len(uplink.nics):
        raise Refused("spec.uplink.nics names a NIC twice")
    mtu, miimon, mode = uplink.linkAttributes.mtu, uplink.bondOptions.miimon, uplink.bondOptions.mode
    if mtu and not MTU_MIN <= mtu <= MTU_MAX:
        raise Refused(f"spec.uplink.linkAttributes.mtu is {mtu}; it must be 0 or from {MTU_MIN} to {MTU_MAX}")
    if mode not in BOND_MODES:
        raise Refused(f"spec.uplink.bondOptions.mode is {quote(mode)}; allowed are {', '.join(BOND_MODES)}")
    if not -1 <= miimon <= MIIMON_MAX:
        raise Refused(
            f"spec.uplink.bondOptions.miimon is {miimon}; it must be from -1 to {MIIMON_MAX} milliseconds"
        )
    parse_tx_queue_length("spec.uplink.linkAttributes.txQLen", uplink.linkAttributes.txQLen)


def _check_hardware_address(new: VlanConfig, nodes: tuple[str, ...]) -> None:
    field = "spec.uplink.linkAttributes.hardwareAddr"
    text = new.spec.uplink.linkAttributes.hardwareAddr
    if text:
        parse_mac(field, text)
        if len(nodes) > 1:
            raise Refused(
                f"{field} is {quote(text)} but spec.nodeSelector matches {listed(nodes)}, which can't all have one "
                "address; make a VlanConfig for each node"
            )


def _check_peers(new: VlanConfig, nodes: tuple[str, ...], world: World) -> None:
    mine, mtu = set(nodes), new.spec.uplink.linkAttributes.mtu
    for other in sorted(world.configs_of(new.spec.cluster_network), key=lambda item: item.metadata.name):
        if other.metadata.name == new.metadata.name or other.metadata.is_leaving:
            continue
        shared = sorted(mine & set(world.matching(other.spec.node_selector)))
        if shared:
            raise Refused(
                f"spec.nodeSelector matches {listed(shared)}, which VlanConfig {other.metadata.name} already covers"
            )
        theirs = other.spec.uplink.linkAttributes.mtu
        if mtu and theirs and theirs != mtu:
            raise Refused(
                f"spec.uplink.linkAttributes.mtu is {mtu} but VlanConfig {other.metadata.name} of the same cluster "
                f"network states {theirs}; make them equal, or set it to 0 there first, so that it follows"
            )


def _check_nics_free(new: VlanConfig, nodes: tuple[str, ...], world: World) -> None:
    mine, nics = set(nodes), set(new.spec.uplink.nics)
    for network in sorted(item.metadata.name for item in world.cluster_networks()):
        if network == new.spec.cluster_network:
            continue
        for other in world.configs_of(network):
            taken = sorted(nics & set(other.spec.uplink.nics))
            shared = sorted(mine & set(world.matching(other.spec.node_selector))) if taken else []
            if shared and not other.metadata.is_leaving:
                raise Refused(
                    f"spec.uplink.nics has {', '.join(taken)}, which VlanConfig {other.metadata.name} of the cluster "
                    f"network {network} already uses on {listed(shared)}"
                )
