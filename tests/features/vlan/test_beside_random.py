"""Two hours of random changes by users, Harvester's controller, an administrator and the modes, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.migrate import migrate
from lanloom.features.vlan.rules.adoptplan import plan_adoption
from lanloom.features.vlan.rules.handover import plan_hand_over
from lanloom.features.vlan.rules.names import interface_name, profile_file
from lanloom.kube.errors import KubeError
from lanloom.node.marks import MARK
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains
from lanloom.refusals import Denied
from tests.fakes import FakeHost
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.harness.examples import seeds
from tests.harness.harvester import Controller, install, install_account, uninstall
from tests.harness.interceptor import Request

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"
VIDS = (36, 40, 2012)
HOURS = 2


class Story:
    """The cluster, and what others have on its hosts."""

    def __init__(self, quiet: Quiet, rng: Random) -> None:
        self.quiet = quiet
        self.rng = rng
        self.beside = True
        self.controller = Controller(quiet.sim.engine, quiet.sim.hosts)
        self.theirs: dict[tuple[str, str], Link] = {}

    async def begin(self) -> None:
        """Harvester carries cluster-1."""
        await install(self.quiet.admin)
        await asyncio.sleep(5)
        await self.quiet.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await self.quiet.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        await self.controller.carry("cluster-1", "one", "eth1")

    @property
    def actions(self) -> Mapping[Callable[[], Awaitable[None]], int]:
        """What may happen, each with its weight."""
        return {
            self.add_network: 4,
            self.remove_network: 3,
            self.put_link: 4,
            self.take_link: 1,
            self.change_mode: 2,
            self.adopt: 1,
            self.migrate: 3,
            self.restart_agent: 2,
            self.restart_manager: 1,
        }

    async def step(self) -> None:
        """One of them."""
        chosen, weights = zip(*self.actions.items(), strict=True)
        await self.rng.choices(chosen, weights)[0]()

    async def add_network(self) -> None:
        """A user makes a NAD with node addresses, if the webhooks let it pass."""
        vid = self.rng.choice(VIDS)
        body = nad(f"vlan{vid}", "cluster-1", vid, mode="static", addresses=STATIC)
        with suppress(KubeError):
            await self.quiet.admin.create(NADS, body, "default")
            await self.controller.label(f"vlan{vid}", "cluster-1", vid)

    async def remove_network(self) -> None:
        """And removes one."""
        with suppress(KubeError):
            await self.quiet.admin.delete(NADS, f"vlan{self.rng.choice(VIDS)}", "default")

    async def put_link(self) -> None:
        """Harvester's controller, or an administrator, puts a VLAN link on the bridge of a node."""
        node, vid = self.rng.choice(sorted(self.quiet.sim.hosts)), self.rng.choice((*VIDS, 50))
        host = self.quiet.sim.hosts[node]
        name = self.rng.choice((interface_name("cluster-1", vid), f"hand{vid}"))
        taken = name in host.kernel.links or profile_file("cluster-1", vid) in host.directory.files
        if taken or BRIDGE not in host.kernel.links:
            return
        link = Link(name=name, index=0, kind="vlan", parent=BRIDGE, vlan_id=vid, up=True)
        host.kernel.add(replace(link, addresses=(f"10.{vid % 256}.0.1/24",)))
        host.add_vlan(BRIDGE, vid, self_=True)
        host.add_vlan(BOND, vid)
        self.theirs[node, name] = host.kernel.links[name]

    async def take_link(self) -> None:
        """And takes one away."""
        if self.theirs:
            node, name = self.rng.choice(sorted(self.theirs))
            del self.theirs[node, name]
            self.quiet.sim.hosts[node].delete_link(name)

    async def change_mode(self) -> None:
        """The service account goes, or comes back; sometimes both within a minute."""
        change = uninstall if self.beside else install_account
        await change(self.quiet.admin)
        self.beside = not self.beside
        if not self.beside and self.rng.random() < 0.5:
            await asyncio.sleep(self.rng.random() * 50)
            await install_account(self.quiet.admin)
            self.beside = True

    async def adopt(self) -> None:
        """An administrator gives the links to Lanloom, where that works alone."""
        if not self.beside:
            for host in self.quiet.sim.hosts.values():
                for name in {BRIDGE, BOND} & host.kernel.links.keys():
                    host.kernel.change(name, alias=MARK)

    async def migrate(self) -> None:
        """Or begins to migrate, in whichever direction, with as much patience as may be."""
        planner = self.rng.choice((partial(plan_adoption, namespace="default"), plan_hand_over))
        with suppress(KubeError, Denied):
            await migrate(
                self.quiet.admin, planner, lambda _: None, wait_seconds=self.rng.choice((0, 30, 120))
            )

    async def restart_agent(self) -> None:
        """An agent dies, and starts anew."""
        await self.quiet.restart(self.rng.choice(sorted(self.quiet.sim.hosts)))

    async def restart_manager(self) -> None:
        """The manager does."""
        await self.quiet.restart("manager-1")

    def check(self) -> None:
        """What others have is as they left it, with its VLAN id on the bridge."""
        for (node, name), link in self.theirs.items():
            host: FakeHost = self.quiet.sim.hosts[node]
            assert host.kernel.links.get(name) == link, f"{name} on {node} was changed or removed"
            assert contains(host.kernel.links[BRIDGE].self_vlans, link.vlan_id)
            assert BOND in host.kernel.links


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_two_hours(seed: int) -> None:
    """No link of others is touched, and once nobody does anything any more, nothing is written either."""

    async def given(quiet: Quiet) -> None:
        story = Story(quiet, Random(seed))
        await story.begin()
        loop = asyncio.get_running_loop()
        end = loop.time() + HOURS * 3600
        while loop.time() < end:
            await story.step()
            await asyncio.sleep(story.rng.choice((0.5, 3, 20, 90, 240)))
            story.check()
        await asyncio.sleep(300)
        writes: list[Request] = []
        quiet.sim.faults.on_write = writes.append
        before = {name: host.writes for name, host in quiet.sim.hosts.items()}
        await asyncio.sleep(600)
        story.check()
        assert {name: host.writes for name, host in quiet.sim.hosts.items()} == before
        assert not [request for request in writes if "coordination" not in request.resource.group]

    on_a_quiet_cluster(given)()
