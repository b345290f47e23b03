"""Harvester in a simulated cluster: the lab's stand-in, on fake hosts and the API server in memory.

Its processes are those of a lab (`lanloom_lab.harvester.processes`); here they can be killed anywhere, as all others.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.admission import UserInfo
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.node.ports import Link
from lanloom.node.vlanids import merge, subtract
from lanloom_embedded.local import LocalClient
from lanloom_lab.harvester.definitions import install as install_kinds
from lanloom_lab.harvester.definitions import install_accounts, uninstall
from lanloom_lab.harvester.links import (
    AddBond,
    AddBridge,
    AddVlanLink,
    Delete,
    SetAddress,
    SetMaster,
    SetVlan,
    Step,
)
from lanloom_lab.harvester.processes import Webhook, run_agent, run_manager
from lanloom_lab.harvester.wrangler import NotYetError
from tests.fakes import FakeHost
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.sim.cluster import SimCluster
from tests.sim.processes import Life

URL = "https://harvester-network-webhook"
MANAGER, WEBHOOK = "harvester-manager", "harvester-webhook"

log = structlog.get_logger(__name__)

ACCOUNT = UserInfo(username=names.HARVESTER_CONTROLLER, groups=("system:masters",))

__all__ = ["Harvester", "install", "install_accounts", "uninstall"]


async def install(admin: Client) -> None:
    """Its definitions in the place of Lanloom's, and its accounts, but none of its programs."""
    await install_kinds(admin)


def agent_of(node: str) -> str:
    """The name of its agent on a node."""
    return f"harvester-{node}"


class Harvester:
    """Its programs in a simulated cluster, and a client that writes as they do.

    `acting` says that it changes links now, and no other program does.
    """

    def __init__(self, sim: SimCluster) -> None:
        self._sim = sim
        self.client = LocalClient(sim.engine, ACCOUNT)
        self.acting = False
        sim.replicas.others[URL] = None
        sim.add_process(MANAGER, partial(self._run_manager))
        sim.add_process(WEBHOOK, partial(self._run_webhook))
        for number, (node, host) in enumerate(sorted(sim.hosts.items())):
            plant_installers(host, f"172.31.0.{number + 1}/24")
            sim.add_process(agent_of(node), partial(self._run_agent, node))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its processes."""
        return (MANAGER, WEBHOOK, *(agent_of(node) for node in sorted(self._sim.hosts)))

    async def install(self) -> None:
        """Install it: definitions, accounts, programs."""
        await install(self._sim.admin)
        self.start()

    async def carry(self, seconds: float) -> None:
        """Install it, and have it carry cluster-1 on all nodes; `seconds` are left to it then."""
        await self.install()
        await asyncio.sleep(5)
        await self._sim.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await self._sim.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        await asyncio.sleep(seconds)

    async def come_back(self) -> None:
        """Install it again where its definitions are."""
        await install_accounts(self._sim.admin)
        self.start()

    def start(self) -> None:
        """Start its programs."""
        for name in self.names:
            self._sim.processes[name].start()

    async def stop(self) -> None:
        """Kill its programs; everything else stays."""
        for name in self.names:
            await self._sim.processes[name].kill()

    async def uninstall(self) -> None:
        """Remove programs and accounts, as Helm does; links, objects and webhook configurations stay."""
        await self.stop()
        await uninstall(self._sim.admin)

    def _client(self, life: Life, name: str) -> Client:
        return self._sim.client(
            life, name, UserInfo(username=names.HARVESTER_CONTROLLER, groups=("system:masters",))
        )

    async def _run_manager(self, life: Life) -> None:
        await _kept(lambda: run_manager(self._client(life, MANAGER), self._sim.new_rng(MANAGER)))

    async def _run_agent(self, node: str, life: Life) -> None:
        links = SimLinks(self, self._sim, node, life)
        name = agent_of(node)
        await _kept(lambda: run_agent(self._client(life, name), node, links, self._sim.new_rng(name)))

    async def _run_webhook(self, life: Life) -> None:
        webhook = Webhook(self._client(life, WEBHOOK), self._sim.new_rng(WEBHOOK))
        self._sim.replicas.others[URL] = webhook.answer
        try:
            await _kept(lambda: webhook.run(URL))
        finally:
            self._sim.replicas.others[URL] = None


async def _kept(program: Any) -> None:
    """Run a program again when it can't start, as a kubelet does."""
    while True:
        try:
            await program()
        except (KubeError, ExceptionGroup) as error:
            log.info("harvester-restarts", error=str(error))
            await asyncio.sleep(1)


class SimLinks:
    """The links of a fake host as its agent changes them. Kernel and `acting` tell who did."""

    def __init__(self, harvester: Harvester, sim: SimCluster, node: str, life: Life) -> None:
        self._harvester = harvester
        self._sim = sim
        self._node = node
        self._life = life

    @property
    def _host(self) -> FakeHost:
        return self._sim.hosts[self._node]

    async def read(self) -> Mapping[str, Link]:
        """As the port says."""
        self._life.check()
        await asyncio.sleep(0)
        return dict(self._host.kernel.state().links)

    async def apply(self, *steps: Step) -> None:
        """As the port says."""
        for step in steps:
            self._life.check()
            await asyncio.sleep(0)
            self._life.check()
            self._harvester.acting = True
            try:
                apply(self._host, step)
            except KeyError as error:
                raise NotYetError(f"there is no link {error}") from None
            finally:
                self._harvester.acting = False

    async def lease(self, link: str) -> str:
        """As the port says: the client is known by the link's hardware address."""
        for _ in range(5):
            self._life.check()
            found = self._host.kernel.links.get(link)
            if found is not None and self._host.kernel.carries(found.parent, found.vlan_id):
                offer = self._sim.switch.offer(found.vlan_id, f"{self._node} {found.mac} harvester")
                if offer is not None:
                    return offer.address
            await asyncio.sleep(2)
        raise NotYetError(f"no IP address obtained from DHCP server on {link}")


def apply(host: FakeHost, step: Step) -> None:
    """Do to a fake host what the step's script does to a node."""
    kernel = host.kernel
    match step:
        case AddBond(name, mode, miimon, mtu, queue):
            kernel.make(name, "bond", "")
            kernel.change(
                name, bond_mode=mode, bond_miimon=miimon, **({"tx_queue_length": queue} if queue > 0 else {})
            )
            if mtu:
                kernel.set_mtu(name, mtu)
            kernel.set_up(name)
        case AddBridge(name):
            if name not in kernel.links:
                kernel.make(name, "bridge", "")
            kernel.change(name, vlan_filtering=True)
            kernel.set_up(name)
        case SetMaster(name, master):
            kernel.set_master(name, master)
            kernel.set_up(name)
        case Delete(name):
            kernel.delete(name)
        case SetVlan(name, vid, on, itself):
            field = "self_vlans" if itself else "vlans"
            before = getattr(kernel.links[name], field)
            after = merge((*before, (vid, vid))) if on else subtract(before, ((vid, vid),))
            kernel.change(name, **{field: after})
        case AddVlanLink(name, parent, vid):
            mac, mtu = kernel.links[parent].mac, kernel.links[parent].mtu
            kernel.add(
                Link(name=name, index=0, kind="vlan", parent=parent, vlan_id=vid, mac=mac, mtu=mtu, up=True)
            )
        case SetAddress(name, address):
            kernel.change(name, addresses=(address,))


def plant_installers(host: FakeHost, address: str) -> None:
    """The uplink of `mgmt`, which every node of Harvester has from its installer, on a NIC of its own."""
    host.plant_link(Link(name="eno1", index=0, up=True))
    host.plug("eno1")
    host.plant_management(address, vid=0, nic="eno1")


def plant(host: FakeHost, link: Link) -> Link:
    """A VLAN link that an administrator makes by hand, with its id on bridge and uplink."""
    host.kernel.add(link)
    for port, itself in ((link.parent, True), (link.parent.removesuffix("-br") + "-bo", False)):
        host.add_vlan(port, link.vlan_id, self_=itself)
    return replace(host.kernel.links[link.name])
