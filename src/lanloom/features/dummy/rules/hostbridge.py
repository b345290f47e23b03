"""Isolated bridges on a host: the steps with their guards, and which steps the observed links need.

A step refuses what is not the network's own (`node/steps.py`); `agent/links.py` applies it to the kernel.
"""

import errno
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Interface
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.dummy import DummyClusterNetwork
from lanloom.api.names import MGMT_BOND, MGMT_BRIDGE
from lanloom.node.errors import LinkError, LinkInUse, NotOurs
from lanloom.node.linkvalues import check_name
from lanloom.node.marks import (
    describe_owner,
    is_owner,
    register_isolated,
    unfinished_name,
)
from lanloom.node.ownership import is_made_by_plugin, is_ours
from lanloom.node.ports import IngressRule, Link, LinkState, LinkStep
from lanloom.node.steps import DeleteLink

ISOLATED_MARK = register_isolated("DummyClusterNetwork")
"""What the ifalias of an isolated bridge begins with; its owner follows after a space."""


def alias_of(owner: str) -> str:
    """Return the ifalias of an owner's bridge."""
    return f"{ISOLATED_MARK} {owner}"


LINK_LOCAL = "fe80::1/64"
"""The link-local address of a gateway of IPv6. To forward a packet, Linux asks for the hardware address of its receiver
only from such an address (ndisc_send_ns). It is the same on all nodes, as the gateway is."""


def _is_ipv4(cidr: str) -> bool:
    return ":" not in cidr


class Port(Struct, frozen=True):
    """A link that is or was a port of a bridge; another link of the same name has another index."""

    name: str
    index: int


class EnsureIsolatedBridge(LinkStep, frozen=True, kw_only=True):
    """A bridge marked as the isolated one of `owner` (a uid), up, without spanning tree.

    The host gets no IPv6 link-local address on it, and uses IPv4 on it only with the bridge's own addresses. With
    `gateways` (CIDRs, at most one of each IP version), the bridge has these addresses, and the host forwards packets of
    IPv4. Those of IPv6 are forwarded by the host as a whole or not at all, and `ingress` tells which of them. Addresses
    that were given to the bridge before, for other gateways, are removed; those of other programs stay.

    The bridge filters no VLANs: no frame leaves it, whatever its tags, so there is nothing to separate. Guests may use
    VLANs of their own, and the bridge works on kernels that can't filter. The kernel sets the MTU to the smallest of
    the ports.

    A bridge of that name that CNI's `bridge` plugin created, perhaps with addresses of `gateways`, is marked and kept.
    So is the bridge with the index `known`, which was the owner's before another program changed its mark. Raises
    NotOurs for any other link of that name that is not that owner's.

    A new bridge gets those of `ports` that still exist without a master: it replaces a bridge that was deleted while it
    had ports. Before, the host ignores routers there again, if the process may set that. A bridge without ports is left
    as the kernel makes it: `accept_ra` 0 is a sign of CNI's plugin.
    """

    unsupported: ClassVar[str] = "this kernel has no bridge support: load it with `modprobe bridge`"

    name: str
    owner: str
    gateways: tuple[str, ...] = ()
    known: int = 0
    ports: tuple[Port, ...] = ()

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't create the bridge {self.name}"

    @property
    def forwards_ipv4(self) -> bool:
        """Whether the host forwards IPv4 packets that come in by the bridge."""
        return any(map(_is_ipv4, self.gateways))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that the bridge has to have, as CIDRs."""
        six = not all(map(_is_ipv4, self.gateways))
        return (*self.gateways, LINK_LOCAL) if six else self.gateways

    @property
    def ingress(self) -> frozenset[IngressRule]:
        """The rules by which the host routes packets of guests only from the subnet of its gateway of IPv6."""
        sources = (str(IPv6Interface(each).network) for each in self.gateways if not _is_ipv4(each))
        return frozenset({IngressRule(self.name), *(IngressRule(self.name, each) for each in sources)})

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        # The kernel says that IPv6 is disabled on the bridge.
        if code == errno.EACCES and LINK_LOCAL in self.addresses:
            return f"; run `sysctl -w net.ipv6.conf.{self.name}.disable_ipv6=0` on the node"
        return super().remedy(code)

    @property
    def inspects(self) -> str:
        """The bridge itself, which may be the plugin's."""
        return self.name

    def guard(self, links: Mapping[str, Link]) -> None:
        """Check that there is the owner's bridge, one that becomes it, or none.

        No foreign link has the unfinished name.
        """
        check_owner(self.title, self.name, self.owner)
        link = links.get(self.name)
        if link is not None and not self._may_mark(link, links):
            check_mark(self.title, self.owner, link)
        half = links.get(unfinished_name(self.owner))
        if half is not None and not half.unfinished:
            raise NotOurs(
                f"{self.title}: the link {half.name} exists, and Lanloom did not create it; rename or delete it"
            )

    def lost_ports(self, links: Mapping[str, Link]) -> tuple[Port, ...]:
        """Return the ports of the step that are there still, the same ones, and without a master."""
        found = (links.get(port.name) for port in self.ports)
        free = {link.name: link.index for link in found if link is not None and not link.master}
        return tuple(port for port in self.ports if free.get(port.name) == port.index)

    def _may_mark(self, link: Link, links: Mapping[str, Link]) -> bool:
        """Return whether a link without the owner's mark becomes the owner's bridge. Another's mark always holds."""
        if is_ours(link) or link.owner_uid or link.kind != "bridge":
            return False
        return link.index == self.known or is_made_by_plugin(link, links, addresses=self.gateways)


class RemoveIsolatedBridge(LinkStep, frozen=True, kw_only=True):
    """Delete the isolated bridge of that name and `owner`, and its routing rules. A missing bridge is no error.

    Raises LinkInUse while any link is a port of it or is on top of it, and NotOurs for a link of another owner.
    """

    name: str
    owner: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't remove the bridge {self.name}"

    def guard(self, links: Mapping[str, Link]) -> None:
        """Implement the base class."""
        check_owner(self.title, self.name, self.owner)
        link = links.get(self.name)
        if link is not None:
            check_mark(self.title, self.owner, link)
        if users := standing_on(self.name, links):
            raise LinkInUse(f"{self.title}: it has the ports {', '.join(users)}; stop what uses them")


def standing_on(bridge: str, links: Mapping[str, Link]) -> tuple[str, ...]:
    """Return the links that lose a bridge when it is deleted: its ports, and links on top of it, in order."""
    users = (link.name for link in links.values() if bridge in (link.master, link.parent))
    return tuple(sorted(set(users) - {bridge}))


def check_owner(title: str, name: str, owner: str) -> None:
    """Raise LinkError for an invalid name or owner, NotOurs for a name of the installer's."""
    if not is_owner(owner):
        raise LinkError(f"{title}: {owner!r} is not a uid; a uid has at most 63 letters, digits and dashes")
    check_name(title, name)
    if name in (MGMT_BRIDGE, MGMT_BOND):
        raise NotOurs(f"{title}: this name belongs to the installer; choose another spec.bridgeName")


def check_mark(title: str, owner: str, link: Link) -> None:
    """Raise NotOurs for a link without this owner's mark."""
    if is_ours(link, owner=owner):
        return
    if link.owner_uid:
        raise NotOurs(
            f"{title}: it belongs to {describe_owner(link.alias)}; delete that one first, or choose another "
            "spec.bridgeName"
        )
    if is_ours(link):
        raise NotOurs(f"{title}: it belongs to a cluster network; choose another spec.bridgeName")
    if link.kind == "bridge" and link.alias:
        raise NotOurs(
            f"{title}: Lanloom did not create the link of this name, or its alias was changed to {link.alias!r}; "
            f"rename or delete it, set its alias to {alias_of(owner)!r} if it was created for this network, or choose "
            "another spec.bridgeName"
        )
    raise NotOurs(
        f"{title}: Lanloom did not create the link of this name; rename or delete it, or choose another spec.bridgeName"
    )


State = Literal["present", "absent"]

FOREIGN_SECONDS = 10.0
"""How long a link that is in the way, or a kernel that refuses, is borne: what is left of a network of the same name is
swept away meanwhile."""

PORTS_SECONDS = 60.0
"""How long ports are borne on a bridge that is to go: a pod that ends may take a while."""


class Assignment(Struct, frozen=True, kw_only=True):
    """The bridge `bridge` of `owner`, a uid: it should exist, or no bridge of that owner should.

    `gateways` are the addresses (CIDRs) of the bridge, if the network has gateways.
    `known` is the index of the bridge that had the owner's mark when it was last observed, 0 for none; `ports` are its
    ports then.
    """

    bridge: str
    owner: str
    state: State
    gateways: tuple[str, ...] = ()
    known: int = 0
    ports: tuple[Port, ...] = ()

    @property
    def making(self) -> EnsureIsolatedBridge:
        """Return the step that creates the bridge, or takes it over."""
        return EnsureIsolatedBridge(
            name=self.bridge, owner=self.owner, gateways=self.gateways, known=self.known, ports=self.ports
        )


class Verdict(Struct, frozen=True, kw_only=True):
    """The state of the links: all is as it should be, or the steps that are due now, or the problem.

    A `fault` is a complete message, and is accepted for `patience` seconds.
    """

    ready: bool = False
    steps: tuple[LinkStep, ...] = ()
    fault: str = ""
    patience: float = FOREIGN_SECONDS


def remembering(task: Assignment, links: Mapping[str, Link]) -> Assignment:
    """Return the assignment for the next observation: the owner's bridge stays known, whatever happens to its mark.

    Only a process that observed the mark on a bridge knows this. For others, a bridge without it has another owner. The
    ports of a removed bridge are known only to that process, too.
    """
    link = links.get(task.bridge)
    if link is None:
        return replace(task, known=0)
    if not is_ours(link, owner=task.owner):
        return task
    ports = tuple(Port(port.name, port.index) for port in links.values() if port.master == task.bridge)
    return replace(task, known=link.index, ports=ports)


def evaluate(task: Assignment, host: LinkState) -> Verdict:
    """Return the verdict on a host in this state."""
    return _present(task, host) if task.state == "present" else _absent(task, host)


def _present(task: Assignment, host: LinkState) -> Verdict:
    making, link = task.making, host.links.get(task.bridge)
    if fault := _fault(making, host.links):
        return Verdict(fault=fault)
    done = (
        link is not None
        and is_ours(link, owner=task.owner)
        and link.up
        and _is_apart(making, link, host)
        and _has_addresses(making, link)
    )
    fault = _forwarding_fault(making, host) or _routers_fault(task, host.links)
    return Verdict(ready=done and not fault, steps=() if done else (making,), fault=fault)


def _is_apart(making: EnsureIsolatedBridge, link: Link, host: LinkState) -> bool:
    """Return whether the host uses the network no more than it should."""
    has_rules = host.ingress is None or rules_of(making.name, host.ingress) == making.ingress
    strict = link.ipv4_strict and not link.link_local
    return strict and link.forwarding == making.forwards_ipv4 and has_rules


def rules_of(link: str, ingress: Iterable[IngressRule]) -> frozenset[IngressRule]:
    """Return the rules of one link."""
    return frozenset(rule for rule in ingress if rule.link == link)


def _has_addresses(making: EnsureIsolatedBridge, link: Link) -> bool:
    """Return whether a bridge has the addresses of its gateways, and was given no others."""
    return set(link.given) <= set(making.addresses) <= {*link.addresses, *link.addresses6}


_SWITCHES = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}


def _forwarding_fault(making: EnsureIsolatedBridge, host: LinkState) -> str:
    """Return the problem of a host that does not forward what it is a gateway for; empty if it does.

    With IPv4 alone, CNI's plugin turns forwarding on. A host that begins to forward IPv6 forgets the routes that
    routers told it, so that is left to its operator.
    """
    if LINK_LOCAL not in making.addresses:
        return ""
    wanted = {4 if _is_ipv4(each) else 6 for each in making.gateways}
    missing = sorted(wanted - host.forwards)
    if not missing:
        return ""
    versions = " and ".join(f"IPv{version}" for version in missing)
    commands = " and ".join(f"`sysctl -w {_SWITCHES[version]}=1`" for version in missing)
    problem = f"the bridge {making.name} is a gateway, and this node does not forward {versions}"
    first = "if it has routes from router advertisements, set accept_ra=2 on their links; then "
    return f"{problem}: {first if 6 in missing else ''}run {commands} on it"


def _routers_fault(task: Assignment, links: Mapping[str, Link]) -> str:
    """Return the problem of a bridge by which guests can route what the node sends; empty without one.

    CNI's plugin prevents that before a pod joins, and a pod without privileges can't. A bridge without ports has no
    guests.
    """
    link = links.get(task.bridge)
    if link is None or not link.follows_routers or all(port.master != task.bridge for port in links.values()):
        return ""
    return (
        f"this node would take IPv6 routes and addresses from guests on the bridge {task.bridge}: run "
        f"`sysctl -w net.ipv6.conf.{task.bridge}.accept_ra=0` on it"
    )


def _absent(task: Assignment, host: LinkState) -> Verdict:
    """Return the verdict on a bridge that should not exist.

    A link of that name with another owner is left alone; a renamed bridge of the owner is not. A bridge that would be
    taken over if it should exist is taken over first, and then deleted: perhaps no reconciler has observed it before.
    """
    links = host.links
    if _is_adoptable(task, links):
        free = () if standing_on(task.bridge, links) else (_removal(task, task.bridge),)
        return Verdict(steps=(task.making, *free))
    own = sorted(name for name, link in links.items() if is_ours(link, owner=task.owner))
    if task.bridge not in links and rules_of(task.bridge, host.ingress or ()):
        own.append(task.bridge)  # it was deleted by hand
    removals = [_removal(task, name) for name in own]
    faults = [text for step in removals if (text := _fault(step, links))]
    steps: list[LinkStep] = [step for step in removals if not _fault(step, links)]
    half = links.get(unfinished_name(task.owner))
    if half is not None and half.unfinished:
        steps.append(DeleteLink(name=half.name))
    return Verdict(
        ready=not (steps or faults),
        steps=tuple(steps),
        fault="; ".join(faults),
        patience=PORTS_SECONDS,
    )


def _is_adoptable(task: Assignment, links: Mapping[str, Link]) -> bool:
    link = links.get(task.bridge)
    return link is not None and not link.alias and not _fault(task.making, links)


def _removal(task: Assignment, name: str) -> RemoveIsolatedBridge:
    return RemoveIsolatedBridge(name=name, owner=task.owner)


def _fault(step: LinkStep, links: Mapping[str, Link]) -> str:
    try:
        step.guard(links)
    except LinkError as error:
        return str(error)
    return ""


def orphaned_bridges(
    networks: Iterable[DummyClusterNetwork], links: Mapping[str, Link]
) -> tuple[LinkStep, ...]:
    """Return the steps that delete the unused bridges on a host that belong to none of the networks.

    Only links with the mark, or with the name of a half-made bridge, count. A network that is being deleted still has
    its bridge; a network whose spec has no bridge name may have any.
    """
    bridges = {item.metadata.uid: item.bridge_name for item in networks}
    half_made = {unfinished_name(uid) for uid in bridges}
    steps: list[LinkStep] = []
    for name, link in sorted(links.items()):
        owner = link.owner_uid
        if owner and bridges.get(owner, "-") not in (name, "") and not standing_on(name, links):
            steps.append(RemoveIsolatedBridge(name=name, owner=owner))
        elif link.unfinished and name not in half_made:
            steps.append(DeleteLink(name=name))
    return tuple(steps)
