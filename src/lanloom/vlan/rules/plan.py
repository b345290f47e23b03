"""From what a node has to what it should have: only the difference, in an order that is safe to stop anywhere.

Profiles that go are removed first (NetworkManager then removes the sub-interface), links change next, and new
profiles are written last, when their bridge is there.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.names import MGMT, MGMT_BRIDGE
from lanloom.node.ports import LinkState
from lanloom.node.steps import DeleteLink, LinkStep, SetMaster
from lanloom.vlan.rules import management, uplink_steps
from lanloom.vlan.rules.leftovers import leftovers, orphans, profile_of
from lanloom.vlan.rules.management import NOTHING, Added
from lanloom.vlan.rules.names import network_of_bridge, parse_profile_file
from lanloom.vlan.rules.network import Interface, NodeNetwork, Problem, blocked, kept_ids


class Plan(Struct, frozen=True, kw_only=True):
    """What to do, in the order of the fields.

    `steps` come in groups by cluster network (what has the mark but no name of ours is in "", the last), so that one
    that fails does not hold up the others, and is told. `problems` maps cluster networks to what stood in the way of a
    plan. `forget` are profiles without a file whose sub-interface is still there: NetworkManager was not told of the
    removal, or it was restarted meanwhile and knows the sub-interface no longer, which is why that is deleted after it
    was told.
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
    problems = {}
    groups: dict[str, tuple[LinkStep, ...]] = {}
    record = added if MGMT_BRIDGE in observed.links else NOTHING
    for network in wanted:
        name, found = network.cluster_network, _obstacles(network, observed, files, added)
        if found:
            problems[name] = found
        if not (network.foreign or blocked(found)):
            groups[name] = uplink_steps.build_steps(network, observed, found)
    if not blocked(problems.get(MGMT, ())):
        guest = next((item for item in wanted if item.foreign), None)
        unusable = frozenset(item.vid for item in problems.get(MGMT, ()))
        groups[MGMT], record = management.guest_steps(guest, unusable, observed, files, added)
    orphaned = orphans(wanted, observed, files, added)
    surplus, busy = leftovers(wanted, observed)
    for link in orphaned:
        name = network_of_bridge(link.parent)
        groups[name] = (*groups.get(name, ()), DeleteLink(name=link.name))
    for name, steps in surplus.items():
        groups[name] = (*groups.get(name, ()), *steps)
    return Plan(
        remove_files=_files_to_remove(wanted, files),
        forget=tuple(profile_of(link, observed) for link in orphaned),
        steps=tuple((name, steps) for name, steps in groups.items() if steps),
        write_files=_files_to_write(settleable(wanted, problems), files),
        problems=problems | busy,
        added=record,
    )


def _obstacles(
    network: NodeNetwork, observed: LinkState, files: Mapping[str, bytes], added: Added
) -> tuple[Problem, ...]:
    if network.foreign:
        return management.obstacles(network, observed, files, added)
    return uplink_steps.obstacles(network, observed)


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


def carried_networks(
    observed: LinkState, files: Iterable[str] = (), added: Added = NOTHING
) -> frozenset[str]:
    """The cluster networks that the node has now, whatever is wanted: those with a bridge of ours.

    `mgmt`, whose bridge never is, counts if Lanloom has a profile or VLAN ids on it.
    """
    bridges = (link for link in observed.links.values() if link.ours and link.kind == "bridge")
    owners = (parse_profile_file(name) for name in files)
    guest = bool(added.bridge or added.uplink) or any(owner and owner[0] == MGMT for owner in owners)
    return frozenset((*(network_of_bridge(link.name) for link in bridges), *((MGMT,) if guest else ())))


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


def built(networks: Iterable[NodeNetwork], todo: Plan) -> tuple[Interface, ...]:
    """The interfaces on bridges that get their uplink by the plan, and with it another MAC address."""
    joined = {
        step.master
        for _, steps in todo.steps
        for step in steps
        if isinstance(step, SetMaster) and step.master
    }
    return tuple(item for network in networks if network.bridge in joined for item in network.interfaces)


def _files_to_write(
    interfaces: Iterable[Interface], files: Mapping[str, bytes]
) -> tuple[tuple[str, bytes], ...]:
    return tuple((item.file, item.content) for item in interfaces if files.get(item.file) != item.content)
