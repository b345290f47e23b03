"""A real node on the kernel that the tests run on: a network namespace with NetworkManager, on a switch with DHCP.

For use inside `tests.harness.kernel` only, where root may do all this and everything ends with the namespaces.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import partial
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import lanloom.features.dummy.agent.links  # noqa: F401 - its steps are a part of the contract
from lanloom.node.errors import NetworkManagerMissing
from lanloom.node.netlink import NetlinkLinks
from lanloom.node.networkmanager import DBusNetworkManager
from lanloom.node.ports import LOCAL_TABLE, Host, Route
from lanloom.node.profiles import ProfileDirectory
from lanloom.node.records import RecordDirectory
from tests.harness import others
from tests.harness.again import again
from tests.harness.namespaces import Entering, namespace
from tests.harness.waiting import Looks
from tests.node.contract.bed import Scenario
from tests.node.contract.node import LONGEST_PAUSE, PATIENCE

CONFIGURATION = """\
[main]
plugins=keyfile
dns=none
rc-manager=unmanaged
no-auto-default=*
[keyfile]
unmanaged-devices=interface-name:eth*;interface-name:*-br;interface-name:*-bo;interface-name:lo;interface-name:cable2
"""

NIC_PROFILE = """\
[connection]
id={nic}
type=ethernet
interface-name={nic}
autoconnect-retries=0
[ipv4]
method=auto
dhcp-timeout=2
may-fail=false
[ipv6]
method=disabled
"""

# A read-only /sys tells NetworkManager that there is no udev to wait for; else it never manages a link that it finds.
# Secondary addresses go with the first one of their subnet, which is the kernel's default, but not systemd's.
PREPARE = """\
mount --make-rprivate /
mount -t tmpfs t /etc/NetworkManager
mount -t tmpfs t /run
mount -t tmpfs t /var/lib/NetworkManager
umount -l /sys
mount -t sysfs -o ro s /sys
sysctl -qw net.ipv4.conf.all.promote_secondaries=0 net.ipv4.conf.default.promote_secondaries=0
mkdir -p /run/dbus
mkdir -m 700 /etc/NetworkManager/system-connections
printf '%s' "$CONFIGURATION" >/etc/NetworkManager/NetworkManager.conf
dbus-daemon --system --fork --nopidfile
echo ready
exec sleep infinity
"""

SWITCH = """\
link add switch up type bridge vlan_filtering 1
link add port up master switch type veth peer name eth1 netns node
link add link switch name dhcp type vlan id 2012
address add 192.168.12.1/24 dev dhcp
address add fd00:12::1/64 dev dhcp nodad
link set dhcp up
link add otherport up master switch type veth peer name other
link set other up
"""
ROUTER_LEASES = Path("/tmp/router-leases")
SWITCH_VLANS = """\
vlan add vid 2-4094 dev port
vlan add vid 2-4094 dev switch self
vlan add vid 2012 dev otherport pvid untagged
"""
NODE = "link set lo up\nlink set eth1 up\nlink add eth2 up type veth peer name cable2\nlink set cable2 up\n"
BARE = (
    "link set eth1 up mtu 1500\nlink set eth2 up nomaster\naddress flush dev eth1\naddress flush dev eth2\n"
)
KEPT_LINKS = frozenset({"lo", "eth1", "eth2", "cable2"})


def ip(arguments: str, *, where: str = "node", program: str = "ip") -> None:
    """Runs `ip ARGUMENTS` in a namespace."""
    subprocess.run([program, "-n", where, *arguments.split()], check=True)


def flush(arguments: str, *, where: str = "node") -> None:
    """Runs `ip ARGUMENTS`, a flush, in a namespace."""
    again(lambda: ip(arguments, where=where), subprocess.CalledProcessError)


def printed(*words: str) -> str:
    """What a program prints of all links, or of one."""
    run = partial(subprocess.run, words, capture_output=True, check=True, text=True)
    return str(again(run, subprocess.CalledProcessError).stdout)


def batch(program: str, where: str, text: str, *options: str) -> None:
    """Runs lines of `ip` or `bridge` in a namespace: where system calls are slow, a process costs most of it."""
    subprocess.run([program, "-n", where, *options, "-batch", "-"], input=text, text=True, check=True)


class Machine:
    """The switch and the node, with their programs; made once, cleaned between tests."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._network_manager: subprocess.Popen[bytes] | None = None
        self._router: subprocess.Popen[bytes] | None = None
        self._switch_changed = False
        self.log = Path("/tmp/networkmanager.log")

    def __enter__(self) -> "Machine":
        with ExitStack() as stack:
            stack.enter_context(namespace("switch"))
            stack.enter_context(namespace("node"))
            batch("ip", "switch", SWITCH)
            batch("bridge", "switch", SWITCH_VLANS)
            batch("ip", "node", NODE)
            stack.enter_context(self._program(self._dnsmasq()))
            self._holder = stack.enter_context(self._program(self._node_root()))
            assert self._holder.stdout is not None
            assert self._holder.stdout.readline() == b"ready\n"
            stack.callback(self.stop_network_manager)
            stack.callback(self.advertise)
            self.start_network_manager()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    def _program(process: subprocess.Popen[bytes]) -> "_Ending":
        return _Ending(process)

    def _dnsmasq(self) -> subprocess.Popen[bytes]:
        words = "dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --user=root --no-ping"
        words += " --log-facility=/dev/null"
        words += " --bind-interfaces --dhcp-authoritative --interface=dhcp --pid-file= --dhcp-leasefile=/tmp/leases"
        words += " --dhcp-range=192.168.12.100,192.168.12.200,1h"
        return subprocess.Popen(["ip", "netns", "exec", "switch", *words.split()])

    def _node_root(self) -> subprocess.Popen[bytes]:
        words = ["ip", "netns", "exec", "node", "unshare", "--mount", "/bin/sh", "-euc", PREPARE]
        environment = {**os.environ, "CONFIGURATION": CONFIGURATION}
        return subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)

    def inside(self, path: str) -> Path:
        """A path of the node's own file system."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    @property
    def enter(self) -> tuple[str, ...]:
        """What comes before the words of a command that is to run on the node."""
        return ("nsenter", f"--target={self._holder.pid}", "--mount", "--net")

    @property
    def bus(self) -> str:
        """The address of the node's D-Bus."""
        return f"unix:path={self.inside('/run/dbus/system_bus_socket')}"

    def knows(self, device: str) -> bool:
        """Whether NetworkManager has noticed a device."""
        question = [
            "dbus-send",
            f"--bus={self.bus}",
            "--print-reply",
            "--dest=org.freedesktop.NetworkManager",
        ]
        question += ["/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager.GetDeviceByIpIface"]
        return (
            subprocess.run([*question, f"string:{device}"], capture_output=True, check=False).returncode == 0
        )

    def start_network_manager(self) -> None:
        """Starts it; it answers a little later."""
        with self.log.open("ab") as log:
            words = [*self.enter, "NetworkManager", "--debug"]
            self._network_manager = subprocess.Popen(words, stdout=log, stderr=log)

    def advertise(self, *prefixes: str, dhcpv6: str = "") -> None:
        """Runs a router that advertises these prefixes, in place of the one before; it has the first address of each.

        `dhcpv6` is the address of the first prefix that its DHCPv6 server gives.
        """
        self._stop_router()
        if not prefixes:
            return
        self._switch_changed = True
        for prefix in self._begins(prefixes):
            ip(f"address replace {prefix}1/64 dev dhcp nodad", where="switch")
        words = " --enable-ra --ra-param=dhcp,4,1800"
        begins = self._begins(prefixes)
        words += f" --dhcp-range={dhcpv6},{dhcpv6},slaac,64,1h" if dhcpv6 else ""
        words += "".join(f" --dhcp-range={prefix},ra-only,64,1h" for prefix in begins[bool(dhcpv6) :])
        self._start_router(words)

    def lease6(self, address: str = "") -> None:
        """Runs a DHCPv6 server that gives this address, in place of the router, or none."""
        self._stop_router()
        if not address:
            return
        self._switch_changed = True
        first = IPv6Network(f"{address}/64", strict=False)[1]
        ip(f"address replace {first}/64 dev dhcp nodad", where="switch")
        self._start_router(f" --dhcp-authoritative --dhcp-range={address},{address},64,1h")

    def _start_router(self, options: str) -> None:
        words = (
            "dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --user=root --log-facility=/dev/null"
        )
        words += " --bind-interfaces --interface=dhcp --pid-file="
        words += f" --dhcp-leasefile={ROUTER_LEASES}{options}"
        self._router = subprocess.Popen(["ip", "netns", "exec", "switch", *words.split()])

    def occupy(self, address: str, present: bool) -> None:
        """Gives an address to another host on the switch, or takes it away."""
        self._switch_changed = True
        change = f"replace {address} dev other nodad" if present else f"delete {address} dev other"
        ip(f"address {change}", where="switch")

    def restore_switch(self) -> None:
        """Has the switch as it was made: most tests change nothing there, and programs take time."""
        if self._switch_changed:
            self.advertise()
            flush("-6 address flush dev other scope global", where="switch")
            self._switch_changed = False

    def _stop_router(self) -> None:
        if self._router is not None:
            self._router.terminate()
            self._router.wait()
            self._router = None
        ROUTER_LEASES.unlink(missing_ok=True)
        flush("-6 address flush dev dhcp scope global", where="switch")
        ip("address add fd00:12::1/64 dev dhcp nodad", where="switch")

    @staticmethod
    def _begins(prefixes: Collection[str]) -> list[str]:
        return [prefix.removesuffix("/64") for prefix in prefixes]

    def stop_network_manager(self) -> None:
        """Ends it if it runs."""
        if self._network_manager is not None:
            self._network_manager.terminate()
            self._network_manager.wait()
            self._network_manager = None

    @property
    def network_manager_runs(self) -> bool:
        """Whether it was started and not stopped."""
        return self._network_manager is not None


class _Ending:
    """Ends a program when its context ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class RealNode:
    """The node for one test."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._directory = machine.inside("/etc/NetworkManager/system-connections")
        self.network_manager = DBusNetworkManager(machine.bus)
        links = NetlinkLinks(Entering(Path("/run/netns/node")))
        self.host = Host(
            "node",
            links,
            ProfileDirectory(self._directory),
            self.network_manager,
            state=RecordDirectory(machine.inside("/var/lib/lanloom")),
            runtime=RecordDirectory(machine.inside("/run/lanloom")),
        )

    async def prepare(self) -> None:
        """Begins with nothing: no profile, no link but the NICs."""
        if not self._machine.network_manager_runs:
            self._machine.start_network_manager()
        self._machine.restore_switch()
        await self._answers()
        names = tuple(path.name for path in self._directory.iterdir())
        for name in names:
            self.remove_file(name)
        await self.network_manager.load(names)
        await self._clear_links()

    async def _clear_links(self) -> None:
        """Takes away all links but the NICs, those above others first, and makes the NICs bare, all by one program.

        NetworkManager removes its own devices at the same time, so it may fail, and is begun again.
        """
        cleared, looks = False, Looks(PATIENCE, (subprocess.CalledProcessError,))
        while (surplus := set((await self.host.links.dump()).links) - KEPT_LINKS) or not cleared:
            deletions = "".join(f"link delete {name}\n" for name in sorted(surplus, reverse=True))
            with looks.look():
                batch("ip", "node", deletions + BARE, "-force")
                cleared = True
            if looks.failure:
                await asyncio.sleep(looks.pause())

    async def _answers(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                await self.network_manager.version()
                return
            except NetworkManagerMissing as error:
                assert time.monotonic() < deadline, f"{error}\n{self._machine.log.read_text()}"
                await asyncio.sleep(0.1)

    def plant_file(self, name: str, content: bytes, mode: int = 0o600) -> None:
        path = self._directory / name
        path.write_bytes(content)
        path.chmod(mode)

    def remove_file(self, name: str) -> None:
        (self._directory / name).unlink()

    def plant_nic(self, nic: str) -> None:
        batch("ip", "node", f"link add {nic} up type veth peer name {nic}-cable\nlink set {nic}-cable up\n")
        self.plant_file(f"{nic}.nmconnection", NIC_PROFILE.format(nic=nic).encode())
        path = "/etc/NetworkManager/system-connections"
        words = [*self._machine.enter, "nmcli", "connection", "load", f"{path}/{nic}.nmconnection"]
        subprocess.run(words, check=True)

    def plant_bridge(self, name: str) -> None:
        batch(
            "ip", "node", f"link add {name} up type bridge vlan_filtering 1\nlink set eth2 master {name} up\n"
        )

    def attributes(self, names: Collection[str]) -> Mapping[str, Any]:
        links, vlans = (
            printed("ip", "netns", "exec", "node", *words.split()) for words in (others.LINKS, others.VLANS)
        )
        return others.read(links, vlans, names)

    def plant_vlan(self, parent: str, vid: int) -> None:
        name = f"{parent}.{vid}"
        # NetworkManager may not have noticed yet that the link of this name is gone which the test before had.
        self._until_known(name, False)
        batch("ip", "node", f"link add link {parent} name {name} up type vlan id {vid}\n")
        # A profile that comes before NetworkManager has noticed the link keeps it from ever taking the link over.
        self._until_known(name, True)

    def _until_known(self, device: str, known: bool) -> None:
        looks = Looks(PATIENCE, (LookupError,), longest=LONGEST_PAUSE)
        while True:
            with looks.look():
                if self._machine.knows(device) is known:
                    return
                raise LookupError(f"NetworkManager {'misses' if known else 'keeps'} {device}")
            time.sleep(looks.pause())

    def plant_bare_bridge(self, name: str) -> None:
        ip(f"link add {name} type bridge")

    def plant_plugins_bridge(
        self, name: str, *, spanning_tree: bool = False, vlan_filtering: bool = False
    ) -> None:
        ip(f"link add {name} type bridge stp_state {spanning_tree:d} vlan_filtering {vlan_filtering:d}")
        self._set_ipv6(name, "accept_ra", 0)
        ip(f"link set {name} up")

    def _set_ipv6(self, name: str, setting: str, value: int) -> None:
        words = [
            "ip",
            "netns",
            "exec",
            "node",
            "sysctl",
            "-q",
            "-w",
            f"net.ipv6.conf.{name}.{setting}={value}",
        ]
        subprocess.run(words, check=True)

    def give_link_local(self, name: str) -> None:
        ip(f"link set {name} addrgenmode eui64")

    def follow_routers(self, name: str) -> None:
        self._set_ipv6(name, "accept_ra", 2)

    def plant_pods_cable(self, name: str) -> None:
        ip(f"link add {name} up type veth peer name {name} netns switch")

    def set_master(self, link: str, master: str) -> None:
        ip(f"link set {link} {f'master {master}' if master else 'nomaster'}")

    def set_alias(self, link: str, alias: str) -> None:
        subprocess.run(["ip", "-n", "node", "link", "set", link, "alias", alias], check=True)

    def delete_link(self, name: str) -> None:
        ip(f"link delete {name}")

    def flush(self, device: str) -> None:
        flush(f"address flush dev {device}")

    def set_up(self, name: str, up: bool) -> None:
        ip(f"link set {name} {'up' if up else 'down'}")

    def set_mtu(self, name: str, mtu: int) -> None:
        ip(f"link set {name} mtu {mtu}")

    def add_address(self, device: str, address: str) -> None:
        ip(f"address add {address} dev {device}")

    def remove_address(self, device: str, address: str) -> None:
        ip(f"address delete {address} dev {device}")

    def addresses(self, device: str) -> set[str]:
        (link,) = json.loads(printed("ip", "-n", "node", "-json", "address", "show", "dev", device))
        return {f"{each['local']}/{each['prefixlen']}" for each in link["addr_info"]}

    def add_default_route(self, device: str) -> None:
        ip(f"route add default dev {device}")

    def drop_route(self, device: str, route: Route) -> None:
        kind = "local " if route.table == LOCAL_TABLE else ""
        ip(f"route del {kind}{route.to} dev {device} table {route.table}")

    def drop_rules(self, table: int, version: int = 4) -> None:
        ip(f"-{version} rule delete table {table}")

    def drop_table(self, table: int) -> None:
        flush(f"route flush table {table}")

    def change_vlan(self, link: str, vid: int, *, add: bool, self_: bool) -> None:
        arguments = f"vlan {'add' if add else 'delete'} vid {vid} dev {link} {'self' if self_ else ''}"
        ip(arguments, program="bridge")

    def advertise(self, *prefixes: str, dhcpv6: str = "") -> None:
        self._machine.advertise(*prefixes, dhcpv6=dhcpv6)

    def lease6(self, address: str = "") -> None:
        self._machine.lease6(address)

    def occupy(self, address: str, present: bool = True) -> None:
        self._machine.occupy(address, present)

    async def stop_network_manager(self) -> None:
        self._machine.stop_network_manager()

    async def start_network_manager(self) -> None:
        self._machine.start_network_manager()
        await self._answers()


class RealBed:
    """The node of a machine, in real time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def run(self, scenario: Scenario) -> None:
        """Runs a scenario to its end."""

        async def main() -> None:
            node = RealNode(self._machine)
            async with node.network_manager:
                await node.prepare()
                await scenario(node)

        asyncio.run(main())
