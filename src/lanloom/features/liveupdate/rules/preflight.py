"""What must hold before a NIC moves to another network: looked at before anything is touched.

Both ways are judged, because a policy may choose between them. Upstream leaves a migration pending for ever whose
target can't be had; here each problem names the object, the field and what to do. A warning stops nothing.
"""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node, Pod
from lanloom.api.dummy import DRAINING
from lanloom.api.kubevirt import VirtualMachineInstance, nad_of
from lanloom.api.l3 import AnnotationError
from lanloom.api.lan import LAN, LANS, not_admitted
from lanloom.api.lannads import spokes_named
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition, is_name
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.liveupdate.rules.launcher import (
    UnreadableStatus,
    attached_of,
    interface_of,
    nic_of,
    pod_interface,
)
from lanloom.features.liveupdate.rules.mode import Mode, against_moves
from lanloom.features.liveupdate.rules.places import (
    IPAM_PLUGIN,
    BridgePlace,
    LanSpoke,
    UnmovableNad,
    ipam_of,
    main_config,
    place_of,
    plugin_of,
)
from lanloom.kube.conditions import is_true
from lanloom.node.vlanids import contains, parse
from lanloom.refusals import title_for
from lanloom.text import listed, quote

READY = "ready"
"""The condition of a ClusterNetworkNode whose bridge can be used."""


class Findings(Struct, frozen=True, kw_only=True):
    """What stands against a move, for each of the two ways, and what a user should know besides.

    `both` stands against either way, `migration` and `in_place` against that one. `warnings` are of either way,
    `in_place_warnings` of that one. `passing` says that what stands in
    the way goes by itself, such as a migration that is under way. `by_hand` is the remedy where nothing migrates
    machines by itself.
    """

    both: tuple[str, ...] = ()
    migration: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    in_place_warnings: tuple[str, ...] = ()
    passing: bool = False
    by_hand: str = ""

    @property
    def against_migration(self) -> tuple[str, ...]:
        """Every reason why the NIC can't move by migration; empty if it can."""
        return (*self.both, *self.migration)

    @property
    def against_in_place(self) -> tuple[str, ...]:
        """Every reason why the NIC can't move in place; empty if it can."""
        return (*self.both, *self.in_place)


class Networks(Struct, frozen=True, kw_only=True):
    """What carries networks, as nodes and managers report it, and the nodes that are there."""

    reports: tuple[ClusterNetworkNode, ...] = ()
    lans: tuple[LAN, ...] = ()


class Facts(Struct, frozen=True, kw_only=True):
    """All that is known of a move.

    `machine` is None where there is none of the name. `pod` is its launcher pod. `source` and `target` are NADs as they
    are now, None for those that are not there; `leaves` and `enters` are how they are called. `migrating` names a
    migration that has not ended. `eligible` are nodes that the machine can run on; None where that is not known. `mode`
    is who changes networks of running machines; None where that is not known. `isolation` says which NADs machines of
    a namespace may use.
    """

    title: str
    network: str
    leaves: Key
    enters: Key
    machine: VirtualMachineInstance | None
    pod: Pod | None = None
    source: NetworkAttachmentDefinition | None = None
    target: NetworkAttachmentDefinition | None = None
    migrating: str = ""
    eligible: frozenset[str] | None = None
    networks: Networks = Networks()
    mode: Mode | None = None
    isolation: NamespaceIsolation = NO_ISOLATION


SCHEDULABLE = "kubevirt.io/schedulable"
"""Label of the nodes on which KubeVirt can run machines, with the value "true"."""


def eligible_nodes(machine: VirtualMachineInstance, nodes: Iterable[Node]) -> frozenset[str]:
    """Return the nodes to which a machine can migrate, as far as labels and conditions tell.

    Where no node has KubeVirt's label, every node that is Ready counts.
    """
    ready = [node for node in nodes if is_true(node.status.conditions, "Ready")]
    labelled = [node for node in ready if node.metadata.labels.get(SCHEDULABLE) == "true"]
    names = (node.metadata.name for node in labelled or ready)
    return frozenset(names) - {machine.status.node_name}


def check(facts: Facts) -> Findings:
    """Return what stands against the move."""
    machine = facts.machine
    if machine is None or machine.has_ended:
        return Findings(
            both=(f"{facts.title} does not run; start it: it gets the network of its specification",)
        )
    if machine.metadata.is_deleting:
        return Findings(both=(f"{facts.title} is being stopped; start it again after that",))
    if machine.status.phase != "Running" or not machine.status.node_name:
        phase = machine.status.phase or "not known yet"
        text = f"{facts.title} does not run yet (its phase is {phase}); wait until it is Running"
        return Findings(both=(text,), passing=True)
    if wrong := _nic_problem(facts, machine):
        return Findings(both=(wrong,))
    if (
        wrong := forbidden(facts)
        or target_problem(facts.target, facts.enters)
        or _not_admitted(facts, machine)
    ):
        return Findings(both=(wrong,))
    if wrong := against_moves(facts.mode):
        return Findings(both=(f"{facts.title}: {wrong}",))
    if facts.migrating:
        text = f"{facts.title} is being migrated ({facts.migrating}); wait until that is over"
        return Findings(both=(text,), passing=True)
    return Findings(
        migration=tuple(_migration_problems(facts, machine)),
        in_place=tuple(_in_place_problems(facts, machine)),
        warnings=tuple(_smaller_mtu(facts)),
        in_place_warnings=tuple(_other_addresses(facts)),
        passing=facts.pod is None or bool(_plugging(machine)),
        by_hand=facts.mode.hint if facts.mode is not None and not facts.mode.migrates else "",
    )


def _nic_problem(facts: Facts, machine: VirtualMachineInstance) -> str:
    nic, interface = nic_of(machine.spec, facts.network), interface_of(machine.spec, facts.network)
    if nic is None or interface is None:
        known = listed(item.name for item in machine.spec.networks)
        return f"{facts.title} has no network {quote(facts.network)}; it has {known}"
    if nic.multus is None:
        return f"{facts.title}: the network {facts.network} is the pod network, which can't be changed"
    if interface.state == "absent":
        return f"{facts.title}: the NIC {facts.network} is being unplugged (its state is absent)"
    present = nad_of(nic.multus, machine.metadata.namespace)
    if present not in (facts.leaves, facts.enters):
        return f"{facts.title}: the network {facts.network} is {present}, and not {facts.leaves}"
    return ""


def forbidden(facts: Facts) -> str:
    """Return why namespace isolation keeps the NIC from the NAD that it is to enter; empty if it does not.

    Nothing of the NAD is looked at. A network that takes the place of the pod network is not Multus' to judge.
    """
    machine = facts.machine
    nic = nic_of(machine.spec, facts.network) if machine is not None else None
    if machine is None or (nic is not None and not nic.is_secondary):
        return ""
    return facts.isolation.against(machine.metadata.namespace, facts.enters)


def _not_admitted(facts: Facts, machine: VirtualMachineInstance) -> str:
    """Return why the LAN of the NAD that the NIC is to enter is not for the machine; empty if it is, or for no LAN."""
    namespace = machine.metadata.namespace
    for spoke in sorted(spokes_named(facts.target)) if facts.target is not None else ():
        lan = _lan_of(spoke, facts.networks)
        if lan is not None and not lan.admits(namespace):
            return f"NetworkAttachmentDefinition {facts.enters}: {not_admitted(spoke, namespace)}"
    return ""


def _lan_of(spoke: str, networks: Networks) -> LAN | None:
    return next((item for item in networks.lans if spoke in item.spec.spokes), None)


def target_problem(target: NetworkAttachmentDefinition | None, called: Key) -> str:
    """Return why nothing can move to a NAD of that name, whichever way; empty if it can."""
    title = f"NetworkAttachmentDefinition {called}"
    if not is_name(called.namespace) or not is_name(called.name):
        return f"{quote(str(called))} can't name a NetworkAttachmentDefinition; use NAME or NAMESPACE/NAME"
    if target is None:
        return f"{title} does not exist; create it, or name another"
    if target.metadata.is_deleting or DRAINING in target.metadata.annotations:
        return f"{title} is being deleted and accepts no new users; name another"
    try:
        plugin_of(target)
    except AnnotationError as error:
        return f"{title}: {error}"
    return ""


def _migration_problems(facts: Facts, machine: VirtualMachineInstance) -> Iterable[str]:
    if not is_true(machine.status.conditions, "LiveMigratable"):
        yield f"{facts.title} can't be migrated: its condition LiveMigratable is not True; move it in place"
    source, target = facts.source, facts.target
    if (
        source is not None
        and target is not None
        and (before := _plugin(source)) != (after := plugin_of(target))
    ):
        yield (
            f"NetworkAttachmentDefinition {facts.enters}: spec.config.type is {quote(after)}, and that of "
            f"{facts.leaves} is {quote(before)}; a migration keeps the type, so name a NAD of the same type"
        )
    carrying = nodes_carrying(target, facts.networks) if target is not None else None
    if carrying is None or facts.eligible is None or target is None:
        return
    if not carrying & facts.eligible:
        yield f"{_absent(target, facts)} on no node that {facts.title} can run on; add one to the cluster network"
    elif all(_lacks_id(target, node, facts.networks) for node in carrying & facts.eligible):
        yield f"{_without_id(target, facts)} any node that {facts.title} can run on; {_ABOUT_IDS}"


def _in_place_problems(facts: Facts, machine: VirtualMachineInstance) -> Iterable[str]:
    nic, interface = nic_of(machine.spec, facts.network), interface_of(machine.spec, facts.network)
    if nic is not None and not nic.is_secondary:
        yield f"{facts.title}: the network {facts.network} takes the place of the pod network; move it by migration"
    if interface is not None and interface.bridge is None:
        yield f"{facts.title}: the NIC {facts.network} has no bridge binding; move it by migration"
    if facts.source is None:
        yield (
            f"NetworkAttachmentDefinition {facts.leaves} does not exist, so a failed move could not be taken back; "
            "create it, or move the machine by migration"
        )
    for nad in (facts.source, facts.target):
        if nad is not None and (why := _unmovable(nad)):
            yield why
    if plugging := _plugging(machine):
        # KubeVirt then writes the launcher pod's networks anew, by a spec that may still name the old NAD.
        yield f"{facts.title}: {listed(plugging)} is being plugged in or unplugged; wait until that is done"
    yield from _pod_problems(facts, machine)
    node, target = machine.status.node_name, facts.target
    carrying = nodes_carrying(target, facts.networks) if target is not None else None
    if carrying is not None and node not in carrying:
        yield f"{_absent(target, facts)} on {node}, on which {facts.title} runs; add the node, or move it by migration"
    elif target is not None and _lacks_id(target, node, facts.networks):
        yield f"{_without_id(target, facts)} {node}, on which {facts.title} runs; {_ABOUT_IDS}"
    if target is not None and (why := _lan_problem(target, facts.networks, machine.metadata.namespace)):
        yield why


def _plugging(machine: VirtualMachineInstance) -> tuple[str, ...]:
    """Return the NICs that come or go, as far as KubeVirt reports NICs at all."""
    reported = {item.name for item in machine.status.interfaces}
    if not reported:
        return ()
    return tuple(
        item.name for item in machine.spec.interfaces if item.state == "absent" or item.name not in reported
    )


def _pod_problems(facts: Facts, machine: VirtualMachineInstance) -> Iterable[str]:
    if facts.pod is None:
        yield f"{facts.title}: its launcher pod on {machine.status.node_name} can't be told; wait until there is one"
        return
    try:
        attached = attached_of(facts.pod, pod_interface(machine, facts.network))
    except UnreadableStatus as error:
        yield str(error)
        return
    if attached.nad != facts.leaves:
        # Also where that is the target: a move that fails takes the port to where the pod says it has never been.
        yield (
            f"Pod {facts.pod.metadata.key} is attached to {attached.nad} with {attached.interface}, and not to "
            f"{facts.leaves}; wait for the migration, or restart the machine"
        )


def _smaller_mtu(facts: Facts) -> Iterable[str]:
    before, after = (_mtu(nad, facts.networks) for nad in (facts.source, facts.target))
    if before and after and after < before:
        yield f"the MTU of {facts.enters} is {after}, and that of {facts.leaves} {before}: set {after} in the guest"


def _other_addresses(facts: Facts) -> Iterable[str]:
    target = facts.target
    if target is None:
        return
    try:
        plugin = ipam_of(main_config(target))
    except (AnnotationError, UnmovableNad):
        return
    if plugin and plugin != IPAM_PLUGIN:
        yield f"the addresses of {facts.enters} are given by {plugin}, which does not follow a move in place"


def nodes_carrying(nad: NetworkAttachmentDefinition, networks: Networks) -> frozenset[str] | None:
    """Return the nodes that have the bridge of a NAD; None where no report tells, as for isolated networks."""
    network = cluster_network_of(nad)
    if not network:
        return None
    own = [item.status for item in networks.reports if item.status.cluster_network == network]
    return frozenset(status.node for status in own if is_true(status.conditions, READY)) if own else None


_ABOUT_IDS = "wait for the node's agent, or see the reason with `lanloom vlan show`"


def _lacks_id(nad: NetworkAttachmentDefinition, node: str, networks: Networks) -> bool:
    """Return whether a node reports VLAN ids, and not that of a NAD among them."""
    try:
        place = place_of(nad)
    except UnmovableNad:
        return False
    network = cluster_network_of(nad)
    own = (item.status for item in networks.reports if item.status.cluster_network == network)
    ids = next((parse(status.vlan_ids) for status in own if status.node == node), ())
    return isinstance(place, BridgePlace) and place.pvid > 0 and bool(ids) and not contains(ids, place.pvid)


def _without_id(nad: NetworkAttachmentDefinition, facts: Facts) -> str:
    place = place_of(nad)
    vid = place.pvid if isinstance(place, BridgePlace) else 0
    return (
        f"NetworkAttachmentDefinition {facts.enters}: its VLAN id {vid} is not on the uplink of cluster network "
        f"{cluster_network_of(nad)} on"
    )


def _lan_problem(nad: NetworkAttachmentDefinition, networks: Networks, namespace: str) -> str:
    try:
        place = place_of(nad)
    except UnmovableNad:
        return ""
    if not isinstance(place, LanSpoke):
        return ""
    lan = _lan_of(place.spoke, networks)
    if lan is None:
        return f"NetworkAttachmentDefinition {nad.metadata.key}: no LAN has the spoke {place.spoke}; add it to one"
    if lan.metadata.is_deleting:
        title = title_for(namespace, LANS.kind, lan.metadata.namespace, lan.metadata.name)
        return f"{title} with the spoke {place.spoke} is being deleted; name another network"
    return ""


def _mtu(nad: NetworkAttachmentDefinition | None, networks: Networks) -> int:
    """Return the MTU that a NAD's ports get, as far as NAD and reports tell; else 0."""
    if nad is None:
        return 0
    try:
        place = place_of(nad)
    except UnmovableNad:
        return 0
    if isinstance(place, BridgePlace):
        network = cluster_network_of(nad)
        reported = [item.status.mtu for item in networks.reports if item.status.cluster_network == network]
        return place.mtu or min((mtu for mtu in reported if mtu), default=0)
    return next((item.status.mtu for item in networks.lans if place.spoke in item.spec.spokes), 0)


def _unmovable(nad: NetworkAttachmentDefinition) -> str:
    try:
        place_of(nad)
    except UnmovableNad as error:
        return str(error)
    return ""


def _plugin(nad: NetworkAttachmentDefinition) -> str:
    try:
        return plugin_of(nad)
    except AnnotationError:
        return ""


def _absent(nad: NetworkAttachmentDefinition | None, facts: Facts) -> str:
    network = cluster_network_of(nad) if nad is not None else ""
    return f"NetworkAttachmentDefinition {facts.enters}: the bridge of its cluster network {network} is ready"
