"""The cluster network `mgmt`: its bridge, uplink and management VLAN are the installer's, and Lanloom is a guest there.

Only VLAN ids are added to them, and only ids that Lanloom added are taken away again. The kernel does not tell who
added an id; so it is recorded, before it is added, as `Added`.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from lanloom.api.harvester import Management
from lanloom.api.l3 import VID_MAX, VID_MIN
from lanloom.api.names import MGMT, MGMT_BOND, MGMT_BRIDGE
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import AddVlans, LinkStep, RemoveVlans
from lanloom.node.vlanids import VlanIds, contains, merge, subtract, vlan_ids
from lanloom.vlan.rules.desired import management_vlan
from lanloom.vlan.rules.names import interface_name, parse_profile_file
from lanloom.vlan.rules.network import NodeNetwork, Problem, kept_ids


class Added(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Lanloom put on the installer's links since the host booted.

    VLAN ids on the bridge itself and on its uplink `port`, and the ids of the sub-interfaces that its profiles made.
    """

    bridge: VlanIds = ()
    uplink: VlanIds = ()
    port: str = ""
    interfaces: VlanIds = ()


NOTHING = Added()


def recorded(raw: bytes | None) -> Added:
    """The record of what was added; empty where there is none or it can't be read: then nothing is taken away."""
    try:
        found = msgspec.json.decode(raw or b"{}", type=Added)
    except (msgspec.DecodeError, RecursionError):
        return NOTHING
    return Added(
        bridge=_lawful(found.bridge),
        uplink=_lawful(found.uplink),
        port=found.port,
        interfaces=_lawful(found.interfaces),
    )


def _lawful(ids: VlanIds) -> VlanIds:
    return merge((first, last) for first, last in ids if VID_MIN <= first <= last <= VID_MAX)


def management(observed: LinkState, files: Iterable[str] = ()) -> Management | None:
    """The node's management network: the link of the default route, else what has an address on the bridge `mgmt-br`.

    `files` are the names of Lanloom's profiles, whose sub-interfaces are never it. None where nothing tells.
    """
    ours = {interface_name(*owner) for name in files if (owner := parse_profile_file(name)) is not None}
    addressed = sorted(
        (link for link in observed.links.values() if link.addresses and link.name not in ours),
        key=lambda link: link.index,
    )
    on_bridge = [link for link in addressed if MGMT_BRIDGE in (link.name, link.parent)]
    routed = [link for link in addressed if link.name in observed.default_route_links]
    candidates = [link for link in on_bridge if link in routed] or on_bridge or routed
    if not candidates:
        return None
    link = candidates[0]
    return Management(vlan_id=link.vlan_id, interface=link.name, cidr=link.addresses[0])


def uplink_port(observed: LinkState) -> Link | None:
    """The port of `mgmt-br` that leads out of the node: `mgmt-bo`, else its only bond, else its only NIC.

    None where there is no such port or more than one. A NIC of a lab is a veth, as those of pods are.
    """
    ports = [link for link in observed.links.values() if link.master == MGMT_BRIDGE]
    tiers = (
        [link for link in ports if link.name == MGMT_BOND],
        [link for link in ports if link.kind == "bond"],
        [link for link in ports if not link.kind],
        [link for link in ports if link.kind == "veth"],
    )
    found = next((tier for tier in tiers if tier), [])
    return found[0] if len(found) == 1 else None


def obstacles(
    network: NodeNetwork, observed: LinkState, files: Iterable[str], added: Added
) -> tuple[Problem, ...]:
    """What forbids to add VLANs to the installer's links (`keep`), or a single one of them (`vid`)."""
    if MGMT_BRIDGE not in observed.links:
        message = f"this node has no bridge {MGMT_BRIDGE}, which its installer makes; node addresses on mgmt need it"
        return (Problem(vid=0, network=MGMT_BRIDGE, reason="UplinkMissing", message=message, keep=True),)
    if uplink_port(observed) is None:
        message = f"the uplink of {MGMT_BRIDGE} can't be told: it has no port {MGMT_BOND} and not just one bond or NIC"
        return (Problem(vid=0, network=MGMT_BRIDGE, reason="UplinkMissing", message=message, keep=True),)
    own = set(files)
    reserved = _management_ids(observed, own)
    problems: list[Problem] = []
    for item in network.interfaces:
        if item.vid in reserved:
            problems.append(management_vlan(item.vid, item.network, item.mode))
        elif item.name in observed.links and not (item.file in own or contains(added.interfaces, item.vid)):
            message = f"the link {item.name} exists and was not made by Lanloom; remove it or choose another VLAN id"
            problems.append(Problem(vid=item.vid, network=item.name, reason="ForeignLink", message=message))
    return tuple(problems)


def guest_steps(
    network: NodeNetwork | None,
    unusable: frozenset[int],
    observed: LinkState,
    files: Iterable[str],
    added: Added,
) -> tuple[tuple[LinkStep, ...], Added]:
    """The steps on the installer's links, and what is to be recorded before they run.

    `network` is None where nothing is wanted of mgmt; `unusable` are VLAN ids that an obstacle forbids.
    """
    bridge, port = observed.links.get(MGMT_BRIDGE), uplink_port(observed)
    if bridge is None:
        return (), NOTHING
    protected = vlan_ids((1, *_management_ids(observed, files)))
    kept = kept_ids(network) if network is not None else frozenset[int]()
    kept = None if kept is None else kept | set(_management_ids(observed, files))
    wants = subtract(network.bridge_ids, (*protected, *vlan_ids(unusable))) if network is not None else ()
    mine = _intersect(added.bridge, bridge.self_vlans)
    steps, on_bridge = _id_steps(MGMT_BRIDGE, bridge.self_vlans, wants, mine, kept, self_=True)
    on_uplink: VlanIds = ()
    if port is not None:
        wants = subtract(network.uplink_ids, protected) if network is not None else ()
        mine = _intersect(added.uplink, port.vlans) if added.port == port.name else ()
        more, on_uplink = _id_steps(port.name, port.vlans, wants, mine, kept, self_=False)
        steps = (*more, *steps)
    name = port.name if port is not None else ""
    return steps, Added(
        bridge=on_bridge,
        uplink=on_uplink,
        port=name if on_uplink else "",
        interfaces=_interfaces(network, unusable, observed, added),
    )


def _management_ids(observed: LinkState, files: Iterable[str]) -> tuple[int, ...]:
    present = management(observed, files)
    return (present.vlan_id,) if present is not None and present.vlan_id else ()


def _id_steps(
    link: str, has: VlanIds, wants: VlanIds, mine: VlanIds, kept: frozenset[int] | None, *, self_: bool
) -> tuple[tuple[LinkStep, ...], VlanIds]:
    steps: list[LinkStep] = []
    if missing := subtract(wants, has):
        steps.append(AddVlans(link=link, ids=missing, self_=self_))
    surplus = subtract(mine, wants)
    if kept is not None and (surplus := subtract(surplus, vlan_ids(kept))):
        steps.append(RemoveVlans(link=link, ids=surplus, self_=self_))
    return tuple(steps), merge((*mine, *missing))


def _interfaces(
    network: NodeNetwork | None, unusable: frozenset[int], observed: LinkState, added: Added
) -> VlanIds:
    """The sub-interfaces that are Lanloom's: those that it is about to have made, and those that are still there."""
    wanted = {item.vid for item in network.interfaces} - unusable if network is not None else set()
    there = {
        link.vlan_id
        for link in observed.links.values()
        if link.parent == MGMT_BRIDGE and link.name == interface_name(MGMT, link.vlan_id)
    }
    return merge((*_intersect(added.interfaces, vlan_ids(there)), *vlan_ids(wanted)))


def _intersect(left: VlanIds, right: VlanIds) -> VlanIds:
    return subtract(left, subtract(left, right))
