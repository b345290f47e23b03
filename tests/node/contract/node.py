"""A node on which the contract is tested: its ports, and what operators and accidents do to it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from lanloom.node.ports import (
    Connection,
    Host,
    Link,
    LinkStep,
    Route,
)
from lanloom.node.steps import (
    AddVlans,
    EnsureBond,
    EnsureBridge,
    SetMaster,
)
from lanloom.node.vlanids import vlan_ids
from tests.fakes import FakeHost, FakeSwitch
from tests.harness.waiting import Looks
from tests.node.contract.profile import uuid

DHCP_VLAN = 2012
"""The VLAN of the switch on which 192.168.12.1 is in use, by a server that gives out 192.168.12.0/24."""

PATIENCE = 60.0
"""Seconds, real or virtual, until a condition that does not become true is a failure."""

PAUSE, LONGEST_PAUSE = 0.1, 0.4
"""Seconds between two looks at a condition, at least and at most: some are true for a second only."""

T = TypeVar("T")


class Node(Protocol):
    """A node with the NICs eth1 and eth2, of which eth1 is plugged into the switch, and nothing on it."""

    host: Host

    def plant_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Puts a file into the profile directory."""

    def remove_file(self, name: str) -> None:
        """Removes a file from the profile directory."""

    def plant_bridge(self, name: str) -> None:
        """Makes a bridge without Lanloom's mark, with the port eth2, up."""

    def attributes(self, names: Collection[str]) -> Mapping[str, Any]:
        """All that a kernel tells of these links; nothing where there is no kernel."""

    def plant_vlan(self, parent: str, vid: int) -> None:
        """Makes a VLAN link `PARENT.VID` by hand."""

    def plant_bare_bridge(self, name: str) -> None:
        """Makes a bridge without any mark and without ports, down."""

    def plant_plugins_bridge(
        self, name: str, *, spanning_tree: bool = False, vlan_filtering: bool = False
    ) -> None:
        """Makes a bridge as CNI's plugin does, up; the options are not the plugin's."""

    def plant_pods_cable(self, name: str) -> None:
        """Makes a cable, one end of which has this name, and the other one is in another network namespace."""

    def set_master(self, link: str, master: str) -> None:
        """Puts a link under a bridge by hand, or with an empty master takes it off."""

    def set_alias(self, link: str, alias: str) -> None:
        """Sets a link's ifalias by hand."""

    def give_link_local(self, name: str) -> None:
        """Has the kernel give a link a link-local address of IPv6, as other programs do."""

    def follow_routers(self, name: str) -> None:
        """Has the host take IPv6 routes from routers on a link."""

    def delete_link(self, name: str) -> None:
        """Deletes a link by hand."""

    def flush(self, device: str) -> None:
        """Removes the addresses of a device by hand."""

    def set_up(self, name: str, up: bool) -> None:
        """Sets a link up or down by hand."""

    def set_mtu(self, name: str, mtu: int) -> None:
        """Sets a link's MTU by hand."""

    def add_address(self, device: str, address: str) -> None:
        """Gives a device an address (a CIDR) by hand."""

    def remove_address(self, device: str, address: str) -> None:
        """Takes an IPv4 address (a CIDR) from a device by hand."""

    def addresses(self, device: str) -> set[str]:
        """The addresses of a device as CIDRs, of both IP versions."""

    def add_default_route(self, device: str) -> None:
        """Adds a default route out of a device by hand."""

    def drop_rules(self, table: int, version: int = 4) -> None:
        """Deletes the routing rule of an IP version that looks a table up by hand."""

    def drop_table(self, table: int) -> None:
        """Empties a routing table by hand."""

    def drop_route(self, device: str, route: Route) -> None:
        """Deletes a route out of a device by hand."""

    def change_vlan(self, link: str, vid: int, *, add: bool, self_: bool) -> None:
        """Adds or removes a VLAN id of a bridge or port by hand."""

    def advertise(self, *prefixes: str, dhcpv6: str = "") -> None:
        """Makes the router of the switch's VLAN `DHCP_VLAN` advertise these prefixes alone; none stops it.

        `dhcpv6` is an address of the first one that it gives to any client that asks.
        """

    def lease6(self, address: str = "") -> None:
        """Makes a DHCPv6 server on that VLAN give this address alone; without one it stops."""

    def occupy(self, address: str, present: bool = True) -> None:
        """Gives an IPv6 address (a CIDR) to another host on that VLAN, or takes it away."""

    def plant_nic(self, nic: str) -> None:
        """Adds a NIC that NetworkManager manages, and tries a profile again and again that gets no address."""

    async def stop_network_manager(self) -> None:
        """Ends NetworkManager."""

    async def start_network_manager(self) -> None:
        """Starts NetworkManager."""


class FakeNode:
    """A node in memory."""

    def __init__(self, fake: FakeHost, switch: FakeSwitch) -> None:
        self._fake = fake
        self._switch = switch
        self.host = fake.host

    def plant_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        self._fake.plant_file(name, content, mode)

    def remove_file(self, name: str) -> None:
        self._fake.remove_file(name)

    def plant_bridge(self, name: str) -> None:
        bridge = Link(name=name, index=0, kind="bridge", up=True, vlan_filtering=True, self_vlans=((1, 1),))
        self._fake.plant_link(bridge)
        self._fake.kernel.change("eth2", master=name, vlans=((1, 1),))

    def attributes(self, names: Collection[str]) -> Mapping[str, Any]:
        return {}

    def plant_vlan(self, parent: str, vid: int) -> None:
        link = Link(name=f"{parent}.{vid}", index=0, kind="vlan", up=True, parent=parent, vlan_id=vid)
        self._fake.plant_link(link)

    def plant_bare_bridge(self, name: str) -> None:
        self._fake.kernel.add(Link(name=name, index=0, kind="bridge", self_vlans=((1, 1),)))

    def plant_plugins_bridge(
        self, name: str, *, spanning_tree: bool = False, vlan_filtering: bool = False
    ) -> None:
        bridge = Link(name=name, index=0, kind="bridge", up=True, ignores_routers=True, self_vlans=((1, 1),))
        self._fake.kernel.add(bridge)
        self._fake.kernel.change(name, spanning_tree=spanning_tree, vlan_filtering=vlan_filtering)

    def plant_pods_cable(self, name: str) -> None:
        self._fake.kernel.add(Link(name=name, index=0, kind="veth", leads_away=True))

    def set_master(self, link: str, master: str) -> None:
        self._fake.kernel.change(link, master=master, vlans=((1, 1),) if master else ())

    def set_alias(self, link: str, alias: str) -> None:
        self._fake.kernel.change(link, alias=alias)

    def give_link_local(self, name: str) -> None:
        self._fake.kernel.change(name, link_local=True)

    def follow_routers(self, name: str) -> None:
        self._fake.kernel.change(name, follows_routers=True)

    def delete_link(self, name: str) -> None:
        self._fake.delete_link(name)

    def flush(self, device: str) -> None:
        self._fake.flush(device)

    def set_up(self, name: str, up: bool) -> None:
        self._fake.set_link_up(name, up)

    def set_mtu(self, name: str, mtu: int) -> None:
        self._fake.set_mtu(name, mtu)

    def add_address(self, device: str, address: str) -> None:
        if ":" in address:
            known = self._fake.kernel.links[device].addresses6
            self._fake.kernel.change(device, addresses6=(*known, address))
        else:
            self._fake.add_address(device, address)

    def remove_address(self, device: str, address: str) -> None:
        self._fake.remove_address(device, address)

    def addresses(self, device: str) -> set[str]:
        link = self._fake.kernel.links[device]
        return {*link.addresses, *link.addresses6}

    def add_default_route(self, device: str) -> None:
        self._fake.add_default_route(device)

    def drop_rules(self, table: int, version: int = 4) -> None:
        self._fake.drop_rules(table, version)

    def drop_table(self, table: int) -> None:
        self._fake.drop_table(table)

    def drop_route(self, device: str, route: Route) -> None:
        self._fake.drop_route(device, route.to, route.table)

    def change_vlan(self, link: str, vid: int, *, add: bool, self_: bool) -> None:
        (self._fake.add_vlan if add else self._fake.drop_vlan)(link, vid, self_=self_)

    def advertise(self, *prefixes: str, dhcpv6: str = "") -> None:
        self._switch.set_router(DHCP_VLAN, *prefixes, dhcpv6=dhcpv6)

    def lease6(self, address: str = "") -> None:
        self._switch.set_dhcpv6(DHCP_VLAN, address)

    def occupy(self, address: str, present: bool = True) -> None:
        change = self._switch.plant_address if present else self._switch.remove_address
        change(DHCP_VLAN, address.partition("/")[0])

    def plant_nic(self, nic: str) -> None:
        self._fake.kernel.add(Link(name=nic, index=0, up=True))
        self._fake.daemon.manage_nic(nic)

    async def stop_network_manager(self) -> None:
        self._fake.daemon.stop()

    async def start_network_manager(self) -> None:
        self._fake.daemon.start()


def uplink(*vids: int) -> tuple[LinkStep, ...]:
    """The steps to a bridge c-br on a bond c-bo of eth1, both with these VLAN ids."""
    steps: tuple[LinkStep, ...] = (
        EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=1500),
        SetMaster(link="eth1", master="c-bo"),
        EnsureBridge(name="c-br", mtu=1500),
        SetMaster(link="c-bo", master="c-br"),
    )
    if not vids:
        return steps
    ids = vlan_ids(vids)
    return (*steps, AddVlans(link="c-bo", ids=ids), AddVlans(link="c-br", ids=ids, self_=True))


async def connection(node: Node, number: int = 1) -> Connection:
    """What NetworkManager knows of the test's profile."""
    return (await node.host.network_manager.connections((uuid(number),)))[uuid(number)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits until the condition is true."""

    async def so() -> bool:
        if not await condition():
            raise LookupError("the condition did not become true")
        return True

    await _first(so)


async def until_moment(node: Node, condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits until the condition is true after a change of links: what is so for a moment only may be over at a look."""
    async with asyncio.timeout(PATIENCE), aclosing(node.host.links.changes()) as changes:
        async for _ in changes:
            if await condition():
                return
    raise AssertionError("nothing tells of changes any more")


async def until_phase(node: Node, phase: str, number: int = 1) -> Connection:
    """The connection, when it has come to this phase."""

    async def so() -> Connection:
        if (found := await connection(node, number)).phase != phase:
            raise LookupError(f"it did not become {phase}: {found}")
        return found

    return await _first(so)


async def _first(look: Callable[[], Awaitable[T]]) -> T:
    """The first answer of a look that raises no LookupError; each look costs NetworkManager time."""
    looks = _looks()
    while True:
        with looks.look():
            return await look()
        await asyncio.sleep(looks.pause())


def _looks() -> Looks:
    return Looks(PATIENCE, (LookupError,), longest=LONGEST_PAUSE, clock=asyncio.get_running_loop().time)


async def stays(condition: Callable[[], Awaitable[bool]], seconds: float = 1.0) -> None:
    """Fails if the condition is false at any look within `seconds`: what must not happen by itself did happen."""
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        assert await condition(), "it changed by itself"
        await asyncio.sleep(PAUSE)


async def until_at_rest(condition: Callable[[], Awaitable[bool]], seconds: float = 1.0) -> None:
    """Waits until the condition was true at each look within `seconds`.

    NetworkManager writes rules before routes: what is removed in the middle of that comes back by itself.
    """
    since: float | None = None
    clock, looks = asyncio.get_running_loop().time, _looks()
    while since is None or clock() - since < seconds:
        before, since = since, None
        with looks.look():
            if await condition():
                since = clock() if before is None else before
        pause = looks.pause()
        await asyncio.sleep(pause if since is None else PAUSE)
