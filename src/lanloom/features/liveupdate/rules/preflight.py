"""What must hold before a NIC moves to another network: looked at before anything is touched.

Both ways are judged, because a policy may choose between them. Upstream leaves a migration pending endlessly whose
target can't be had; here each problem names the object, the field and what to do. A warning stops nothing.
"""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.dummy import DRAINING
from lanloom.api.kubevirt import VirtualMachineInstance, nad_of
from lanloom.api.l3 import AnnotationError
from lanloom.api.lannads import spokes_named
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition, is_name
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.rules.addresses import against_addresses, kept_addresses
from lanloom.features.liveupdate.rules.launcher import (
    UnreadableStatus,
    attached_of,
    interface_of,
    nic_of,
    pod_interface,
    started_with,
)
from lanloom.features.liveupdate.rules.mode import Mode, against_eviction, against_moves
from lanloom.features.liveupdate.rules.nadtargets import (
    BRIDGED,
    IPAM_PLUGIN,
    UnmovableNad,
    against_pair,
    ipam_section,
    plugin_of,
    target_of,
)
from lanloom.features.liveupdate.rules.networks import Networks, against_spokes, by_reason, mtu_of, why_not_on
from lanloom.kube.conditions import is_true
from lanloom.text import listed, quote


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


class Facts(Struct, frozen=True, kw_only=True):
    """All that is known of a move.

    `machine` is None where there is none of the name. `pod` is its launcher pod, `pods` are all of its pods. `source`
    and `target` are NADs as they are now, None for those that are not there; `leaves` and `enters` are how they are
    called. `migrating` names a migration that has not ended. `eligible` are nodes that the machine can run on; None
    where that is not known. `mode` is who changes networks of running machines; None where that is not known. With
    `force`, a machine moves in place that KubeVirt may evict for it, and with `until_restart` one whose instance does
    not follow. `isolation` says which NADs machines of a namespace may use. With `allocates`, the target's addresses
    are asked for already: their allocator says whether there are some.
    """

    title: str
    network: str
    leaves: Key
    enters: Key
    machine: VirtualMachineInstance | None
    pod: Pod | None = None
    pods: tuple[Pod, ...] = ()
    source: NetworkAttachmentDefinition | None = None
    target: NetworkAttachmentDefinition | None = None
    migrating: str = ""
    eligible: frozenset[str] | None = None
    networks: Networks = Networks()
    mode: Mode | None = None
    force: bool = False
    until_restart: bool = False
    isolation: NamespaceIsolation = NO_ISOLATION
    allocates: bool = False


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
        or _not_to_be_had(facts, machine)
    ):
        return Findings(both=(wrong,))
    migratable, until_restart = machine.is_migratable, facts.until_restart
    if wrong := against_moves(facts.mode, migratable=migratable, until_restart=until_restart):
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


def _not_to_be_had(facts: Facts, machine: VirtualMachineInstance) -> str:
    """Return why the target has no place or no address for the NIC, wherever the machine runs; empty if it has."""
    target, own = facts.target, machine.metadata.namespace
    if target is None:
        return ""
    pods = frozenset(str(item.metadata.key) for item in (*facts.pods, *filter(None, (facts.pod,))))
    return (
        _own_spoke(facts, machine, target)
        or against_spokes(target, facts.networks, own, pods)
        or ("" if facts.allocates else against_addresses(target, machine, facts.network, facts.networks))
    )


def _own_spoke(facts: Facts, machine: VirtualMachineInstance, target: NetworkAttachmentDefinition) -> str:
    """Return which other NIC of the machine has the spoke already; empty for none."""
    for item in machine.spec.networks if spokes_named(target) else ():
        if item.multus is None or item.name == facts.network:
            continue
        if nad_of(item.multus, machine.metadata.namespace) == facts.enters:
            return f"{facts.title}: its NIC {item.name} is on {facts.enters}, a spoke of a LAN; name another spoke"
    return ""


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
    if why := _other_type(facts, machine):
        yield why
    target, nodes = facts.target, facts.eligible
    if target is None or nodes is None:
        return
    if not nodes:
        yield f"{facts.title} can't be migrated: no other node is Ready and accepts machines; add one"
    if lacking := by_reason(nodes, target, facts.networks):
        reasons = "; ".join(f"{why} on {listed(names)}" for why, names in lacking.items())
        yield (
            f"NetworkAttachmentDefinition {facts.enters} can't be had on any node that {facts.title} can migrate to: "
            f"{reasons}; {_ABOUT_NODES}"
        )


def _other_type(facts: Facts, machine: VirtualMachineInstance) -> str:
    """Return why the NIC can't have an interface of the target's CNI plugin; empty if it can.

    A migration keeps the binding of the NIC. The bridge binding takes any link of the plugins `BRIDGED`; of others
    nothing is known but that the binding fits the present one.
    """
    source, target = facts.source, facts.target
    interface = interface_of(machine.spec, facts.network)
    if source is None or target is None or interface is None:
        return ""
    before, after = _plugin(source), plugin_of(target)
    if before == after or (interface.bridge is not None and {before, after} <= BRIDGED):
        return ""
    return (
        f"NetworkAttachmentDefinition {facts.enters}: spec.config.type is {quote(after)}, and that of {facts.leaves} "
        f"is {quote(before)}; a migration keeps the binding of the NIC, so name a NAD of the same type, or edit NIC "
        "and NAD and restart the machine"
    )


def _in_place_problems(facts: Facts, machine: VirtualMachineInstance) -> Iterable[str]:
    nic, interface = nic_of(machine.spec, facts.network), interface_of(machine.spec, facts.network)
    if nic is not None and not nic.is_secondary:
        yield f"{facts.title}: the network {facts.network} takes the place of the pod network; move it by migration"
    if interface is not None and interface.bridge is None:
        yield f"{facts.title}: the NIC {facts.network} has no bridge binding; move it by migration"
    if not facts.force and (why := against_eviction(facts.mode, migratable=machine.is_migratable)):
        yield f"{facts.title} {why}"
    if facts.source is None:
        yield (
            f"NetworkAttachmentDefinition {facts.leaves} does not exist, so a failed move could not be taken back; "
            "create it, or move the machine by migration"
        )
    for nad in (facts.source, facts.target):
        if nad is not None and (why := _unmovable(nad)):
            yield why
    if why := _unlike(facts):
        yield why
    if plugging := _plugging(machine):
        # KubeVirt then writes the launcher pod's networks again, by a spec that may still name the old NAD.
        yield f"{facts.title}: {listed(plugging)} is being plugged in or unplugged; wait until that is done"
    if facts.network not in plugging:  # what comes or goes is not in the pod's network-status
        yield from _pod_problems(facts, machine)
    node, target = machine.status.node_name, facts.target
    if target is not None and (why := why_not_on(target, node, facts.networks)):
        yield (
            f"NetworkAttachmentDefinition {facts.enters}: {why} on {node}, on which {facts.title} runs; "
            f"{_ABOUT_NODES}, or move the machine by migration"
        )


_ABOUT_NODES = (
    "add the node to the cluster network, wait for its agent, or see the reason with `lanloom vlan show`"
)


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
        yield f"{facts.title}: its launcher pod on {machine.status.node_name} is unknown; wait until there is one"
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
    answered = started_with(facts.pod, attached.interface)
    beside = facts.mode is not None and facts.mode.name != "full"
    if answered and beside and not facts.force and not set(answered) <= _kept(facts, machine):
        # The bridge binding's DHCP server keeps what it was started with: pkg/network/dhcp/bridge.go of KubeVirt.
        yield (
            f"{facts.title}: the launcher pod answers DHCP requests of the NIC {facts.network} with {answered[0]}, its "
            "address at the start, until the machine is migrated or restarted; move it by migration, or, if the guest "
            "sets its address itself, with --force (spec.force of the NetworkSwap)"
        )


def _kept(facts: Facts, machine: VirtualMachineInstance) -> frozenset[str]:
    """Return the addresses that the NIC keeps, as both NADs are of one network."""
    if facts.target is None:
        return frozenset()
    return frozenset(kept_addresses(facts.target, machine, facts.network, facts.networks))


def _smaller_mtu(facts: Facts) -> Iterable[str]:
    before, after = (mtu_of(nad, facts.networks) for nad in (facts.source, facts.target))
    if before and after and after < before:
        yield f"the MTU of {facts.enters} is {after}, and that of {facts.leaves} {before}: set {after} in the guest"


def _other_addresses(facts: Facts) -> Iterable[str]:
    plugin = ipam_section(facts.target).get("type") if facts.target is not None else None
    if isinstance(plugin, str) and plugin not in ("", IPAM_PLUGIN):
        yield f"the addresses of {facts.enters} are given by {plugin}, which does not follow a move in place"


def _unlike(facts: Facts) -> str:
    """Return why a port can't move between the two NADs, although it can between others."""
    if facts.source is None or facts.target is None:
        return ""
    try:
        why = against_pair(target_of(facts.source), target_of(facts.target))
    except UnmovableNad:
        return ""
    return f"NetworkAttachmentDefinitions {facts.leaves} and {facts.enters}: {why}" if why else ""


def _unmovable(nad: NetworkAttachmentDefinition) -> str:
    try:
        target_of(nad)
    except UnmovableNad as error:
        return str(error)
    return ""


def _plugin(nad: NetworkAttachmentDefinition) -> str:
    try:
        return plugin_of(nad)
    except AnnotationError:
        return ""
