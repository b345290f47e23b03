"""From what a node has to what it should have: only the difference, in an order that is safe to stop anywhere.

Profiles that go are removed first (NetworkManager then removes the sub-interface), links change next, and new
profiles are written last, when their bridge is there.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.names import MGMT
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    LinkStep,
    RemoveVlans,
    SetMaster,
    SetUp,
)
from lanloom.node.vlanids import VlanIds, contains, subtract, vlan_ids
from lanloom.vlan.rules.desired import Interface, NodeNetwork, Problem, kept_ids
from lanloom.vlan.rules.management import BRIDGE, NOTHING, guest_steps
from lanloom.vlan.rules.management import Added as Added
from lanloom.vlan.rules.management import obstacles as management_obstacles
from lanloom.vlan.rules.names import interface_name, parse_profile_file, profile_file

_DEFAULT_ID: VlanIds = ((1, 1),)


class Plan(Struct, frozen=True, kw_only=True):
    """What to do, in the order of the fields.

    `steps` come in groups by cluster network (the last, "", removes what nothing wants any more), so that one that
    fails does not hold up the others. `problems` maps cluster networks to what stood in the way of a plan. `forget`
    are profiles without a file whose sub-interface is still there: NetworkManager was not told of the removal, or it
    was restarted meanwhile and knows the sub-interface no longer, which is why that is deleted after it was told.
    `added` is what will be Lanloom's on the installer's links: it is to be recorded before the steps run, and also
    where the plan is empty.
    """

    remove_files: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    steps: tuple[tuple[str, tuple[LinkStep, ...]], ...] = ()
    write_files: tuple[tuple[str, bytes], ...] = ()
    problems: dict[str, tuple[Problem, ...]] = {}
    added: Added = NOTHING

    @property
    def empty(self) -> bool:
        """Whether the node already is as it should be."""
        return not (self.remove_files or self.forget or self.steps or self.write_files)


def plan(
    wanted: tuple[NodeNetwork, ...],
    observed: LinkState,
    files: Mapping[str, bytes],
    added: Added = NOTHING,
) -> Plan:
    """The difference between what is wanted and what the kernel and the profile directory have.

    `added` is the record of what Lanloom put on the installer's links.
    """
    groups: dict[str, tuple[LinkStep, ...]] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for network in wanted:
        obstacles = _obstacles(network, observed, files, added)
        if not (blocked(obstacles) or network.foreign):
            unusable = {item.network for item in obstacles}
            groups[network.cluster_network] = _network_steps(network, observed, unusable)
        if obstacles:
            problems[network.cluster_network] = obstacles
    groups[MGMT], record = _guest(wanted, observed, files, added, problems.get(MGMT, ()))
    orphans = _orphans(wanted, observed, files, added)
    leftovers, busy = _leftovers(wanted, observed)
    groups[""] = (*(DeleteLink(name=link.name) for link in orphans), *leftovers)
    return Plan(
        remove_files=_files_to_remove(wanted, files),
        forget=tuple(_profile_of(link, observed) for link in orphans),
        steps=tuple((name, steps) for name, steps in groups.items() if steps),
        write_files=_files_to_write(settleable(wanted, problems), files),
        problems=problems | busy,
        added=record,
    )


def _guest(
    wanted: tuple[NodeNetwork, ...],
    observed: LinkState,
    files: Mapping[str, bytes],
    added: Added,
    obstacles: tuple[Problem, ...],
) -> tuple[tuple[LinkStep, ...], Added]:
    if blocked(obstacles):
        return (), added if BRIDGE in observed.links else Added()
    network = next((item for item in wanted if item.foreign), None)
    return guest_steps(network, frozenset(item.vid for item in obstacles), observed, files, added)


def _files_to_remove(wanted: tuple[NodeNetwork, ...], files: Mapping[str, bytes]) -> tuple[str, ...]:
    keep = {item.file for network in wanted for item in network.interfaces}
    frozen = {network.cluster_network: kept_ids(network) for network in wanted}
    gone = []
    for name in sorted(set(files) - keep):
        owner = parse_profile_file(name)
        kept = frozen.get(owner[0], frozenset()) if owner else frozenset()
        if not (kept is None or (owner and owner[1] in kept)):
            gone.append(name)
    return tuple(gone)


def _orphans(
    wanted: tuple[NodeNetwork, ...], observed: LinkState, files: Mapping[str, bytes], added: Added
) -> tuple[Link, ...]:
    """Sub-interfaces on bridges of ours, of the name that a profile of ours gives, without such a profile."""
    frozen = {network.cluster_network: kept_ids(network) for network in wanted}
    keep = {item.name for network in wanted for item in network.interfaces}
    found = []
    for name, link in sorted(observed.links.items()):
        parent = observed.links.get(link.parent)
        if link.kind != "vlan" or name in keep or parent is None:
            continue
        if not (parent.ours or (parent.name == BRIDGE and contains(added.interfaces, link.vlan_id))):
            continue
        cluster_network = _cluster_network(parent.name)
        kept = frozen.get(cluster_network, frozenset())
        ours = name == interface_name(cluster_network, link.vlan_id)
        missing = profile_file(cluster_network, link.vlan_id) not in files
        if ours and missing and kept is not None and link.vlan_id not in kept:
            found.append(link)
    return tuple(found)


def _profile_of(sub_interface: Link, observed: LinkState) -> str:
    parent = observed.links[sub_interface.parent]
    return profile_file(_cluster_network(parent.name), sub_interface.vlan_id)


def _cluster_network(bridge: str) -> str:
    return bridge.removesuffix("-br")


def carried_networks(
    observed: LinkState, files: Iterable[str] = (), added: Added = NOTHING
) -> frozenset[str]:
    """The cluster networks that the node has now, whatever is wanted: those with a bridge of ours.

    `mgmt`, whose bridge never is, counts if Lanloom has a profile or VLAN ids on it.
    """
    bridges = (link for link in observed.links.values() if link.ours and link.kind == "bridge")
    owners = (parse_profile_file(name) for name in files)
    guest = bool(added.bridge or added.uplink) or any(owner and owner[0] == MGMT for owner in owners)
    return frozenset((*(_cluster_network(link.name) for link in bridges), *((MGMT,) if guest else ())))


def settleable(
    wanted: Iterable[NodeNetwork], problems: Mapping[str, tuple[Problem, ...]]
) -> tuple[Interface, ...]:
    """The interfaces that nothing stands in the way of; `problems` by cluster network."""
    return tuple(
        item
        for network in wanted
        if not blocked(obstacles := problems.get(network.cluster_network, ()))
        for item in network.interfaces
        if not any(problem.vid == item.vid for problem in obstacles)
    )


def blocked(obstacles: Iterable[Problem]) -> bool:
    """Whether the uplink can't be built at all: then there is no bridge of ours for a sub-interface either."""
    return any(problem.keep for problem in obstacles)


def _files_to_write(
    interfaces: Iterable[Interface], files: Mapping[str, bytes]
) -> tuple[tuple[str, bytes], ...]:
    return tuple((item.file, item.content) for item in interfaces if files.get(item.file) != item.content)


def _obstacles(
    network: NodeNetwork, observed: LinkState, files: Mapping[str, bytes], added: Added
) -> tuple[Problem, ...]:
    """What forbids to build the uplink (`keep`), a NIC of it (its name in `network`), or a VLAN (`vid`)."""
    if network.foreign:
        return management_obstacles(network, observed, files, added)
    if blocked(network.uplink_problems):
        return network.uplink_problems
    for name in (network.bridge, network.bond):
        link = observed.links.get(name)
        if link is not None and not link.ours:
            message = f"the link {name} exists and was not made by Lanloom; rename or remove it"
            return (Problem(vid=0, network=name, reason="ForeignLink", message=message, keep=True),)
    problems = list(network.uplink_problems)
    problems += [problem for nic in network.nics if (problem := _nic_problem(nic, network, observed))]
    if not (network.nics or network.uplink_problems):
        problems.append(
            _uplink_problem(
                "", "UplinkMissing", f"VlanConfig {network.vlan_config} names no NIC in spec.uplink.nics"
            )
        )
    return tuple(problems)


def _nic_problem(nic: str, network: NodeNetwork, observed: LinkState) -> Problem | None:
    link = observed.links.get(nic)
    if link is None:
        return _uplink_problem(
            nic, "UplinkMissing", f"the NIC {nic} of VlanConfig {network.vlan_config} does not exist"
        )
    if link.master == network.bond:
        return None
    if link.master:
        return _uplink_problem(nic, "UplinkInUse", f"the NIC {nic} already belongs to {link.master}")
    if nic in observed.default_route_links:
        return _uplink_problem(
            nic,
            "UplinkInUse",
            f"the NIC {nic} carries the node's default route; taking it would cut the node off",
        )
    if link.addresses:
        return _uplink_problem(
            nic, "UplinkInUse", f"the NIC {nic} has the address {link.addresses[0]}; remove it first"
        )
    return None


def _uplink_problem(nic: str, reason: str, message: str) -> Problem:
    return Problem(vid=0, network=nic, reason=reason, message=message)


def _network_steps(network: NodeNetwork, observed: LinkState, unusable: set[str]) -> tuple[LinkStep, ...]:
    links = observed.links
    bond, bridge = links.get(network.bond), links.get(network.bridge)
    steps: list[LinkStep] = []
    if bond is None or not _bond_fits(bond, network):
        steps.append(
            EnsureBond(
                name=network.bond,
                mode=network.mode,
                miimon=network.miimon,
                mtu=network.mtu,
                tx_queue_length=network.tx_queue_length,
                mac=network.mac,
            )
        )
    members = {name for name, link in links.items() if link.master == network.bond}
    steps += [SetMaster(link=name, master="") for name in sorted(members - set(network.nics))]
    steps += [
        SetMaster(link=nic, master=network.bond) for nic in network.nics if nic not in members | unusable
    ]
    steps += [SetUp(link=nic) for nic in network.nics if nic in members and not links[nic].up]
    if bridge is None or not (bridge.up and bridge.vlan_filtering and bridge.mtu == network.mtu):
        steps.append(EnsureBridge(name=network.bridge, mtu=network.mtu))
    if bond is None or bond.master != network.bridge:
        steps.append(SetMaster(link=network.bond, master=network.bridge))
    kept = kept_ids(network)
    attached = bond is not None and bond.master == network.bridge
    has = bond.vlans if bond is not None and attached else ()
    steps += _vlan_steps(network.bond, has, network.uplink_ids, kept, self_=False)
    steps += _vlan_steps(
        network.bridge, bridge.self_vlans if bridge else (), network.bridge_ids, kept, self_=True
    )
    return tuple(steps)


def _bond_fits(bond: Link, network: NodeNetwork) -> bool:
    has = (bond.bond_mode, bond.bond_miimon, bond.mtu)
    return (
        bond.up
        and has == (network.mode, network.miimon, network.mtu)
        and network.tx_queue_length in (None, bond.tx_queue_length)
        and network.mac in ("", bond.mac)
    )


def _vlan_steps(
    link: str, has: VlanIds, wants: VlanIds, kept: frozenset[int] | None, *, self_: bool
) -> Iterable[LinkStep]:
    if missing := subtract(wants, has):
        yield AddVlans(link=link, ids=missing, self_=self_)
    surplus = subtract(subtract(has, wants), _DEFAULT_ID)
    if kept is not None and (surplus := subtract(surplus, vlan_ids(kept))):
        yield RemoveVlans(link=link, ids=surplus, self_=self_)


def _leftovers(
    wanted: tuple[NodeNetwork, ...], observed: LinkState
) -> tuple[tuple[LinkStep, ...], dict[str, tuple[Problem, ...]]]:
    """Links of ours that nothing wants any more. A bridge that still has somebody's port stays."""
    needed = {name for network in wanted for name in (network.bridge, network.bond)}
    surplus = [link for name, link in sorted(observed.links.items()) if link.ours and name not in needed]
    gone = {link.name for link in surplus}
    steps: list[LinkStep] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    for bridge in (link for link in surplus if link.kind == "bridge"):
        ports = sorted(
            name for name, link in observed.links.items() if link.master == bridge.name and name not in gone
        )
        if ports:
            message = f"the bridge {bridge.name} is not wanted any more but has the port {ports[0]}; stop what uses it"
            problem = Problem(vid=0, network=bridge.name, reason="BridgeInUse", message=message, keep=True)
            problems[_cluster_network(bridge.name)] = (problem,)
        else:
            steps.append(DeleteLink(name=bridge.name))
    steps += [DeleteLink(name=link.name) for link in surplus if link.kind != "bridge"]
    return tuple(steps), problems
