"""A cluster that has nothing but LANs: an API server, two managers with their webhooks, nodes with agents and kubelets.

Managers are cut off, overthrown without noticing, and deaf; agents die at any step, and come back in other versions;
machines lose their power; links vanish; disks are full; what the API server was asked is stored late.
"""

import asyncio
from functools import partial
from random import Random

from lanloom.api.core import NAMESPACES, NODES
from lanloom.api.lan import LAN_NODES
from lanloom.api.meta import rfc3339
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.features.lan.admission import LanAdmission
from lanloom.features.lan.manager.controllers import LanManager
from lanloom.features.lan.reader import lan_informers
from lanloom.kube.election import Elector
from lanloom.kube.events import Recorder
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.nads.admission import ReferenceAdmission
from lanloom.nads.users import NadUsers, user_informers
from lanloom.runtime.webhooktable import TableAdmission
from lanloom_embedded.engine.calls import SYSTEM
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.sim.caching import CachingEngine
from tests.sim.dummy import ALICE, HISTORY, SlowAdmission, Webhooks, is_manager
from tests.sim.dummy_clients import BlindClient, ForgetfulClient
from tests.sim.faults import FaultyClient
from tests.sim.lan_clients import ALL_OF_THEM, VERSIONS, EmptyListClient, FrugalClient, LanProtections
from tests.sim.lan_judge import JudgedClient, LanVerifier
from tests.sim.lan_kubelet import Kubelet
from tests.sim.lan_nodes import HOST_BRIDGE, TRUNK, SimNode
from tests.sim.processes import Life, Process
from tests.sim.simulation import Happening
from tests.sim.twomanagers import LateClient, TwoManagers

NODE_NAMES = ("node1", "node2")
GRACE_SECONDS = 40.0
"""After so long without its kubelet a node is not Ready."""

LAG_SECONDS = 10.0
"""By how much the API server's cache is late, when it is."""

PACE_SECONDS = 0.3
"""How long a write of a manager takes at the most, when nothing is wrong."""


def has_uplinks(seed: int) -> bool:
    """Whether a schedule has LANs at VLANs and bridges of the hosts: elections take the time of many others."""
    return seed % 5 == 4


class LanCluster(TwoManagers):
    """One cluster for one seed."""

    _calm, _down, _apart, _steps = 6.0, 3.0, 15.0, 60

    def __init__(self, seed: int, storage: MemoryStorage, protections: LanProtections = ALL_OF_THEM) -> None:
        now = asyncio.get_running_loop().time
        webhooks, rng = Webhooks(self), Random(f"engine {seed}")
        engine = CachingEngine(storage, webhooks=webhooks, now=now, rng=rng, history=HISTORY)
        super().__init__(seed, engine, LANLOOM_NAMESPACE)
        lags = Random(f"lags {seed}")
        engine.lag = lambda: (
            lags.expovariate(1 / LAG_SECONDS) if self.faults.on and lags.random() < 0.3 else 0.0
        )
        self.rng = Random(f"delays {seed}")
        slow = SlowAdmission(self.engine._admission, self.faults, self.rng)
        self.engine._writer._admission = slow  # type: ignore[assignment]
        self.users = LocalClient(self.engine, ALICE)
        self.witness = LanVerifier(self.note, self.now)
        self.replicas: dict[str, tuple[TableAdmission, ...]] = {}
        self.served = asyncio.Event()
        self.protections = protections
        self.uplinks = has_uplinks(seed)
        self.nodes: dict[str, SimNode] = {}
        self.kubelets: dict[str, Kubelet] = {}
        for number, name in enumerate(NODE_NAMES, 1):
            node = self.nodes[name] = SimNode(self, name, number)
            self.kubelets[name] = Kubelet(node, self, Random(f"{name} {seed}"))
            self.processes[name] = Process(name, partial(self._begin, name))
            self.faults.cut[name] = partial(getattr, node, "hangs")
        self.engine.ledger.listen(self.witness.see)
        for kubelet in self.kubelets.values():
            self.engine.ledger.listen(kubelet.see)

    def _misfortunes(self) -> dict[Happening, int]:
        with_uplinks: dict[Happening, int] = {self._replug: 4, self._hang: 4} if self.uplinks else {}
        return with_uplinks | {
            self._kill: 10,
            self._terminate: 2,
            self._partition: 3,
            self._steal_lease: 3,
            self._lose_hearing: 3,
            self._power_cycle: 3,
            self._lose_sandbox: 2,
            self._meddle: 3,
            self._fill_disk: 1,
        }

    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        if name in self.nodes:
            await self.nodes[name].run_agent(life, rng)
            return
        late = LateClient(LocalClient(self.engine, SYSTEM), self, name, rng, pace=PACE_SECONDS)
        client: Client = FrugalClient(FaultyClient(late, self.faults, life, name))
        shared = Informers(client, rng)
        watched, informers = user_informers(shared), lan_informers(shared)
        users = NadUsers(client, watched, self.now)
        hasty: Client = client if self.protections.nodes else EmptyListClient(client, LAN_NODES)
        blind: Client = hasty if self.protections.fresh else BlindClient(hasty, watched)
        blind_users = NadUsers(blind, watched, self.now)
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        judged = JudgedClient(blind, self.witness, name)
        manager = LanManager(judged, informers, blind_users, recorder, now=self.now, rng=rng)
        elector = Elector(
            client, LANLOOM_NAMESPACE, "lanloom-manager", name, now=self.now, rng=rng, retry=5.0
        )
        async with asyncio.TaskGroup() as group:
            for informer in shared.all():
                group.create_task(informer.run())
            await all_synced(shared.all())
            webhooks = ForgetfulClient(client, self.protections)
            admissions: tuple[TableAdmission, ...] = (
                ReferenceAdmission(
                    webhooks, informers.nads.store.get, users.seen, lambda: None, now=self.now
                ),
                LanAdmission(client, informers, users, is_manager, _nowhere, InFlight(), now=self.now),
            )
            self.replicas[name] = admissions
            self.served.set()
            try:
                await elector.run(lambda: self._lead(name, manager, rng))
            finally:
                if self.replicas.get(name) is admissions:  # the next life may have begun
                    del self.replicas[name]

    async def start(self) -> None:
        """The API server, the managers and the agents."""
        await super().start()
        if self.uplinks:
            await self.admin.create(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
        for name in self.nodes:
            await self.admin.create(NODES, {"metadata": {"name": name}})
            await self._node_is(name, "True")

    async def heal(self) -> None:
        """Ends all faults; whatever is down comes up."""
        for node in self.nodes.values():
            node.fake.state.full = False
            node.go_on()
        for name in self.nodes:
            await self._power_on(name)
        await super().heal()

    async def close(self) -> None:
        """Ends everything."""
        for kubelet in self.kubelets.values():
            kubelet.power_off()
        await super().close()

    async def _node_is(self, name: str, ready: str) -> None:
        (self.witness.returns if ready == "True" else self.witness.goes)(name)
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(self.now())}
        await self.admin.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def _come_back(self, process: Process) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / self._down))
        if process.name not in self.nodes:
            self.note(f"start {process.name}")
            process.start()
        elif self.nodes[process.name].on:
            node = self.nodes[process.name]
            node.version = self._rng.choice(VERSIONS)
            self.note(f"start {process.name} in {node.version} version")
            process.start()

    async def _power_cycle(self) -> None:
        """A machine is off, for moments or for longer than it is waited for."""
        name = self._rng.choice(NODE_NAMES)
        node, mean = self.nodes[name], self._rng.choice((10, 10, 60, 400))
        if not node.on:
            return
        seconds = self._rng.expovariate(1 / mean)
        self.note(f"power off {name} for {seconds:.0f} s")
        self.kubelets[name].power_off()
        node.power_off()
        await self.processes[name].kill()
        await asyncio.sleep(min(seconds, GRACE_SECONDS))
        if seconds > GRACE_SECONDS and not node.on:
            await self._node_is(name, "Unknown")
            await asyncio.sleep(seconds - GRACE_SECONDS)
        await self._power_on(name)

    async def _power_on(self, name: str) -> None:
        node = self.nodes[name]
        if node.on:
            return
        self.note(f"power on {name}")
        node.boot()
        self.kubelets[name].power_on()
        self.processes[name].start()
        await self._node_is(name, "True")

    async def _lose_sandbox(self) -> None:
        self.kubelets[self._rng.choice(NODE_NAMES)].restart_sandbox()
        await asyncio.sleep(0)

    async def _meddle(self) -> None:
        """A user deletes a link, or the name of a namespace."""
        name = self._rng.choice(NODE_NAMES)
        world = self.nodes[name].world
        if not world.names:
            return
        ns = self._rng.choice(sorted(world.names))
        links = sorted(world.names[ns].links)
        self.witness.damage(name, ns)
        if links and self._rng.random() < 0.8:
            link = self._rng.choice(links)
            self.note(f"{name}: ip -n {ns} link delete {link}")
            world.delete_link(ns, link)
        else:
            self.note(f"{name}: ip netns delete {ns}")
            world.delete_name(ns)
        await asyncio.sleep(0)

    async def _fill_disk(self) -> None:
        node = self.nodes[self._rng.choice(NODE_NAMES)]
        self.note(f"fill the disk of {node.name}")
        node.fake.state.full = True
        await asyncio.sleep(self._rng.random() * 15)
        node.fake.state.full = False

    async def _replug(self) -> None:
        """The uplink of a host has other VLANs, or its bridge of an isolated network goes and comes."""
        node = self.nodes[self._rng.choice(NODE_NAMES)]
        vlans = self._rng.choice((TRUNK, TRUNK, *({vlan} for vlan in TRUNK), ()))
        here = self._rng.random() < 0.7
        if not node.on:
            return
        self.note(f"{node.name} has the VLANs {sorted(vlans)}, " + "and the bridge" * here)
        node.plug(vlans)
        if here:
            node.world.bridges[HOST_BRIDGE["name"]] = (41, HOST_BRIDGE["alias"])
        else:
            node.world.bridges.pop(HOST_BRIDGE["name"], None)
        await asyncio.sleep(0)

    async def _hang(self) -> None:
        """An agent hangs, or is stopped as a whole, for moments or for longer than others wait for it."""
        node, wholly = self.nodes[self._rng.choice(NODE_NAMES)], self._rng.random() < 0.5
        seconds = self._rng.expovariate(1 / self._rng.choice((4, 30)))
        if node.hangs:
            return
        self.note(f"the agent of {node.name} {'is stopped' if wholly else 'hangs'} for {seconds:.0f} s")
        node.stop(wholly=wholly)
        try:
            await asyncio.sleep(seconds)
        finally:  # or no task that waits for it, as one that powers its machine off, would ever end
            node.go_on()

    async def _lose_hearing(self) -> None:
        """A manager hears nothing of NADs, pods or reports for a while."""
        name = self._rng.choice(("manager-1", "manager-2"))
        ears = self._deafen(name, self._rng.choice((NADS.plural, "pods", "lannodes", "lans")))
        await asyncio.sleep(self._rng.random() * 200)
        self._listen(ears)


def _nowhere(_pod: str) -> str:
    return ""
