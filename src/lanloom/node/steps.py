"""Changes of a host as values: a plan is a tuple of steps, made by rules and applied by an adapter, in order.

Each step is idempotent: applying it to a host that already has its effect changes nothing and is no error, because an
agent may die after any step and plan again.

A step type stands alone. It has its words (`title`, `remedy`) and its guard here; the kernel's adapter is registered
with `lanloom.node.netlink.apply`, the one of the host in memory with `tests.fakes.apply`. A feature adds types of its
own in its own folder.

A link that is not Lanloom's (`node/ownership.py`) is changed only as far as the user named it: an uplink NIC may get a
master, an MTU and be set up. A bridge of others carries VLAN ids for Lanloom only if it is called as that of a cluster
network, as `mgmt-br` of the installer is, and the step is marked `foreign`.
"""

import errno
from collections.abc import Mapping
from typing import ClassVar

from lanloom.api.bonds import BOND_MODES, UNTUNED, BondSettings
from lanloom.api.names import BRIDGE_SUFFIX
from lanloom.node.errors import LinkError, LinkInUse, LinkMissing, NotOurs
from lanloom.node.linkvalues import check_mac, check_name
from lanloom.node.marks import UNFINISHED, describe_owner
from lanloom.node.ownership import ANY, is_made_by_plugin, is_ours
from lanloom.node.ports import Link, LinkStep, Route, Rule
from lanloom.node.vlanids import VlanIds, contains, render

LONGEST_QUEUE = (1 << 31) - 1
"""Packets of a transmit queue, at most: the kernel's number is signed in places."""

_COMPOSED_KINDS = frozenset({"bridge", "bond", "vlan", "vxlan", "team"})


class _MtuStep(LinkStep, frozen=True, kw_only=True):
    """A change that sets the MTU of a link, in bytes."""

    mtu: int

    def remedy(self, code: int) -> str:
        """Explain a refused MTU, else what every step explains."""
        if code == errno.EINVAL:
            return f"; check that the link can have an MTU of {self.mtu}"
        return LinkStep.remedy(self, code)


class EnsureBond(_MtuStep, frozen=True, kw_only=True):
    """A bond with Lanloom's mark, up. `miimon` in milliseconds, None for the kernel's default.

    `tx_queue_length` in packets, `mac` and each of the `settings` are left as they are where they are None and empty.
    The NICs of a bond have its `mtu` and, in most modes, its `mac`; the kernel forgets the `mac` when the last NIC is
    released. Some settings can only be changed while the bond is down, which it is for a moment then.
    """

    unsupported: ClassVar[str] = "this kernel has no bonding: load it with `modprobe bonding`"

    name: str
    mode: str
    miimon: int | None = None
    tx_queue_length: int | None = None
    mac: str = ""
    settings: BondSettings = UNTUNED

    @property
    def title(self) -> str:
        """Say that the bond can't be made."""
        return f"can't create the bond {self.name}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept only a new name or a bond of Lanloom's."""
        check_name(self.title, self.name)
        if self.mode not in BOND_MODES:
            raise LinkError(
                f"{self.title}: {self.mode!r} is not a mode of a bond; it is one of {', '.join(BOND_MODES)}"
            )
        check_mac(self.title, self.mac)
        if self.tx_queue_length is not None and not 0 <= self.tx_queue_length <= LONGEST_QUEUE:
            raise LinkError(
                f"{self.title}: a transmit queue of {self.tx_queue_length} packets can't be; "
                f"0 to {LONGEST_QUEUE} can"
            )
        _guard_existing(self.title, "bond", links, self.name)


class EnsureBridge(_MtuStep, frozen=True, kw_only=True):
    """A VLAN-filtering bridge with Lanloom's mark, up. Its `mtu` stays as it is set, whatever its ports have.

    A bridge of that name that CNI's `bridge` plugin created is marked, and stays the same one with its ports.
    """

    unsupported: ClassVar[str] = (
        "this kernel has no bridges that filter VLANs: load them with `modprobe bridge`, or take a kernel that has "
        "CONFIG_BRIDGE_VLAN_FILTERING"
    )

    name: str

    @property
    def title(self) -> str:
        """Say that the bridge can't be made."""
        return f"can't create the bridge {self.name}"

    @property
    def inspects(self) -> str:
        """Return the bridge itself, which may be the plugin's."""
        return self.name

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept only a new name, a bridge of Lanloom's, or one that CNI's plugin created."""
        check_name(self.title, self.name)
        link = links.get(self.name)
        if link is None or link.owner_uid or not is_made_by_plugin(link, links, filtering=True):
            _guard_existing(self.title, "bridge", links, self.name)


class SetMaster(LinkStep, frozen=True, kw_only=True):
    """Put `link` under `master` and up; an empty master releases it.

    A link that joins a bond is taken down first, because the kernel requires it. A VLAN link that a profile file of
    Lanloom's has `named` may be released by any master.
    """

    link: str
    master: str
    named: bool = False

    @property
    def title(self) -> str:
        """Say that the link can't join its master, or leave it."""
        return f"can't put {self.link} under {self.master}" if self.master else f"can't release {self.link}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a NIC that joins a link of Lanloom's; it may not leave another program's."""
        link = _present(self.title, self.link, links)
        mine = self.named and link.kind == "vlan"
        if link.master and link.master != self.master and not (mine or _has_mark(link.master, links)):
            raise NotOurs(
                f"{self.title}: it belongs to {link.master}, which Lanloom did not create; release it there first"
            )
        if link.kind == "bridge" and not is_ours(link):
            raise NotOurs(f"{self.title}: Lanloom did not create this bridge")
        if self.master:
            _present(self.title, self.master, links)
            if not _has_mark(self.master, links):
                raise NotOurs(f"{self.title}: Lanloom did not create {self.master}")


class SetMtu(_MtuStep, frozen=True, kw_only=True):
    """The MTU of a link, in bytes."""

    link: str

    @property
    def title(self) -> str:
        """Say that the MTU can't be set."""
        return f"can't set the MTU of {self.link} to {self.mtu}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Check that the link is a NIC, or has Lanloom's mark."""
        link = _present(self.title, self.link, links)
        if link.kind in _COMPOSED_KINDS and not is_ours(link):
            raise NotOurs(f"{self.title}: Lanloom did not create this {link.kind}")


class SetUp(LinkStep, frozen=True, kw_only=True):
    """Set a link up: a NIC, a link with Lanloom's mark, or a VLAN link that a profile file of Lanloom's has `named`.

    A VLAN link can't be set up while its parent is down; setting the parent up sets it up too.
    """

    link: str
    named: bool = False

    @property
    def title(self) -> str:
        """Say that the link can't be set up."""
        return f"can't set {self.link} up"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a NIC, and a link of Lanloom's."""
        link = _present(self.title, self.link, links)
        if link.kind in _COMPOSED_KINDS and not is_ours(link, {self.link: ANY} if self.named else {}):
            raise NotOurs(f"{self.title}: Lanloom did not create this {link.kind}")

    def remedy(self, code: int) -> str:
        """Explain that the parent is down, else what every step explains."""
        return "; set its parent up first" if code == errno.ENETDOWN else LinkStep.remedy(self, code)


class _SubInterfaceStep(LinkStep, frozen=True, kw_only=True):
    """A change of a VLAN link."""

    link: str

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a VLAN link that is there."""
        if _present(self.title, self.link, links).kind != "vlan":
            raise NotOurs(f"{self.title}: it is no VLAN link")


class RestoreRoutes(_SubInterfaceStep, frozen=True, kw_only=True):
    """Give a VLAN link routes and rules again that its profile asks for. What it has stays, also addresses of others.

    All are of one IP version. `source` is the link's own IPv4 address, without a prefix; `metric` is that of
    NetworkManager's routes on the link. A rule for the main table leaves out its default route.
    """

    source: str
    metric: int
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...] = ()

    @property
    def title(self) -> str:
        """Say that the routes can't be added."""
        routes = f"the routes to {', '.join(route.to for route in self.routes)}" if self.routes else "rules"
        return f"can't restore {routes} of {self.link}"


class RemoveAddress6(_SubInterfaceStep, frozen=True, kw_only=True):
    """Take an IPv6 address, a CIDR, from a VLAN link."""

    address: str

    @property
    def title(self) -> str:
        """Say that the address can't be removed."""
        return f"can't remove {self.address} from {self.link}"


class PromoteSecondaries(_SubInterfaceStep, frozen=True, kw_only=True):
    """Keep the other IPv4 addresses of a subnet on a VLAN link when the first of them is removed, from now on."""

    @property
    def title(self) -> str:
        """Say that the addresses can't be kept."""
        return f"can't keep addresses of other programs on {self.link}"


class _VlanStep(LinkStep, frozen=True, kw_only=True):
    """Tagged VLAN ids of a bridge port, or with `self_` of the bridge itself.

    With `foreign` also of a bridge that others made.
    """

    unsupported: ClassVar[str] = (
        "this kernel has no bridge VLAN filtering: take one that has CONFIG_BRIDGE_VLAN_FILTERING"
    )

    link: str
    ids: VlanIds
    self_: bool = False
    foreign: bool = False

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a bridge of Lanloom's or a port of one; with `foreign` also those of others."""
        if contains(self.ids, 1) or any(not 1 <= first <= last <= 4094 for first, last in self.ids):
            raise LinkError(f"{self.title}: ids are 2 to 4094; id 1 belongs to the bridge itself")
        link = _present(self.title, self.link, links)
        bridge = self.link if self.self_ else link.master
        if self.self_ and link.kind != "bridge":
            raise LinkError(f"{self.title}: it is not a bridge")
        if bridge not in links or links[bridge].kind != "bridge":
            raise LinkError(f"{self.title}: it is not a port of a bridge")
        if not (is_ours(links[bridge]) or (self.foreign and bridge.endswith(BRIDGE_SUFFIX))):
            raise NotOurs(f"{self.title}: Lanloom did not create the bridge {bridge}")


class AddVlans(_VlanStep, frozen=True, kw_only=True):
    """Add the VLAN ids."""

    @property
    def title(self) -> str:
        """Say that the VLAN ids can't be added."""
        return f"can't add the VLAN ids {render(self.ids)} to {self.link}"


class RemoveVlans(_VlanStep, frozen=True, kw_only=True):
    """Remove the VLAN ids. A missing link is no error."""

    @property
    def title(self) -> str:
        """Say that the VLAN ids can't be removed."""
        return f"can't remove the VLAN ids {render(self.ids)} from {self.link}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Check as for adding, but accept a missing link."""
        try:
            _VlanStep.guard(self, links)
        except LinkMissing:
            return


class DeleteLink(LinkStep, frozen=True, kw_only=True):
    """Delete a link with Lanloom's mark, or a half-made link with an owner; else raise NotOurs.

    With an `index`, also the VLAN link that has this index, because a profile file or record names it: a later link of
    the same name is another's. Raises LinkInUse while any link but those of `above` stands on the link, and would go
    with it. A missing link is no error.
    """

    name: str
    index: int = 0
    above: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Say that the link can't be deleted."""
        return f"can't delete {self.name}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a link of Lanloom's with nothing of others on it; reject every other."""
        link = links.get(self.name)
        if link is None:
            return
        if not (link.unfinished or is_ours(link, {self.name: self.index} if self.index else {})):
            if link.owner_uid:
                raise NotOurs(f"{self.title}: it belongs to {describe_owner(link.alias)}; delete that one")
            raise NotOurs(f"{self.title}: Lanloom did not create it; delete it yourself if it is not needed")
        for other in links.values():
            if other.parent == self.name != other.name and other.name not in self.above:
                raise LinkInUse(
                    f"{self.title}: {other.name} stands on it; stop what uses that, and remove it"
                )


class Mark(LinkStep, frozen=True, kw_only=True):
    """Put Lanloom's mark on a bridge or bond of others that was given to Lanloom. A marked one stays as it is."""

    link: str

    @property
    def title(self) -> str:
        """Say that the link can't be marked."""
        return f"can't put Lanloom's mark on {self.link}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a bridge or bond without an alias, which another program may go by."""
        link = _present(self.title, self.link, links)
        if link.kind not in ("bridge", "bond"):
            raise LinkError(f"{self.title}: it is neither a bridge nor a bond")
        if link.alias and not link.ours:
            raise NotOurs(f"{self.title}: its alias is {link.alias!r}")


class Unmark(LinkStep, frozen=True, kw_only=True):
    """Take Lanloom's mark off a link that another controller has taken over. One without the mark stays as it is."""

    link: str

    @property
    def title(self) -> str:
        """Say that the mark can't be taken off."""
        return f"can't take Lanloom's mark off {self.link}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Accept a bridge or bond; marks of owners stay."""
        link = _present(self.title, self.link, links)
        if link.alias and not link.ours:
            raise NotOurs(f"{self.title}: its alias is {link.alias!r}")


def _guard_existing(title: str, kind: str, links: Mapping[str, Link], name: str) -> None:
    """Check a link that may be there already: Lanloom's own of this kind may, and so may a half-made one."""
    link, half = links.get(name), links.get(UNFINISHED)
    if link is None:
        if half is not None and (half.kind not in ("bond", "bridge") or half.alias or half.up or half.master):
            raise NotOurs(f"{title}: Lanloom did not create the link {UNFINISHED}; rename or delete it")
        return
    if link.owner_uid:
        raise NotOurs(
            f"{title}: it belongs to {describe_owner(link.alias)}; delete that one first, or take another name"
        )
    if not is_ours(link):
        raise NotOurs(f"{title}: Lanloom did not create the link of this name; rename or delete it")
    if link.kind != kind:
        raise LinkError(f"{title}: a {link.kind or 'NIC'} of this name is there; delete it")


def _present(title: str, name: str, links: Mapping[str, Link]) -> Link:
    link = links.get(name)
    if link is None:
        raise LinkMissing(f"{title}: there is no link {name} on this host; check the name")
    return link


def _has_mark(name: str, links: Mapping[str, Link]) -> bool:
    return name in links and is_ours(links[name])
