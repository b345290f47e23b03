"""A whole host in memory: its ports, and what can happen to it that no port does."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from lanloom.api.names import MGMT_BOND
from lanloom.node.errors import LinkError
from lanloom.node.ports import (
    MAIN_TABLE,
    Host,
    Link,
    LinkState,
    LinkStep,
)
from lanloom.node.vlanids import VlanIds, merge, subtract
from tests.fakes import management
from tests.fakes.daemon import Daemon
from tests.fakes.kernel import FakeKernel
from tests.fakes.networkmanager import FakeNetworkManager
from tests.fakes.profiles import FakeDirectory, FakeProfiles, FakeRecords, ProfileFile
from tests.fakes.switch import FakeSwitch
from tests.fakes.watches import bursts


class FakeLinks:
    """The links port; each step is a point where a process may die. A step in `refused` fails with its message."""

    def __init__(self, kernel: FakeKernel) -> None:
        self.refused: dict[LinkStep, str] = {}
        self._kernel = kernel

    async def dump(self) -> LinkState:
        """As the port says."""
        await asyncio.sleep(0)
        return self._kernel.state()

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """As the port says."""
        for step in steps:
            await asyncio.sleep(0)
            if step in self.refused:
                raise LinkError(self.refused[step])
            self._kernel.apply(step)
        await asyncio.sleep(0)

    def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        return bursts(self._kernel.watchers)


class FakeHost:
    """A host named `name` with NICs plugged into `switch`. `now` is the wall clock, in seconds since the epoch.

    `host` has the ports; take a new one for each process that is simulated. Everything else is for tests: they
    plant what others would have made, break things as operators and accidents do, and look. `writes` counts the
    changes that took effect on links and files, by whomever.
    """

    def __init__(
        self,
        name: str,
        nics: tuple[str, ...] = ("eth0", "eth1"),
        *,
        switch: FakeSwitch,
        now: Callable[[], float],
    ) -> None:
        self.kernel = FakeKernel(name, nics)
        self.directory = FakeDirectory()
        self.state = FakeRecords()
        self.runtime = FakeRecords()
        self.daemon = Daemon(self.kernel, self.directory, switch, now)
        self.links = FakeLinks(self.kernel)
        self.name = name
        switch.attach(self.kernel)

    @property
    def host(self) -> Host:
        """The ports, as a process has them that starts now."""
        network_manager = FakeNetworkManager(self.daemon, self.kernel)
        return Host(
            self.name,
            self.links,
            FakeProfiles(self.directory),
            network_manager,
            state=self.state,
            runtime=self.runtime,
        )

    @property
    def writes(self) -> int:
        """How many changes of links and files took effect so far."""
        return self.kernel.writes + self.directory.writes

    def plant_link(self, link: Link, *, default_route: bool = False) -> None:
        """A link that another program made, and makes again at every boot."""
        self.kernel.at_boot.append((link, default_route))
        self.kernel.plant(link, default_route)

    def plant_management(self, address: str, *, vid: int = 2021, nic: str = "eth0") -> None:
        """The installer's management network, there at every boot: mgmt-bo of `nic`, mgmt-br with VLAN filtering.

        `address` (a CIDR) and the default route are on `mgmt-br.VID`, or with `vid` 0 on mgmt-br itself.
        """
        self.kernel.enslave_at_boot(nic, MGMT_BOND)
        for link, default_route in management.links(address, vid, self.kernel.links[nic].mac):
            self.plant_link(link, default_route=default_route)

    def plant_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """A file of the profile directory, written by another program; NetworkManager has not read it yet."""
        self.directory.put(name, ProfileFile(content, mode))

    def remove_file(self, name: str) -> None:
        """An operator removes a profile; NetworkManager has not noticed yet."""
        self.directory.remove(name)

    def flush(self, device: str) -> None:
        """`ip addr flush dev DEVICE`: NetworkManager lets it happen."""
        self.kernel.change(device, addresses=(), addresses6=())

    def delete_link(self, name: str) -> None:
        """`ip link delete NAME`."""
        self.kernel.delete(name)

    def set_link_up(self, name: str, up: bool) -> None:
        """`ip link set NAME up` or `down`: VLAN links above it follow."""
        self.kernel.set_up(name, up)

    def set_mtu(self, name: str, mtu: int) -> None:
        """`ip link set NAME mtu MTU`."""
        self.kernel.set_mtu(name, mtu)

    def add_address(self, device: str, address: str) -> None:
        """`ip address add`: a CIDR in addition to what the device has."""
        self.kernel.change(device, addresses=(*self.kernel.links[device].addresses, address))

    def remove_address(self, device: str, address: str) -> None:
        """`ip address delete`: a CIDR, in the kernel's way with secondary addresses."""
        self.kernel.remove_address(device, address)

    def drop_rules(self, table: int, version: int = 4) -> None:
        """`ip rule del table TABLE`, or `ip -6`."""
        for device, rules in tuple(self.kernel.rules.items()):
            left = (rule for rule in rules if (rule.table, rule.version) != (table, version))
            self.kernel.set_rules(device, frozenset(left))

    def drop_table(self, table: int) -> None:
        """`ip route flush table TABLE`."""
        for link in tuple(self.kernel.links.values()):
            self.kernel.change(link.name, tables=tuple(item for item in link.tables if item != table))

    def drop_route(self, device: str, to: str, table: int = MAIN_TABLE) -> None:
        """`ip route del TO dev DEVICE table TABLE`."""
        routes = self.kernel.state().links[device].routes
        self.kernel.lose_routes(device, (route for route in routes if (route.to, route.table) == (to, table)))

    def add_default_route(self, device: str) -> None:
        """`ip route add default dev DEVICE`."""
        self.kernel.add_default_route(device)

    def add_vlan(self, link: str, vid: int, *, self_: bool = False) -> None:
        """`bridge vlan add`: the link carries the id, too."""
        self._change_vlans(link, self_, lambda ids: merge((*ids, (vid, vid))))

    def drop_vlan(self, link: str, vid: int, *, self_: bool = False) -> None:
        """`bridge vlan delete`: the link no longer carries the id."""
        self._change_vlans(link, self_, lambda ids: subtract(ids, ((vid, vid),)))

    def _change_vlans(self, link: str, self_: bool, change: Callable[[VlanIds], VlanIds]) -> None:
        field = "self_vlans" if self_ else "vlans"
        self.kernel.change(link, **{field: change(getattr(self.kernel.links[link], field))})

    def unplug(self, nic: str) -> None:
        """Pulls a cable."""
        self.kernel.plug(nic, False)

    def plug(self, nic: str) -> None:
        """Puts a cable back."""
        self.kernel.plug(nic, True)

    def power_off(self) -> None:
        """The host is gone: links, VLAN ids, activations and runtime records are lost, files stay."""
        self.daemon.stop()
        self.kernel.halt()
        self.runtime.contents.clear()

    def power_on(self) -> None:
        """The host boots: NICs and planted links come, NetworkManager reads its files."""
        self.kernel.boot()
        self.daemon.start(after_reboot=True)

    def reboot(self) -> None:
        """Power off and on."""
        self.power_off()
        self.power_on()
