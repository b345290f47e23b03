"""Two hours of random changes by users, Harvester's controller, an administrator and the modes, in virtual time.

Harvester is the lab's stand-in with all of its programs. Whose link is whose follows from who made it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from lanloom.api.harvester import HOST_NETWORK_CONFIGS, VLAN_CONFIGS
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NADS
from lanloom.features.vlan.migrate import migrate
from lanloom.features.vlan.rules.desired.names import profile_file
from lanloom.features.vlan.rules.migration.adopt import plan_adoption
from lanloom.features.vlan.rules.migration.handover import plan_hand_over
from lanloom.features.vlan.rules.migration.plans import Change
from lanloom.kube.errors import KubeError
from lanloom.node.marks import MARK
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains
from lanloom.refusals import Denied
from tests.fakes import FakeHost
from tests.features.vlan.cluster import host_network, nad
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.harness.examples import seeds
from tests.harness.harvester import Harvester
from tests.harness.interceptor import Request

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"
NETWORK_VIDS, HAND_VIDS, HOST_VIDS = (36, 40, 2012), (40, 50, 2012), (36, 60)
HOURS = 2
WINDOW, MOST = 60, 30
"""In so many seconds a process may write one object so often, and no oftener: twice as much as was ever seen."""


class Story:
    """The cluster, and what others have on its hosts."""

    def __init__(self, quiet: Quiet, rng: Random) -> None:
        self.quiet = quiet
        self.rng = rng
        self.harvester = Harvester(quiet.sim)
        self.coexisting = True
        self.by_hand: dict[tuple[str, str], Link] = {}
        self.harm: list[str] = []
        self.writes: list[tuple[float, str, Request]] = []
        self._acting = False
        self.host_networks: dict[str, int] = {}
        self._seen: dict[str, dict[str, Link]] = {}
        for name, host in quiet.sim.hosts.items():
            host.kernel.watchers.append(partial(self._look, name, host))
        quiet.sim.faults.on_write = self._hear

    def _hear(self, caller: str, request: Request) -> None:
        if "coordination" not in request.resource.group:
            self.writes.append((asyncio.get_running_loop().time(), caller, request))

    async def begin(self) -> None:
        """Harvester carries cluster-1."""
        await self.harvester.carry(10)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """The administrator changes links."""
        self._acting = True
        try:
            yield
        finally:
            self._acting = False

    def _theirs(self, node: str) -> set[str]:
        """The links that are none of Lanloom's: those made by hand, and those of HostNetworkConfigs."""
        hosts = {f"{BRIDGE}.{vid}" for vid in self.host_networks.values()}
        return hosts | {name for at, name in self.by_hand if at == node}

    def _look(self, node: str, host: FakeHost) -> None:
        """Compares the links of others before and after a change; the kernel lowers MTUs by itself.

        Harvester's agent takes what it deletes by name or VLAN id for its own, whatever made it.
        """
        if self.harvester.acting:
            for at, name in [key for key in self.by_hand if key[0] == node]:
                if not _stands(host, self.by_hand[at, name]):
                    del self.by_hand[at, name]
        links, theirs = host.kernel.links, self._theirs(node)
        before = {name: link for name, link in self._seen.get(node, {}).items() if name in theirs}
        after = self._seen[node] = {name: replace(links[name], mtu=0) for name in theirs if name in links}
        if not (self._acting or self.harvester.acting):
            self.harm += [
                f"{name} on {node} was changed: {link} -> {after.get(name)}"
                for name, link in before.items()
                if after.get(name) != link
            ]

    @property
    def actions(self) -> Mapping[Callable[[], Awaitable[None]], int]:
        """What may happen, each with its weight."""
        return {
            self.add_network: 4,
            self.remove_network: 3,
            self.add_host_network: 4,
            self.remove_host_network: 2,
            self.resize: 1,
            self.put_link: 3,
            self.take_link: 1,
            self.change_mode: 2,
            self.adopt: 1,
            self.migrate: 3,
            self.restart_agent: 2,
            self.restart_manager: 1,
            self.restart_harvester: 2,
        }

    async def step(self) -> None:
        """One of them."""
        chosen, weights = zip(*self.actions.items(), strict=True)
        await self.rng.choices(chosen, weights)[0]()

    async def add_network(self) -> None:
        """A user makes a NAD with node addresses, if the webhooks let it pass."""
        vid = self.rng.choice(NETWORK_VIDS)
        body = nad(f"vlan{vid}", "cluster-1", vid, mode="static", addresses=STATIC)
        with suppress(KubeError):
            await self.quiet.admin.create(NADS, body, "default")

    async def remove_network(self) -> None:
        """And removes one."""
        with suppress(KubeError):
            await self.quiet.admin.delete(NADS, f"vlan{self.rng.choice(NETWORK_VIDS)}", "default")

    async def add_host_network(self) -> None:
        """Or a HostNetworkConfig."""
        vid = self.rng.choice(HOST_VIDS)
        body = host_network(f"host{vid}", vid=vid, mode="static")
        body["spec"] |= {"ips": {node: f"10.{vid}.0.{index}/24" for index, node in enumerate(STATIC, 1)}}
        with suppress(KubeError):
            await self.quiet.admin.create(HOST_NETWORK_CONFIGS, body)
            self.host_networks[f"host{vid}"] = vid

    async def remove_host_network(self) -> None:
        """And removes one."""
        if self.host_networks:
            name = self.rng.choice(sorted(self.host_networks))
            vid = self.host_networks.pop(name)
            try:
                await self.quiet.admin.delete(HOST_NETWORK_CONFIGS, name)
            except KubeError:
                self.host_networks[name] = vid

    async def resize(self) -> None:
        """Gives the uplinks another MTU: Harvester makes the bonds again."""
        uplink = {"linkAttributes": {"mtu": self.rng.choice((1500, 9000))}}
        with suppress(KubeError):
            await self.quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": {"uplink": uplink}})

    async def put_link(self) -> None:
        """An administrator puts a VLAN link on the bridge of a node."""
        node, vid = self.rng.choice(sorted(self.quiet.sim.hosts)), self.rng.choice(HAND_VIDS)
        host = self.quiet.sim.hosts[node]
        name = self.rng.choice((interface_name("cluster-1", vid), f"hand{vid}"))
        taken = name in host.kernel.links or profile_file("cluster-1", vid) in host.directory.files
        if taken or BRIDGE not in host.kernel.links:
            return
        link = Link(name=name, index=0, kind="vlan", parent=BRIDGE, vlan_id=vid, up=True)
        with self.acting():
            host.kernel.add(replace(link, addresses=(f"10.{vid % 256}.0.1/24",)))
            host.add_vlan(BRIDGE, vid, self_=True)
            host.add_vlan(BOND, vid)
            self.by_hand[node, name] = host.kernel.links[name]

    async def take_link(self) -> None:
        """And takes one away."""
        if self.by_hand:
            node, name = self.rng.choice(sorted(self.by_hand))
            del self.by_hand[node, name]
            with self.acting():
                self.quiet.sim.hosts[node].delete_link(name)

    async def change_mode(self) -> None:
        """Harvester's chart is uninstalled, or installed again; sometimes both within a minute."""
        if not self.coexisting:
            await self.harvester.come_back()
            self.coexisting = True
            return
        await self.harvester.uninstall()
        self.coexisting = self.rng.random() < 0.5
        if self.coexisting:
            await asyncio.sleep(self.rng.random() * 50)
            await self.harvester.come_back()

    async def adopt(self) -> None:
        """An administrator gives the links to Lanloom, where that works alone."""
        if not self.coexisting:
            with self.acting():
                for host in self.quiet.sim.hosts.values():
                    for name in {BRIDGE, BOND} & host.kernel.links.keys():
                        host.kernel.change(name, alias=MARK)

    async def migrate(self) -> None:
        """Or begins to migrate, in whichever direction, with as much patience as may be."""
        planner = self.rng.choice(
            (
                partial(plan_adoption, namespace="default"),
                plan_hand_over,
                partial(plan_hand_over, convert=True),
            )
        )
        patience = self.rng.choice((0, 30, 120))
        with suppress(KubeError, Denied):
            await migrate(self.quiet.admin, planner, self._follow, wait_seconds=patience)

    def _follow(self, change: Change) -> None:
        """Takes in which HostNetworkConfigs a migration deletes and creates."""
        if change.resource is HOST_NETWORK_CONFIGS and change.verb == "delete":
            self.host_networks.pop(change.key.name, None)
        elif change.resource is HOST_NETWORK_CONFIGS and change.verb == "create":
            self.host_networks[change.key.name] = change.body["spec"]["vlanID"]

    async def restart_agent(self) -> None:
        """An agent dies, and starts again."""
        await self.quiet.restart(self.rng.choice(sorted(self.quiet.sim.hosts)))

    async def restart_manager(self) -> None:
        """The manager does."""
        await self.quiet.restart("manager-1")

    async def restart_harvester(self) -> None:
        """One of Harvester's programs does."""
        if self.coexisting:
            await self.quiet.restart(self.rng.choice(self.harvester.names))

    def check(self) -> None:
        """What others have is as they left it, with its VLAN id on the bridge; nothing writes again and again."""
        assert not self.harm, "\n".join(self.harm)
        for (node, name), link in self.by_hand.items():
            assert _stands(self.quiet.sim.hosts[node], link), f"{name} on {node}"
        since = asyncio.get_running_loop().time() - WINDOW
        recent = Counter(
            (caller, request.resource.plural, request.name)
            for at, caller, request in self.writes
            if at > since
        )
        assert not recent or max(recent.values()) <= MOST, recent.most_common(3)


def _stands(host: FakeHost, link: Link) -> bool:
    """Whether a link is as it was made, with its VLAN id on the bridge."""
    found = host.kernel.links.get(link.name)
    same = found is not None and replace(found, mtu=0) == replace(link, mtu=0)
    return same and contains(host.kernel.links[BRIDGE].self_vlans, link.vlan_id)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_two_hours(seed: int) -> None:
    """No link of others is touched, and once no program does anything any more, nothing is written either."""

    async def given(quiet: Quiet) -> None:
        story = Story(quiet, Random(seed))
        await story.begin()
        loop = asyncio.get_running_loop()
        end = loop.time() + HOURS * 3600
        while loop.time() < end:
            await story.step()
            await asyncio.sleep(story.rng.choice((0.5, 3, 20, 90, 240)))
            story.check()
        if not story.coexisting:
            await story.change_mode()
        await asyncio.sleep(300)
        story.writes.clear()
        before = {name: host.writes for name, host in quiet.sim.hosts.items()}
        await asyncio.sleep(600)
        story.check()
        assert {name: host.writes for name, host in quiet.sim.hosts.items()} == before
        assert not story.writes

    on_a_quiet_cluster(given)()
