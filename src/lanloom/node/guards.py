"""What a step may touch, judged before the kernel is asked: the adapter and the fake refuse alike, with the same words.

A link without Lanloom's mark is changed only as far as the user named it: an uplink NIC may get a master, an MTU and be
set up. The one foreign bridge that carries VLAN ids for Lanloom is that of the cluster network `mgmt`, made by the
installer.
"""

from collections.abc import Mapping

from lanloom.api.names import LINK_NAME_MAX, MGMT, bridge_name
from lanloom.node.errors import LinkError, LinkMissing, NotOurs
from lanloom.node.ports import Link
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    LinkStep,
    RemoveVlans,
    SetMaster,
)
from lanloom.node.vlanids import contains

MANAGEMENT_BRIDGE = bridge_name(MGMT)
_COMPOSED_KINDS = frozenset({"bridge", "bond", "vlan", "vxlan", "team"})


def guard(step: LinkStep, links: Mapping[str, Link]) -> None:
    """Raises LinkMissing, NotOurs or LinkError where `step` can't or must not be applied to these links."""
    match step:
        case EnsureBond() | EnsureBridge():
            _guard_ensure(step, links)
        case SetMaster():
            _guard_master(step, links)
        case AddVlans() | RemoveVlans():
            _guard_vlans(step, links)
        case DeleteLink():
            link = links.get(step.name)
            if link is not None and not link.ours:
                raise NotOurs(
                    f"won't delete {step.name}: Lanloom did not make it; delete it yourself if it is not needed"
                )
        case _:
            link = _present(step.link, links, f"can't change {step.link}")
            if link.kind in _COMPOSED_KINDS and not link.ours:
                raise NotOurs(f"won't change the {link.kind} {step.link}: Lanloom did not make it")


def _present(name: str, links: Mapping[str, Link], what: str) -> Link:
    link = links.get(name)
    if link is None:
        raise LinkMissing(
            f"{what}: there is no link {name} on this host; check the name of the NIC in the VlanConfig"
        )
    return link


def _guard_ensure(step: EnsureBond | EnsureBridge, links: Mapping[str, Link]) -> None:
    kind = "bond" if isinstance(step, EnsureBond) else "bridge"
    if not 0 < len(step.name) <= LINK_NAME_MAX:
        raise LinkError(
            f"can't make the {kind} {step.name}: a link's name has at most {LINK_NAME_MAX} characters"
        )
    link = links.get(step.name)
    if link is None:
        return
    if not link.ours:
        raise NotOurs(
            f"can't make the {kind} {step.name}: Lanloom did not make the link of this name; rename or delete it"
        )
    if link.kind != kind:
        raise LinkError(
            f"can't make the {kind} {step.name}: a {link.kind or 'NIC'} of this name is there; delete it"
        )


def _guard_master(step: SetMaster, links: Mapping[str, Link]) -> None:
    what = f"can't put {step.link} under {step.master}" if step.master else f"can't release {step.link}"
    link = _present(step.link, links, what)
    if link.master and link.master != step.master and not _ours(link.master, links):
        raise NotOurs(
            f"{what}: it belongs to {link.master}, which Lanloom did not make; release it there first"
        )
    if step.master:
        _present(step.master, links, what)
        if not _ours(step.master, links):
            raise NotOurs(f"{what}: Lanloom did not make {step.master}")


def _ours(name: str, links: Mapping[str, Link]) -> bool:
    return name in links and links[name].ours


def _guard_vlans(step: AddVlans | RemoveVlans, links: Mapping[str, Link]) -> None:
    verb = "add VLAN ids to" if isinstance(step, AddVlans) else "remove VLAN ids from"
    what = f"can't {verb} {step.link}"
    if contains(step.ids, 1) or any(not 1 <= first <= last <= 4094 for first, last in step.ids):
        raise LinkError(f"{what}: ids are 2 to 4094; id 1 belongs to the bridge itself")
    if isinstance(step, RemoveVlans) and step.link not in links:
        return
    link = _present(step.link, links, what)
    bridge = step.link if step.self_ else link.master
    if step.self_ and link.kind != "bridge":
        raise LinkError(f"{what} itself: it is not a bridge")
    if bridge not in links or links[bridge].kind != "bridge":
        raise LinkError(f"{what}: it is not a port of a bridge")
    if bridge != MANAGEMENT_BRIDGE and not links[bridge].ours:
        raise NotOurs(f"{what}: Lanloom did not make the bridge {bridge}")
