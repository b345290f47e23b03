"""What a step may touch, judged before the kernel is asked: the adapter and the fake refuse alike, with the
same words.

A link without Lanloom's mark is changed only as far as the user named it: an uplink NIC may get a master, an
MTU and be set up. A VLAN link on a link of ours may be set up and deleted, as both would happen to it with its
parent. The one foreign bridge that carries VLAN ids for Lanloom is that of the cluster network
`mgmt`, made by the installer.

An isolated bridge has a mark of another kind, which names its owner: only steps for that owner touch it.
"""

import re
from collections.abc import Mapping

from lanloom.api.names import LINK_NAME_MAX, MGMT_BOND, MGMT_BRIDGE
from lanloom.api.uplinks import BOND_MODES
from lanloom.node.adoption import is_made_by_plugin
from lanloom.node.errors import LinkError, LinkInUse, LinkMissing, NotOurs
from lanloom.node.isolated import alias_of, is_owner, unfinished_name
from lanloom.node.ports import Link
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    EnsureIsolatedBridge,
    LinkStep,
    Port,
    RemoveIsolatedBridge,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)
from lanloom.node.vlanids import contains, render

LONGEST_QUEUE = (1 << 31) - 1
"""Packets of a transmit queue, at most: the kernel's number is signed in places."""

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_COMPOSED_KINDS = frozenset({"bridge", "bond", "vlan", "vxlan", "team"})


def describe(step: LinkStep) -> str:
    """What could not be done, as the beginning of an error's message."""
    match step:
        case EnsureBond():
            return f"can't make the bond {step.name}"
        case EnsureBridge() | EnsureIsolatedBridge():
            return f"can't make the bridge {step.name}"
        case SetMaster():
            return (
                f"can't put {step.link} under {step.master}" if step.master else f"can't release {step.link}"
            )
        case SetMtu():
            return f"can't set the MTU of {step.link} to {step.mtu}"
        case SetUp():
            return f"can't set {step.link} up"
        case AddVlans():
            return f"can't add the VLAN ids {render(step.ids)} to {step.link}"
        case RemoveVlans():
            return f"can't remove the VLAN ids {render(step.ids)} from {step.link}"
        case DeleteLink():
            return f"can't delete {step.name}"
        case RemoveIsolatedBridge():
            return f"can't remove the bridge {step.name}"


def guard(step: LinkStep, links: Mapping[str, Link]) -> None:
    """Raises LinkMissing, LinkInUse, NotOurs or LinkError where `step` can't or must not be applied to these links."""
    what = describe(step)
    match step:
        case EnsureBond() | EnsureBridge():
            _guard_ensure(step, links, what)
        case SetMaster():
            _guard_master(step, links, what)
        case AddVlans() | RemoveVlans():
            _guard_vlans(step, links, what)
        case DeleteLink():
            _guard_deletion(step, links, what)
        case SetMtu() | SetUp():
            _guard_setting(step, links, what)
        case EnsureIsolatedBridge():
            _guard_isolated(step, links, what)
            _guard_birth(step, links, what)
        case RemoveIsolatedBridge():
            _guard_isolated(step, links, what)
            if users := standing_on(step.name, links):
                raise LinkInUse(f"{what}: it has the ports {', '.join(users)}; stop what uses them")


def standing_on(bridge: str, links: Mapping[str, Link]) -> tuple[str, ...]:
    """The links that a bridge's end would leave without it: its ports, and those on top of it. Ordered."""
    users = (link.name for link in links.values() if bridge in (link.master, link.parent))
    return tuple(sorted(set(users) - {bridge}))


def lost_ports(step: EnsureIsolatedBridge, links: Mapping[str, Link]) -> tuple[Port, ...]:
    """The ports of the step that are there still, the same ones, and under nobody."""
    found = (links.get(port.name) for port in step.ports)
    free = {link.name: link.index for link in found if link is not None and not link.master}
    return tuple(port for port in step.ports if free.get(port.name) == port.index)


def _guard_deletion(step: DeleteLink, links: Mapping[str, Link], what: str) -> None:
    link = links.get(step.name)
    if link is None or link.ours or link.unfinished or _is_above_ours(link, links):
        return
    if link.isolated_owner:
        raise NotOurs(f"{what}: it belongs to {_network_of(link)}; delete that one")
    raise NotOurs(f"{what}: Lanloom did not make it; delete it yourself if it is not needed")


def _guard_setting(step: SetMtu | SetUp, links: Mapping[str, Link], what: str) -> None:
    link = _present(step.link, links, what)
    if link.kind not in _COMPOSED_KINDS or link.ours:
        return
    if isinstance(step, SetMtu) or not _is_above_ours(link, links):
        raise NotOurs(f"{what}: Lanloom did not make this {link.kind}")


def _is_above_ours(link: Link, links: Mapping[str, Link]) -> bool:
    """Whether it is a VLAN link of a link of ours, with which it would go anyway, or of the management bridge.

    There the rules tell Lanloom's VLAN links from the installer's, as they do with the ids.
    """
    if link.kind != "vlan" or link.parent not in links:
        return False
    return links[link.parent].ours or link.parent == MGMT_BRIDGE


def _present(name: str, links: Mapping[str, Link], what: str) -> Link:
    link = links.get(name)
    if link is None:
        raise LinkMissing(
            f"{what}: there is no link {name} on this host; check the name of the NIC in the VlanConfig"
        )
    return link


def _guard_ensure(step: EnsureBond | EnsureBridge, links: Mapping[str, Link], what: str) -> None:
    kind = "bond" if isinstance(step, EnsureBond) else "bridge"
    if not 0 < len(step.name) <= LINK_NAME_MAX:
        raise LinkError(f"{what}: a link's name has at most {LINK_NAME_MAX} characters")
    if isinstance(step, EnsureBond) and step.mode not in BOND_MODES:
        raise LinkError(
            f"{what}: {step.mode!r} is not a mode of a bond; it is one of {', '.join(BOND_MODES)}"
        )
    if isinstance(step, EnsureBond):
        _guard_attributes(step, what)
    link = links.get(step.name)
    if link is None:
        return
    if link.isolated_owner:
        raise NotOurs(
            f"{what}: it belongs to {_network_of(link)}; delete that one first, or take another name for the "
            "cluster network"
        )
    if not link.ours:
        raise NotOurs(f"{what}: Lanloom did not make the link of this name; rename or delete it")
    if link.kind != kind:
        raise LinkError(f"{what}: a {link.kind or 'NIC'} of this name is there; delete it")


def _guard_isolated(
    step: EnsureIsolatedBridge | RemoveIsolatedBridge, links: Mapping[str, Link], what: str
) -> None:
    """Raises LinkError for what can't be, NotOurs where a link of this name is not this owner's."""
    if not is_owner(step.owner):
        raise LinkError(
            f"{what}: {step.owner!r} is not a uid; that has letters, digits and dashes, at most 63"
        )
    if not 0 < len(step.name) <= LINK_NAME_MAX:
        raise LinkError(f"{what}: a link's name has at most {LINK_NAME_MAX} characters")
    if step.name in (MGMT_BRIDGE, MGMT_BOND):
        raise NotOurs(f"{what}: this name belongs to the installer; take another spec.bridgeName")
    link = links.get(step.name)
    if link is None or link.isolated_owner == step.owner:
        return
    if isinstance(step, EnsureIsolatedBridge) and _may_be_marked(step, link, links):
        return
    if link.isolated_owner:
        raise NotOurs(
            f"{what}: it belongs to {_network_of(link)}; delete that one first, or take another spec.bridgeName"
        )
    if link.ours:
        raise NotOurs(f"{what}: it belongs to a cluster network; take another spec.bridgeName")
    if link.kind == "bridge" and link.alias:
        raise NotOurs(
            f"{what}: Lanloom did not make the link of this name, or somebody changed its alias to {link.alias!r}; "
            f"rename or delete it, set its alias to {alias_of(step.owner)!r} if it was made for this network, or take "
            "another spec.bridgeName"
        )
    raise NotOurs(
        f"{what}: Lanloom did not make the link of this name; rename or delete it, or take another spec.bridgeName"
    )


def _may_be_marked(step: EnsureIsolatedBridge, link: Link, links: Mapping[str, Link]) -> bool:
    """Whether a link of this name without the owner's mark becomes the owner's bridge. Another's mark always holds."""
    if link.ours or link.isolated_owner or link.kind != "bridge":
        return False
    return link.index == step.known or is_made_by_plugin(link, links, step.gateway)


def _guard_birth(step: EnsureIsolatedBridge, links: Mapping[str, Link], what: str) -> None:
    half = links.get(unfinished_name(step.owner))
    if half is not None and not half.unfinished:
        raise NotOurs(
            f"{what}: Lanloom did not make the link {half.name}, which is in the way; rename or delete it"
        )


def _network_of(bridge: Link) -> str:
    return f"the DummyClusterNetwork with the uid {bridge.isolated_owner}"


def _guard_attributes(step: EnsureBond, what: str) -> None:
    if step.mac and not _is_unicast(step.mac):
        raise LinkError(f"{what}: {step.mac!r} is not the MAC address of a link, such as 02:00:00:00:00:01")
    if step.tx_queue_length is not None and not 0 <= step.tx_queue_length <= LONGEST_QUEUE:
        raise LinkError(
            f"{what}: a transmit queue of {step.tx_queue_length} packets can't be; 0 to {LONGEST_QUEUE} can"
        )


def _is_unicast(mac: str) -> bool:
    return _MAC.fullmatch(mac) is not None and mac != "00:00:00:00:00:00" and not int(mac[:2], 16) & 1


def _guard_master(step: SetMaster, links: Mapping[str, Link], what: str) -> None:
    link = _present(step.link, links, what)
    if link.master and link.master != step.master and not _ours(link.master, links):
        raise NotOurs(
            f"{what}: it belongs to {link.master}, which Lanloom did not make; release it there first"
        )
    if link.kind == "bridge" and not link.ours:
        raise NotOurs(f"{what}: Lanloom did not make this bridge")
    if step.master:
        _present(step.master, links, what)
        if not _ours(step.master, links):
            raise NotOurs(f"{what}: Lanloom did not make {step.master}")


def _ours(name: str, links: Mapping[str, Link]) -> bool:
    return name in links and links[name].ours


def _guard_vlans(step: AddVlans | RemoveVlans, links: Mapping[str, Link], what: str) -> None:
    if contains(step.ids, 1) or any(not 1 <= first <= last <= 4094 for first, last in step.ids):
        raise LinkError(f"{what}: ids are 2 to 4094; id 1 belongs to the bridge itself")
    if isinstance(step, RemoveVlans) and step.link not in links:
        return
    link = _present(step.link, links, what)
    bridge = step.link if step.self_ else link.master
    if step.self_ and link.kind != "bridge":
        raise LinkError(f"{what}: it is not a bridge")
    if bridge not in links or links[bridge].kind != "bridge":
        raise LinkError(f"{what}: it is not a port of a bridge")
    if bridge != MGMT_BRIDGE and not links[bridge].ours:
        raise NotOurs(f"{what}: Lanloom did not make the bridge {bridge}")
