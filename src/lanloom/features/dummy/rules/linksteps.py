"""The link steps of isolated bridges: made, marked and removed for one owner, the uid of a DummyClusterNetwork.

Bridges without a mark that CNI's `bridge` plugin made are taken over. After a reboot nothing tells whether a pod or
the bridge reconciler starts first, and the plugin makes a bridge that it does not find. Such a bridge can't have a
mark, so it is recognized by all that the plugin leaves as it is and that others change: programs that make bridges for
themselves give them an address, spanning tree, an uplink or taps.

One that has no port any more, because its pods ended, is taken over as well: it would be in the way for ever, and
whoever else made it loses nothing by a mark. It is deleted only with the mark, and never with a port.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from lanloom.api.names import MGMT_BOND, MGMT_BRIDGE
from lanloom.node.errors import LinkError, LinkInUse, NotOurs
from lanloom.node.marks import (
    describe_owner,
    is_owner,
    register_family,
    unfinished_name,
)
from lanloom.node.ports import Link, LinkStep
from lanloom.node.steps import check_name

ISOLATED_MARK = register_family("lanloom-dummy", "DummyClusterNetwork")
"""What the ifalias of an isolated bridge begins with; its owner follows after a space."""


def alias_of(owner: str) -> str:
    """The ifalias of an owner's bridge."""
    return f"{ISOLATED_MARK} {owner}"


class Port(Struct, frozen=True):
    """A link that is or was a port of a bridge; another link of the same name has another index."""

    name: str
    index: int


class EnsureIsolatedBridge(LinkStep, frozen=True, kw_only=True):
    """A bridge marked as the isolated one of `owner` (a uid), up, without spanning tree.

    The host gets no IPv6 link-local address on it, and takes part in its IPv4 only with the bridge's own addresses;
    with a `gateway` (a CIDR, which CNI's plugin gives the bridge) it passes packets on. It filters no VLANs: nothing
    leaves it, whatever its tags, so there is nothing to keep apart; its guests may use VLANs of their own, and it
    works on kernels that can't filter.
    The MTU is left to the kernel, which takes the least of the ports'. What CNI's `bridge` plugin made under that name,
    perhaps with the address `gateway`, is marked and kept; so is the bridge with the index `known`, which was the
    owner's before somebody changed its mark. Raises NotOurs where another link of that name is there that is not that
    owner's.

    A bridge that is made gets those of `ports` that are there and under nobody: it is in the place of one that somebody
    deleted from under them.
    """

    unsupported: ClassVar[str] = "this kernel has no bridges: load them with `modprobe bridge`"

    name: str
    owner: str
    gateway: str = ""
    known: int = 0
    ports: tuple[Port, ...] = ()

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the bridge {self.name}"

    @property
    def inspects(self) -> str:
        """The bridge itself, which may be the plugin's."""
        return self.name

    def guard(self, links: Mapping[str, Link]) -> None:
        """The owner's bridge, one that becomes the owner's, or none; and no foreign link under the unfinished name."""
        check_owner(self.title, self.name, self.owner)
        link = links.get(self.name)
        if link is not None and not self._may_mark(link, links):
            check_mark(self.title, self.owner, link)
        half = links.get(unfinished_name(self.owner))
        if half is not None and not half.unfinished:
            raise NotOurs(
                f"{self.title}: Lanloom did not make the link {half.name}, which is in the way; rename or delete it"
            )

    def lost_ports(self, links: Mapping[str, Link]) -> tuple[Port, ...]:
        """The ports of the step that are there still, the same ones, and under nobody."""
        found = (links.get(port.name) for port in self.ports)
        free = {link.name: link.index for link in found if link is not None and not link.master}
        return tuple(port for port in self.ports if free.get(port.name) == port.index)

    def _may_mark(self, link: Link, links: Mapping[str, Link]) -> bool:
        """Whether a link without the owner's mark becomes the owner's bridge. Another's mark always holds."""
        if link.ours or link.owner_uid or link.kind != "bridge":
            return False
        return link.index == self.known or is_made_by_plugin(link, links, self.gateway)


class RemoveIsolatedBridge(LinkStep, frozen=True, kw_only=True):
    """Deletes the isolated bridge of that name and `owner`. A missing one is no error.

    Raises LinkInUse while anything is a port of it or stands on it, and NotOurs for a link that is not that owner's.
    """

    name: str
    owner: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't remove the bridge {self.name}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """As the class says."""
        check_owner(self.title, self.name, self.owner)
        link = links.get(self.name)
        if link is not None:
            check_mark(self.title, self.owner, link)
        if users := standing_on(self.name, links):
            raise LinkInUse(f"{self.title}: it has the ports {', '.join(users)}; stop what uses them")


def standing_on(bridge: str, links: Mapping[str, Link]) -> tuple[str, ...]:
    """The links that a bridge's end would leave without it: its ports, and those on top of it. Ordered."""
    users = (link.name for link in links.values() if bridge in (link.master, link.parent))
    return tuple(sorted(set(users) - {bridge}))


def is_made_by_plugin(link: Link, links: Mapping[str, Link], gateway: str) -> bool:
    """Whether CNI's plugin must have made `link`; `gateway` is the address (a CIDR) that it gives it, if any.

    A plugin that is asked for no VLAN leaves the kernel's defaults, but sets `accept_ra` to 0 (plugins/main/bridge of
    containernetworking/plugins). The ports are cables whose other ends are in pods' network namespaces.
    """
    plain = link.ignores_routers and not (link.vlan_filtering or link.spanning_tree)
    alone = not (link.alias or link.master or link.addresses6)
    return (
        plain
        and alone
        and set(link.addresses) <= {gateway}
        and not any(other.parent == link.name for other in links.values())
        and all(other.leads_away for other in links.values() if other.master == link.name)
    )


def check_owner(title: str, name: str, owner: str) -> None:
    """Raise LinkError for a name or an owner that can't be, NotOurs for a name of the installer's."""
    if not is_owner(owner):
        raise LinkError(f"{title}: {owner!r} is not a uid; that has letters, digits and dashes, at most 63")
    check_name(title, name)
    if name in (MGMT_BRIDGE, MGMT_BOND):
        raise NotOurs(f"{title}: this name belongs to the installer; take another spec.bridgeName")


def check_mark(title: str, owner: str, link: Link) -> None:
    """Raise NotOurs for a link without this owner's mark."""
    if link.owner_uid == owner:
        return
    if link.owner_uid:
        raise NotOurs(
            f"{title}: it belongs to {describe_owner(link.alias)}; delete that one first, or take another "
            "spec.bridgeName"
        )
    if link.ours:
        raise NotOurs(f"{title}: it belongs to a cluster network; take another spec.bridgeName")
    if link.kind == "bridge" and link.alias:
        raise NotOurs(
            f"{title}: Lanloom did not make the link of this name, or somebody changed its alias to {link.alias!r}; "
            f"rename or delete it, set its alias to {alias_of(owner)!r} if it was made for this network, or take "
            "another spec.bridgeName"
        )
    raise NotOurs(
        f"{title}: Lanloom did not make the link of this name; rename or delete it, or take another spec.bridgeName"
    )
