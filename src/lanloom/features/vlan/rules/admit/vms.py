"""What the webhooks refuse for the sake of virtual machines, most of it only for those that run.

A machine uses a VM network by naming its NAD. An overlay network runs over a cluster network, by whose node addresses
its machines reach each other; it is unknown by which of them, so each counts.
"""

from collections.abc import Iterable

from lanloom.api import names
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import VlanConfig
from lanloom.api.kubevirt import VirtualMachineInstance, nodes_of
from lanloom.api.l3 import L3, AnnotationError, PoolSource
from lanloom.api.l3annotations import l3_of
from lanloom.api.meta import Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.features.vlan.reader import ClusterReader
from lanloom.node.vlanids import merge, subtract
from lanloom.refusals import Denied, titles_for
from lanloom.text import listed

Vms = tuple[VirtualMachineInstance, ...]


def check_nad_deletion(old: NetworkAttachmentDefinition, reader: ClusterReader) -> None:
    """Raise Denied for the deletion of a NAD that a VM uses or will use, or that an overlay network needs.

    An overlay network needs the node addresses that the NAD gives. The NAD of an isolated network has rules of its own.
    """
    title = f"can't delete NetworkAttachmentDefinition {old.metadata.key}"
    machines = () if UID_LABEL in old.metadata.labels else reader.machines_naming(old.metadata.key)
    own = old.metadata.namespace
    named = _readable(own, machines)
    if named:
        raise Denied(
            f"{title} because the VirtualMachines {listed(named)} name it in spec.template.spec.networks and "
            "could not start without it; remove the network and its interface there, or delete the machines first"
        )
    vms = _users((old,), reader)
    if vms:
        raise Denied(f"{title} because {_named(vms, own)} use it; stop them first")
    network = cluster_network_of(old)
    vms = _overlay_users(network, reader) if _l3(old) is not None else ()
    if vms:
        raise Denied(
            f"{title} because it gives node addresses on {network}, over which {_named(vms, own)} use overlay "
            "networks; stop them first"
        )


def check_config_in_use(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition, reader: ClusterReader
) -> None:
    """Raise Denied for a change of a NAD's type or VLAN ids while VMs use it. More ids of a trunk are allowed."""
    before, after = _network(old), _network(new)
    if before is None or before == after or _is_wider(before, after):
        return
    vms = _users((old,), reader)
    if vms:
        raise Denied(
            f"{_difference(before, after)} while {_named(vms, new.metadata.namespace)} use it; stop them first"
        )


def check_overlay(
    nad: NetworkAttachmentDefinition, before: L3 | None, value: L3 | None, reader: ClusterReader
) -> None:
    """Raise Denied for a change of node addresses on which overlay networks with running VMs depend.

    The address of a node without such a VM may come, change and go, so that a node that joins gets its own.
    """
    network, own = cluster_network_of(nad), nad.metadata.namespace
    vms = () if before is None or before == value else _overlay_users(network, reader)
    if before is None or not vms:
        return
    loss = _loss(before, value)
    if loss:
        raise Denied(f"{loss} while {_named(vms, own)} use overlay networks on {network}; stop them first")
    after = value.addresses if value else {}
    moved = {node for node, cidr in before.addresses.items() if after.get(node) != cidr}
    vms = _on(moved, vms)
    if vms:
        raise Denied(
            f"{names.NODE_IP_MAP} changes or drops the address of {_places(moved, vms)} while {_named(vms, own)} use "
            f"overlay networks on {network} there; stop or migrate them first"
        )


def check_nodes_lost(config: VlanConfig, lost: Iterable[str], reader: ClusterReader) -> None:
    """Raise Denied if nodes lose a VlanConfig while a VM there uses a network of its cluster network.

    That of `mgmt` is Harvester's description of an uplink that the installer made, and stays without it.
    """
    nodes, network = set(lost), config.spec.cluster_network
    if network == names.MGMT:
        return
    vms = _on(nodes, _users(reader.nads_of(network), reader)) if nodes else ()
    if vms:
        raise Denied(
            f"{_places(nodes, vms)} would lose the cluster network {network} while {_named(vms)} use networks of it "
            "there; stop or migrate them first"
        )


def _users(nads: Iterable[NetworkAttachmentDefinition], reader: ClusterReader) -> Vms:
    """Return the VMs that use any of the networks, ordered by name."""
    found = {vm.metadata.key: vm for nad in nads for vm in reader.vms_on(nad.metadata.key)}
    return tuple(found[key] for key in sorted(found))


def _overlay_users(network: str, reader: ClusterReader) -> Vms:
    return _users((nad for nad in reader.overlays_of(network) if _is_overlay(nad)), reader)


def _is_overlay(nad: NetworkAttachmentDefinition) -> bool:
    label = nad.metadata.labels.get(names.TYPE_LABEL)
    if label is not None:
        return label == "OverlayNetwork"
    network = _network(nad)
    return network is not None and network.type == "OverlayNetwork"


def _on(nodes: set[str], vms: Vms) -> Vms:
    return tuple(vm for vm in vms if nodes_of(vm) & nodes)


def _places(nodes: set[str], vms: Vms) -> str:
    """Return those of the nodes on which the VMs are, for a message."""
    return listed(sorted(node for node in nodes if any(node in nodes_of(vm) for vm in vms)))


def _named(vms: Vms, own: str = "") -> str:
    """Return VMs for a message: `the VMs default/a, default/b`; those of other namespaces only if `own` is empty."""
    return f"the VMs {listed(_readable(own, vms) if own else (str(vm.metadata.key) for vm in vms))}"


def _readable(own: str, objects: Iterable[Object]) -> tuple[str, ...]:
    keys = sorted(item.metadata.key for item in objects)
    return titles_for(own, ((key.namespace, str(key)) for key in keys))


def _network(nad: NetworkAttachmentDefinition) -> VmNetwork | None:
    try:
        return parse_config(nad.spec.config)
    except AnnotationError:
        return None


def _l3(nad: NetworkAttachmentDefinition) -> L3 | None:
    try:
        return l3_of(nad)
    except AnnotationError:
        return None


def _is_wider(before: VmNetwork, after: VmNetwork | None) -> bool:
    """Return whether a trunk only gets more VLAN ids."""
    if after is None or not before.type == after.type == "L2VlanTrunkNetwork":
        return False
    return not subtract(merge(before.trunk), merge(after.trunk))


def _difference(before: VmNetwork, after: VmNetwork | None) -> str:
    if after is None or after.type != before.type:
        kind = after.type if after else "one without a cluster network"
        return f"spec.config can't change the type from {before.type} to {kind}"
    if after.vid != before.vid:
        return f"spec.config.vlan can't change from {before.vid} to {after.vid}"
    return "spec.config.vlanTrunk can't drop VLAN ids"


def _is_kept(before: PoolSource, after: PoolSource | None) -> bool:
    """Return whether nodes keep the addresses of these pools. They may get some of the other IP version."""
    return (
        after is not None and after.network == before.network and set(before.requests) <= set(after.requests)
    )


def _loss(before: L3, after: L3 | None) -> str:
    """Return the change that takes node addresses from every node, empty for none."""
    if after is None:
        return f"{names.L3_CONNECTIVITY} can't be switched off"
    if after.mode != before.mode or before.mode6 not in ("", after.mode6):
        return f'{names.MODE} can\'t change from "{before.modes}" to "{after.modes}"'
    if before.mode6 and after.subnet6 != before.subnet6:
        return f"{names.IPV6_SUBNET} can't change"
    if before.source is not None and not _is_kept(before.source, after.source):
        return f"{names.IP_POOL} can't change"
    return (
        f"spec.config.vlan can't change from {before.vid} to {after.vid}" if after.vid != before.vid else ""
    )
