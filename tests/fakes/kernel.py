"""The kernel's links of a fake host: what each step does to them, and what follows by itself."""

import hashlib
from collections.abc import Container, Iterable
from functools import singledispatch
from ipaddress import IPv4Interface, ip_interface

from msgspec.structs import replace

from lanloom.api.bonds import UNTUNED, BondSettings
from lanloom.node.errors import LinkError
from lanloom.node.marks import MARK
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    IngressRule,
    Lack6,
    Link,
    LinkState,
    LinkStep,
    Route,
    Rule,
)
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    Mark,
    PromoteSecondaries,
    RemoveAddress6,
    RemoveVlans,
    RestoreRoutes,
    SetMaster,
    SetMtu,
    SetUp,
    Unmark,
)
from lanloom.node.vlanids import (
    VlanIds,
    contains,
    merge,
    subtract,
)
from tests.fakes.switch import bare
from tests.fakes.watches import Watchers

DEFAULT_VLAN: VlanIds = ((1, 1),)
"""What the kernel gives every bridge and every new port (the default PVID)."""


MONITORED_MODES = frozenset({"802.3ad", "balance-tlb", "balance-alb"})
"""The modes of a bond for which the kernel's default miimon is 100 and not 0."""


DEFAULT_SETTINGS = BondSettings(
    xmit_hash_policy="layer2",
    lacp_rate="slow",
    ad_select="stable",
    arp_validate="none",
    arp_all_targets="any",
)
"""What the kernel gives every bond."""


def mac_address(host: str, link: str) -> str:
    """A locally administered MAC that a link of a host always gets."""
    return "02:" + hashlib.blake2s(f"{host}/{link}".encode(), digest_size=5).digest().hex(":")


def _subnets6(link: Link) -> tuple[str, ...]:
    networks = {ip_interface(each).network for each in link.addresses6}
    return tuple(sorted(str(each) for each in networks if each.prefixlen < each.max_prefixlen))


class FakeKernel:
    """The links of one host, and its routing rules by the link that they are for.

    `watchers` are called after every change that takes effect; `writes` counts them.
    """

    def __init__(self, host: str, nics: tuple[str, ...]) -> None:
        self.links: dict[str, Link] = {}
        self.plugged = set(nics)
        self.default_route_links: frozenset[str] = frozenset()
        self.rules: dict[str, frozenset[Rule]] = {}
        self.lost_routes: dict[str, frozenset[Route]] = {}
        self.forwards = frozenset({4})
        self.ingress: frozenset[IngressRule] = frozenset()
        self.lack6: Lack6 = ""
        self.watchers: Watchers = []
        self.writes = 0
        self.at_boot: list[tuple[Link, bool]] = [(Link(name=nic, index=0, up=True), False) for nic in nics]
        self._host = host
        self._index = 1
        self._own: dict[str, Link] = {}
        self._set_macs: set[str] = set()
        self._had_ports: set[str] = set()
        self.boot()

    def boot(self) -> None:
        """Comes up with the links of `at_boot`."""
        for link, default_route in self.at_boot:
            self.plant(link, default_route)

    def halt(self) -> None:
        """Forgets every link."""
        self.links = {}
        self.default_route_links = frozenset()
        self.rules, self.lost_routes = {}, {}
        self.ingress = frozenset()
        self._own, self._set_macs, self._had_ports = {}, set(), set()

    def plant(self, link: Link, default_route: bool) -> None:
        """Adds a link that a default route may go out of."""
        if default_route:
            self.default_route_links |= {link.name}
        self.add(link)

    def enslave_at_boot(self, nic: str, master: str) -> None:
        """Puts a NIC under a link that another program makes at every boot, now and at each boot."""
        self.at_boot = [
            (replace(link, master=master) if link.name == nic else link, default_route)
            for link, default_route in self.at_boot
        ]
        self.change(nic, master=master)

    def add_default_route(self, link: str) -> None:
        """A default route goes out of a link from now on."""
        self.default_route_links |= {link}
        self._changed()

    def set_rules(self, device: str, rules: frozenset[Rule]) -> None:
        """The routing rules that a program has for a link, which the kernel itself does not know to belong to it."""
        if self.rules.get(device, frozenset()) != rules:
            self.rules[device] = rules
            self._changed()

    def plug(self, nic: str, plugged: bool) -> None:
        """Puts a NIC's cable in or pulls it."""
        self.plugged = self.plugged | {nic} if plugged else self.plugged - {nic}
        self._changed()

    def state(self) -> LinkState:
        """What a dump shows, with operstate as it follows from cables, slaves and ports."""
        shown = {
            name: replace(
                link,
                operstate=self._operstate(link),
                routes=self._routes(link),
                onlink=link.onlink or _subnets6(link),
            )
            for name, link in self.links.items()
        }
        rules = frozenset().union(*self.rules.values())
        if self.lack6:
            rules = frozenset(rule for rule in rules if rule.version == 4)
        return LinkState(
            shown, self.default_route_links, rules, self.forwards, self.ingress, lack6=self.lack6
        )

    def disable_ipv6(self, link: str, disabled: bool = True) -> None:
        """`sysctl -w net.ipv6.conf.LINK.disable_ipv6=1`, or 0; NetworkManager can't change it."""
        self.change(link, ipv6=not disabled)

    def forward(self, *versions: int) -> None:
        """Forwards these IP versions from now on."""
        self.forwards = frozenset(versions)
        self._changed()

    def set_ingress(self, link: str, rules: frozenset[IngressRule]) -> None:
        """The routing rules of IPv6 for what comes in by a link, which stay without it."""
        before = self.ingress
        self.ingress = frozenset(rule for rule in before if rule.link != link) | rules
        if self.ingress != before:
            self._changed()

    def lose_routes(self, device: str, routes: Iterable[Route]) -> None:
        """Deletes routes of a device, which stay away until `restore_routes`."""
        lost = frozenset(routes)
        self.lost_routes[device] = self.lost_routes.get(device, frozenset()) | lost
        link = self.links[device]
        emptied = {route.table for route in lost if route.to == "0.0.0.0/0"}
        self.links[device] = replace(
            link, tables=tuple(table for table in link.tables if table not in emptied)
        )
        self._changed()

    def restore_routes(self, device: str, *, local: bool) -> None:
        """The routes of a device are back; those to its own addresses only with the addresses, if `local`."""
        lost = self.lost_routes.pop(device, frozenset())
        if left := frozenset(route for route in lost if route.table == LOCAL_TABLE and not local):
            self.lost_routes[device] = left
        if lost != left:
            self._changed()

    def _routes(self, link: Link) -> frozenset[Route]:
        """Those that follow from the addresses of a VLAN link that is up, and those that a profile gave it.

        NetworkManager adds the route to the subnet of an address of IPv6, and the kernel that to the address as soon as
        no other host can have it.
        """
        if link.kind != "vlan" or not link.up:
            return frozenset()
        usable = (*link.addresses, *(each for each in link.addresses6 if each not in link.tentative6))
        addresses = [ip_interface(address) for address in usable]
        own = {Route(f"{address.ip}/{address.max_prefixlen}", LOCAL_TABLE) for address in addresses}
        subnets = {Route(str(address.network), MAIN_TABLE) for address in addresses if address.version == 4}
        given = frozenset(
            route
            for route in link.routes
            if route.version == 4
            or (link.addresses6 and not (self.lack6 and route.table not in (LOCAL_TABLE, MAIN_TABLE)))
        )
        return (given | own | subnets) - self.lost_routes.get(link.name, frozenset())

    def add(self, link: Link) -> None:
        """Adds a link, with the next index and a MAC of its own unless it brings one."""
        self._index += 1
        mac = link.mac or mac_address(self._host, link.name)
        if link.kind == "bond" and link.bond_settings == UNTUNED:
            link = replace(link, bond_settings=DEFAULT_SETTINGS)
        self._put(replace(link, index=self._index, mac=mac))

    def change(self, name: str, **fields: object) -> None:
        """Changes fields of a link; nothing happens if they have these values."""
        link = replace(self.links[name], **fields)
        if not link.ipv6:
            link = replace(link, addresses6=(), tentative6=())
        if link != self.links[name]:
            self._put(link)

    def remove_address(self, name: str, cidr: str) -> None:
        """Takes an IPv4 address from a link; later ones of its subnet go with the first unless the link promotes."""
        found, gone = self.links[name].addresses, IPv4Interface(cidr)
        subnet = [each for each in found if IPv4Interface(each).network == gone.network]
        taken = subnet if subnet[:1] == [cidr] and not self.links[name].promotes else [cidr]
        self.change(name, addresses=tuple(each for each in found if each not in taken))

    def set_up(self, name: str, up: bool = True) -> None:
        """Sets a link up or down, and the VLAN links above it along; one that is down has no addresses of IPv6."""
        self.change(name, up=up, **({} if up else {"addresses6": ()}))
        for other in tuple(self.links.values()):
            if other.parent == name:
                self.set_up(other.name, up)

    def set_mtu(self, name: str, mtu: int) -> None:
        """Sets a link's MTU: a bond's NICs get it too, and VLAN links above are lowered to it, never raised."""
        self.change(name, mtu=mtu)
        for other in tuple(self.links.values()):
            if (other.parent == name and other.mtu > mtu) or (
                other.master == name and self.links[name].kind == "bond"
            ):
                self.set_mtu(other.name, mtu)

    def has_carrier(self, name: str) -> bool:
        """Whether frames could leave by a link: it is up, and so is what it rests on down to a cable."""
        link = self.links.get(name)
        return link is not None and self._operstate(link) in ("UP", "UNKNOWN")

    def delete(self, name: str) -> None:
        """Deletes a link if it is there: ports and slaves are released, VLAN links above it go too."""
        if name in self.links:
            self._remove(name)
            self._changed()

    def apply(self, step: LinkStep) -> None:
        """Applies a step; raises as its guard says."""
        step.guard(self.links)
        apply(step, self)

    def carries(self, bridge: str, vid: int) -> bool:
        """Whether frames of a VLAN pass from the bridge itself to the switch: bridge and uplink port need the id."""
        link = self.links.get(bridge)
        if link is None or not link.up or not contains(link.self_vlans, vid):
            return False
        ports = (port for port in self.links.values() if port.master == bridge)
        return any(port.up and contains(port.vlans, vid) and self._wired(port) for port in ports)

    def addresses_on(self, vid: int) -> frozenset[str]:
        """The addresses under which this host answers on a VLAN of the switch."""
        subs = (link for link in self.links.values() if link.vlan_id == vid and link.up)
        return frozenset(
            bare(address)
            for link in subs
            if self.carries(link.parent, vid)
            for address in (*link.addresses, *link.addresses6)
        )

    def _remove(self, name: str) -> None:
        self._set_macs.discard(name)
        self._had_ports.discard(name)
        self.lost_routes.pop(name, None)
        self.default_route_links -= {name}
        bond = self.links.pop(name).kind == "bond"
        for other in tuple(self.links.values()):
            if other.parent == name:
                self._remove(other.name)
            elif other.master == name:
                self.links[other.name] = self._released(other, from_bond=bond)

    def _released(self, link: Link, *, from_bond: bool) -> Link:
        """A former port; a bond's NIC is down and has its own MAC and former MTU again."""
        if not from_bond:
            return replace(link, master="", vlans=())
        own = self._own.pop(link.name, link)
        return replace(link, master="", up=False, mac=own.mac, mtu=own.mtu)

    def ensure(self, name: str, kind: str, mtu: int, **options: object) -> None:
        """Makes a link with Lanloom's mark if it is missing, gives it these fields, and sets it up."""
        if name not in self.links:
            self.make(name, kind, MARK)
        self.set_mtu(name, mtu)
        self.change(name, alias=MARK)
        self.change(name, **options)
        if not self.links[name].up:
            self.set_up(name)

    def make(self, name: str, kind: str, alias: str) -> None:
        """Adds a bridge or bond, down."""
        vlans = DEFAULT_VLAN if kind == "bridge" else ()
        self.add(Link(name=name, index=0, kind=kind, alias=alias, self_vlans=vlans, tx_queue_length=1000))

    def set_mac(self, bond: str, mac: str) -> None:
        """Sets the MAC of a bond, which its NICs get and which it keeps until the last is released."""
        self._set_macs.add(bond)
        for link in tuple(self.links.values()):
            if link.name == bond or link.master == bond:
                self.change(link.name, mac=mac)

    def set_master(self, name: str, master: str) -> None:
        """Puts a link under a master and up, or releases it."""
        before = self.links[name].master
        if before != master:
            if before:
                self._release(name, before)
            if master:
                self.join(name, master)
        if master and not self.links[name].up:
            self.set_up(name)

    def _release(self, name: str, master: str) -> None:
        bond = self.links[master].kind == "bond"
        self._put(self._released(self.links[name], from_bond=bond))
        if bond and not any(link.master == master for link in self.links.values()):
            self._set_macs.discard(master)
            self.change(master, mac=mac_address(self._host, master))

    def join(self, name: str, master: str) -> None:
        """Puts a link that has no master under a master."""
        if self.links[master].kind == "bridge":
            if self.links[name].kind == "bridge":
                raise LinkError(f"can't put {name} under {master}: a bridge can't be a port of a bridge")
            self._had_ports.add(master)
            self.change(name, master=master, vlans=DEFAULT_VLAN)
            return
        link = self._own[name] = self.links[name]
        if master not in self._set_macs and not any(other.master == master for other in self.links.values()):
            self.change(master, mac=link.mac)
        bond = self.links[master]
        self.change(name, master=master, mtu=bond.mtu, mac=bond.mac)

    def _wired(self, link: Link) -> bool:
        if link.kind == "bond":
            return any(
                slave.up and self._wired(slave) for slave in self.links.values() if slave.master == link.name
            )
        return link.name in self.plugged

    def _operstate(self, link: Link) -> str:
        if not link.up:
            return "DOWN"
        if link.kind == "bridge":
            ports = [port for port in self.links.values() if port.master == link.name]
            if not ports and link.name not in self._had_ports:
                return "UNKNOWN"
            return "UP" if any(port.up and self._wired(port) for port in ports) else "DOWN"
        if link.parent in self.links:
            return "UP" if self.has_carrier(link.parent) else "LOWERLAYERDOWN"
        return "UP" if self._wired(link) else "DOWN"

    def _put(self, link: Link) -> None:
        self.links[link.name] = link
        self._changed()

    def _changed(self) -> None:
        self.writes += 1
        for watcher in self.watchers:
            watcher()


@singledispatch
def apply(step: LinkStep, kernel: FakeKernel) -> None:
    """Do what the kernel does for a step that its guard let pass; tests of a feature register its own steps' fakes."""
    raise TypeError(f"no fake is registered for {type(step).__name__}")


@apply.register
def _ensure_bond(step: EnsureBond, kernel: FakeKernel) -> None:
    miimon = step.miimon
    if miimon is None:
        before = kernel.links.get(step.name)
        miimon = before.bond_miimon if before is not None else 0
    if not miimon and step.mode in MONITORED_MODES:
        miimon = 100
    settings = _settings(step, kernel.links.get(step.name), miimon, kernel.links)
    if settings.arp_interval:
        miimon = 0
    kernel.ensure(
        step.name, "bond", step.mtu, bond_mode=step.mode, bond_miimon=miimon, bond_settings=settings
    )
    if step.tx_queue_length is not None:
        kernel.change(step.name, tx_queue_length=step.tx_queue_length)
    if step.mac:
        kernel.set_mac(step.name, step.mac)


def _settings(step: EnsureBond, bond: Link | None, miimon: int, present: Container[str]) -> BondSettings:
    """The kernel's defaults, or what the bond had; one monitor ends the other, and a primary has to be a NIC of it."""
    had = bond.bond_settings if bond is not None else DEFAULT_SETTINGS
    changed = step.settings.differing(had)
    if step.settings.primary not in present:
        changed.pop("primary", None)
    if miimon and not step.settings.arp_interval:
        changed |= {"arp_interval": 0, "arp_validate": "none"}
    return replace(had, **changed)


@apply.register
def _ensure_bridge(step: EnsureBridge, kernel: FakeKernel) -> None:
    kernel.ensure(step.name, "bridge", step.mtu, vlan_filtering=True)


@apply.register
def _set_master(step: SetMaster, kernel: FakeKernel) -> None:
    kernel.set_master(step.link, step.master)


@apply.register
def _set_mtu(step: SetMtu, kernel: FakeKernel) -> None:
    kernel.set_mtu(step.link, step.mtu)


@apply.register
def _set_up(step: SetUp, kernel: FakeKernel) -> None:
    link = kernel.links[step.link]
    if link.up:
        return
    if link.parent in kernel.links and not kernel.links[link.parent].up:
        raise LinkError(f"{step.title}: Network is down; set its parent up first")
    kernel.set_up(step.link)


@apply.register
def _restore_routes(step: RestoreRoutes, kernel: FakeKernel) -> None:
    tables = (route.table for route in step.routes if route.table != MAIN_TABLE and route.version == 4)
    kernel.lost_routes[step.link] = kernel.lost_routes.get(step.link, frozenset()) - set(step.routes)
    link = kernel.links[step.link]
    kernel.change(step.link, routes=link.routes | set(step.routes), tables=tuple({*link.tables, *tables}))
    kernel.set_rules(step.link, kernel.rules.get(step.link, frozenset()) | set(step.rules))


@apply.register
def _promote_secondaries(step: PromoteSecondaries, kernel: FakeKernel) -> None:
    kernel.change(step.link, promotes=True)


@apply.register
def _remove_address6(step: RemoveAddress6, kernel: FakeKernel) -> None:
    link = kernel.links[step.link]
    left, waiting = (
        tuple(each for each in known if each != step.address) for known in (link.addresses6, link.tentative6)
    )
    kernel.change(step.link, addresses6=left, tentative6=waiting)


@apply.register(AddVlans)
@apply.register(RemoveVlans)
def _change_vlans(step: AddVlans | RemoveVlans, kernel: FakeKernel) -> None:
    link = kernel.links.get(step.link)
    if link is None:
        return
    before = link.self_vlans if step.self_ else link.vlans
    after = merge((*before, *step.ids)) if isinstance(step, AddVlans) else subtract(before, step.ids)
    kernel.change(step.link, **{"self_vlans" if step.self_ else "vlans": after})


@apply.register
def _delete(step: DeleteLink, kernel: FakeKernel) -> None:
    kernel.delete(step.name)


@apply.register
def _mark(step: Mark, kernel: FakeKernel) -> None:
    kernel.change(step.link, alias=MARK)


@apply.register
def _unmark(step: Unmark, kernel: FakeKernel) -> None:
    kernel.change(step.link, alias="")
