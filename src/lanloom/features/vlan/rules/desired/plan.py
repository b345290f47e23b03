"""From what a node has to what it should have: only the difference, in an order that is safe to stop anywhere.

Profiles that go are removed first (NetworkManager then removes the sub-interface), links change next, and new profiles
are written last, when their bridge is there. Links with Lanloom's mark and sub-interfaces of its profiles that no
network needs are orphans, and go as well.

A plan although nothing else is wanted than before is drift: changes of others. Each is a sentence for an operator, and
a kind for a counter.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.bonds import render_value
from lanloom.api.linknames import interface_name
from lanloom.api.names import MGMT, bridge_name
from lanloom.features.vlan.rules.desired import foreign, uplink
from lanloom.features.vlan.rules.desired.adoption import adopt
from lanloom.features.vlan.rules.desired.names import (
    network_of_bridge,
    network_of_link,
    network_of_profile,
    parse_profile_file,
    profile_file,
)
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork, Problem, blocked, kept_ids
from lanloom.features.vlan.rules.desired.owned import (
    NOTHING,
    Added,
    Additions,
    held_ids,
    links_to_record,
    named_links,
    removing,
    unfinished,
    untold,
)
from lanloom.node.ownership import UNNAMED, Named, is_ours, strangers_above
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)
from lanloom.node.vlanids import VlanIds, render


class Plan(Struct, frozen=True, kw_only=True):
    """The changes to make, in the order of the fields.

    `steps` come in groups by cluster network (what has the mark but no name of ours is in "", the last), so that one
    that fails does not hold up the others, and is reported. `problems` maps cluster networks to what stood in the way
    of a plan. `forget` are profiles without a file whose sub-interface is still there: NetworkManager does not know of
    the removal, or it was restarted meanwhile and knows the sub-interface no longer, which is why that is deleted after
    it was informed. `added` is what will be Lanloom's on links of others: it is to be recorded before the steps run,
    and also where the plan is empty.
    """

    remove_files: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    steps: tuple[tuple[str, tuple[LinkStep, ...]], ...] = ()
    write_files: tuple[tuple[str, bytes], ...] = ()
    problems: dict[str, tuple[Problem, ...]] = {}
    added: dict[str, Added] = {}

    @property
    def empty(self) -> bool:
        """Whether the node already is as it should be."""
        return not (self.remove_files or self.forget or self.steps or self.write_files)


def plan(
    wanted: tuple[NodeNetwork, ...],
    observed: LinkState,
    files: Mapping[str, bytes],
    added: Additions | None = None,
    *,
    seen: Set[str] = frozenset(),
    tidy: bool = True,
) -> Plan:
    """Return the difference between what is wanted and what the kernel and the profile directory have.

    `added` is the record of what Lanloom put on links of others. Bridges and bonds that nothing wants go if `tidy`.
    `seen` are the profiles that were there after the last plan: one of them that another program removed meanwhile
    names a wanted link still, which NetworkManager may have made again before.
    """
    added = added or {}
    removed = seen & {item.file for network in wanted for item in network.interfaces}
    adopted = adopt(wanted, observed, named_links({*files, *removed}, added))
    observed, named, groups = adopted.observed, adopted.named, adopted.steps
    problems = {}
    for network in wanted:
        name = network.cluster_network
        found = _problems_of(network, observed, named)
        if found:
            problems[name] = found
        if not (network.foreign or blocked(found)):
            steps = uplink.build_steps(network, observed, found, held_ids(name, observed, named))
            groups[name] = (*groups.get(name, ()), *steps)
    foreign_groups, record = _recorded(wanted, observed, files, added, named, problems)
    groups |= foreign_groups
    orphaned = orphans(wanted, observed, files, named)
    deletions, busy = orphan_steps(wanted, observed, named) if tidy else ({}, {})
    for link in orphaned:
        name = network_of_bridge(link.parent)
        groups[name] = (*groups.get(name, ()), DeleteLink(name=link.name, index=link.index))
    for name, steps in deletions.items():
        groups[name] = (*groups.get(name, ()), *steps)
    remove_files = _files_to_remove(wanted, files)
    begun = tuple(file for file in unfinished(added) if file not in files)
    left = tuple(profile_of(link, observed) for link in orphaned)
    return Plan(
        remove_files=remove_files,
        forget=tuple(dict.fromkeys((*begun, *left, *untold(added, record, observed, files)))),
        steps=tuple((name, steps) for name, steps in groups.items() if steps),
        write_files=_files_to_write(settleable(wanted, problems), files),
        problems=problems | busy,
        added=removing(record, dict.fromkeys((*remove_files, *begun, *left))),
    )


def _recorded(
    wanted: tuple[NodeNetwork, ...],
    observed: LinkState,
    files: Mapping[str, bytes],
    added: Additions,
    named: Named,
    problems: Mapping[str, tuple[Problem, ...]],
) -> tuple[dict[str, tuple[LinkStep, ...]], dict[str, Added]]:
    """Return the steps on links of others, by cluster network, and what is to be recorded before all steps."""
    networks = {network.cluster_network: network for network in wanted}
    owners = {network_of_profile(file) for file in files} - {""}
    groups: dict[str, tuple[LinkStep, ...]] = {}
    record: dict[str, Added] = {}
    for name in sorted(added.keys() | networks.keys() | owners):
        network, after = networks.get(name), added.get(name, NOTHING)
        bridge = observed.links.get(bridge_name(name))
        if bridge is None and (network is None or network.foreign):
            continue  # what was on it went with it
        stuck = blocked(problems.get(name, ()))
        unusable = frozenset(item.vid for item in problems.get(name, ()))
        links = links_to_record(name, None if stuck else network, unusable, observed, named)
        if stuck:
            after = replace(after, links=links)
        elif network.foreign if network is not None else bridge is not None and not is_ours(bridge):
            groups[name], after = foreign.foreign_steps(
                name, network, unusable, observed, files, after, named
            )
            after = replace(after, links=links)
        else:
            after = Added(links=links)
        if after != NOTHING:
            record[name] = after
    return groups, record


def _problems_of(network: NodeNetwork, observed: LinkState, named: Named) -> tuple[Problem, ...]:
    if network.foreign:
        return foreign.problems_of(network, observed, named)
    return uplink.problems_of(network, observed, named)


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
    observed: LinkState, files: Iterable[str] = (), added: Additions | None = None
) -> frozenset[str]:
    """Return the cluster networks that the node has now, whatever is wanted: those with a bridge of ours.

    One whose bridge others made, as they did that of `mgmt`, counts if Lanloom has a profile or VLAN ids on it.
    """
    bridges = {
        network_of_bridge(link.name)
        for link in observed.links.values()
        if link.kind == "bridge" and is_ours(link)
    }
    on_foreign = {name for name, item in (added or {}).items() if item.bridge or item.uplink}
    owners = {owner[0] for name in files if (owner := parse_profile_file(name))}
    on_foreign |= {name for name in owners if name == MGMT or bridge_name(name) in observed.links}
    return frozenset(bridges | on_foreign)


def settleable(
    wanted: Iterable[NodeNetwork], problems: Mapping[str, tuple[Problem, ...]]
) -> tuple[Interface, ...]:
    """Return the interfaces that nothing stands in the way of; `problems` by cluster network."""
    return tuple(
        item
        for network in wanted
        if not blocked(found := problems.get(network.cluster_network, ()))
        for item in network.interfaces
        if not any(problem.vid == item.vid for problem in found)
    )


def built(networks: Iterable[NodeNetwork], todo: Plan) -> tuple[Interface, ...]:
    """Return the interfaces on bridges that get their uplink by the plan, and with it another MAC address."""
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


def orphans(
    wanted: tuple[NodeNetwork, ...], observed: LinkState, files: Mapping[str, bytes], named: Named
) -> tuple[Link, ...]:
    """Sub-interfaces of ours, of the name that a profile of ours gives, without such a profile."""
    frozen = {network.cluster_network: kept_ids(network) for network in wanted}
    keep = {item.name for network in wanted for item in network.interfaces}
    found = []
    for name, link in sorted(observed.links.items()):
        if link.kind != "vlan" or name in keep or link.parent not in observed.links:
            continue
        if not is_ours(link, named):
            continue
        cluster_network = network_of_bridge(link.parent)
        kept = frozen.get(cluster_network, frozenset())
        lawful = name == interface_name(cluster_network, link.vlan_id)
        missing = profile_file(cluster_network, link.vlan_id) not in files
        if lawful and missing and kept is not None and link.vlan_id not in kept:
            found.append(link)
    return tuple(found)


def profile_of(sub_interface: Link, observed: LinkState) -> str:
    """Return the file of the profile that made a sub-interface."""
    parent = observed.links[sub_interface.parent]
    return profile_file(network_of_bridge(parent.name), sub_interface.vlan_id)


def orphan_steps(
    wanted: tuple[NodeNetwork, ...], observed: LinkState, named: Named = UNNAMED
) -> tuple[dict[str, tuple[LinkStep, ...]], dict[str, tuple[Problem, ...]]]:
    """Return the steps for links of ours that nothing wants any more, by cluster network. One that another program
    still uses stays.
    """
    needed = {name for network in wanted for name in (network.bridge, network.bond)}
    orphans = [
        link
        for name, link in sorted(observed.links.items())
        if is_ours(link) and link.kind != "vlan" and name not in needed
    ]
    gone = {link.name for link in orphans}
    steps: dict[str, tuple[LinkStep, ...]] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for link in sorted(orphans, key=lambda link: link.kind != "bridge"):
        name = network_of_link(link.name)
        users = {*(_ports(link, observed) - gone), *strangers_above(link.name, observed.links, named)}
        if users:
            message = (
                f"the {link.kind} {link.name} is no longer needed but {min(users)} uses it; stop its users"
            )
            problem = Problem(vid=0, network=link.name, reason="BridgeInUse", message=message, keep=True)
            problems[network_of_bridge(link.name)] = (problem,)
        else:
            above = tuple(sorted(item.name for item in observed.links.values() if item.parent == link.name))
            steps[name] = (*steps.get(name, ()), DeleteLink(name=link.name, above=above))
    return steps, problems


def _ports(link: Link, observed: LinkState) -> set[str]:
    if link.kind != "bridge":
        return set()
    return {name for name, port in observed.links.items() if port.master == link.name}


DriftKind = Literal["link", "vlan-id", "profile", "address", "route"]


class Drift(Struct, frozen=True):
    """One thing that was not as it had been left: a sentence without a full stop, of a cluster network."""

    cluster_network: str
    kind: DriftKind
    text: str


def drift(
    networks: Iterable[str], todo: Plan, observed: LinkState, files: Iterable[str] = ()
) -> tuple[Drift, ...]:
    """Return the drift that the plan repairs on these cluster networks, whose desired state has not changed.

    `observed` and `files` are what the plan was made from: a profile that is among `files` was edited, another removed.
    """
    names, present = set(networks), set(files)
    found = [
        Drift(name, kind, text)
        for name, steps in todo.steps
        if name in names
        for step in steps
        for kind, text in _described(step, observed)
    ]
    profiles = [(file, "edited" if file in present else "removed") for file, _ in todo.write_files]
    profiles += [(file, "added") for file in todo.remove_files]
    found += [
        Drift(name, "profile", f"the profile {file} was {what}")
        for file, what in profiles
        if (name := network_of_profile(file)) in names
    ]
    return tuple(found)


def _described(step: LinkStep, observed: LinkState) -> Iterator[tuple[DriftKind, str]]:
    match step:
        case EnsureBond() | EnsureBridge():
            yield from (("link", text) for text in _built(step, observed.links.get(step.name)))
        case SetMaster():
            yield "link", _membership(step, observed.links.get(step.link))
        case SetMtu():
            link = observed.links.get(step.link)
            yield "link", f"{step.link} had the MTU {link.mtu if link else 0} instead of {step.mtu}"
        case SetUp():
            yield "link", f"{step.link} was down"
        case AddVlans():
            yield "vlan-id", f"{_ids(step.ids)} missing on {step.link}"
        case RemoveVlans():
            yield "vlan-id", f"{_ids(step.ids)} added to {step.link}"
        case DeleteLink():
            yield "link", f"{step.name} was added"


def _built(step: EnsureBond | EnsureBridge, link: Link | None) -> list[str]:
    kind = "bond" if isinstance(step, EnsureBond) else "bridge"
    if link is None:
        return [f"the {kind} {step.name} was gone"]
    texts = [] if link.up else [f"the {kind} {step.name} was down"]
    if link.mtu != step.mtu:
        texts.append(f"the {kind} {step.name} had the MTU {link.mtu} instead of {step.mtu}")
    if isinstance(step, EnsureBridge):
        if not is_ours(link):
            texts.append(f"the bridge {step.name} was made by a CNI plugin")
        return texts + ([] if link.vlan_filtering else [f"VLAN filtering of the bridge {step.name} was off"])
    if link.bond_mode != step.mode:
        texts.append(f"the bond {step.name} had the mode {link.bond_mode} instead of {step.mode}")
    if step.miimon not in (None, link.bond_miimon):
        texts.append(f"the bond {step.name} had the miimon {link.bond_miimon} instead of {step.miimon}")
    for name, value in step.settings.differing(link.bond_settings).items():
        has = render_value(getattr(link.bond_settings, name)) or "none"
        texts.append(f"the bond {step.name} had the {name} {has} instead of {render_value(value)}")
    if step.tx_queue_length not in (None, link.tx_queue_length):
        length = f"{link.tx_queue_length} packets instead of {step.tx_queue_length}"
        texts.append(f"the queue of the bond {step.name} took {length}")
    if step.mac not in ("", link.mac):
        texts.append(f"the bond {step.name} had the MAC address {link.mac} instead of {step.mac}")
    return texts


def _membership(step: SetMaster, link: Link | None) -> str:
    if not step.master:
        return f"{step.link} was put into {link.master if link is not None else 'a bond'}"
    return f"{step.link} was not in {step.master}"


def _ids(ids: VlanIds) -> str:
    single = len(ids) == 1 and ids[0][0] == ids[0][1]
    return f"VLAN id {render(ids)} was" if single else f"VLAN ids {render(ids)} were"
