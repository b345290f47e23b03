"""A cluster that has nothing but isolated networks and those who use them: an API server, two managers, their webhooks.

Between the moment at which a webhook allows an object and the moment at which it is stored anything may happen, for as
long as an API server may take for a request. What managers send may arrive long after they gave it up.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.api.core import LEASES, NODES, PODS, Node, Pod
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.apiserver import errors
from lanloom.apiserver.engine.calls import SYSTEM, Call
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.engine.webhooks import Attributes, WebhookError
from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.local import LocalClient
from lanloom.app.webhooks import answer
from lanloom.dummy.admission import DummyAdmission
from lanloom.dummy.manager import DummyManager, dummy_informers
from lanloom.dummy.rules.model import Settings
from lanloom.dummy.users import Users, user_informers
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from tests.sim.dummy_clients import (
    ALL_OF_THEM,
    BlindClient,
    ForgetfulClient,
    ForgetfulWorld,
    LateClient,
    Protections,
)
from tests.sim.dummy_judge import USERS, Witness
from tests.sim.faults import Faults, FaultyClient, retrieve
from tests.sim.processes import Life, Process

T = TypeVar("T", bound=Object)

HISTORY = 60
"""So many changes does the API server remember: whoever is away for a while finds its version gone (410)."""

STORE_SECONDS = 55.0
"""How long after the webhooks' answer an API server may still store an object, within its 60 seconds for a request."""

SETTINGS = Settings(default=False, image="registry.example/lanloom@sha256:" + "0" * 64, node_timeout=60.0)
ALICE = UserInfo(username="alice")

Happening = Callable[[], Coroutine[Any, Any, None]]


class DummyCluster:
    """One cluster for one seed."""

    def __init__(self, seed: int, storage: MemoryStorage, protections: Protections = ALL_OF_THEM) -> None:
        self.now = asyncio.get_running_loop().time
        self.faults = Faults(Random(f"faults {seed}"))
        self.engine = Engine(
            storage, webhooks=_Webhooks(self), now=self.now, rng=Random(f"engine {seed}"), history=HISTORY
        )
        self.engine._writer._admission = _Slow(self)  # type: ignore[assignment]
        self.admin = LocalClient(self.engine)
        self.users = LocalClient(self.engine, ALICE)
        self.witness = Witness(self.note)
        self.deaf: dict[tuple[str, str], asyncio.Event] = {}
        self.journal: list[str] = []
        self.replicas: dict[str, DummyAdmission] = {}
        self.served = asyncio.Event()
        self.processes = {
            name: Process(name, partial(self._manage, name)) for name in ("manager-1", "manager-2")
        }
        self.rng = Random(f"delays {seed}")
        self._protections = protections
        self._seed = seed
        self._lives = 0
        self._rng = Random(f"chaos {seed}")
        self._began = self.now()
        self.engine.ledger.listen(self.witness.see)

    def note(self, text: str) -> None:
        """Writes down what happened, for whoever must understand a failure."""
        self.journal.append(f"{self.now() - self._began:9.3f} v{self.engine.ledger.version} {text}")

    async def start(self) -> None:
        """The API server and both managers."""
        await self.engine.start()
        for process in self.processes.values():
            process.start()

    async def close(self) -> None:
        """Ends everything."""
        for process in self.processes.values():
            await process.kill()
        await self.engine.close()

    async def heal(self) -> None:
        """Ends all faults; whatever is down comes up."""
        self.note("all faults end")
        self.faults.on = False
        self.faults.partitioned.clear()
        for ears in self.deaf.values():
            ears.set()
        self.deaf.clear()
        for process in self.processes.values():
            await process.revive()

    async def misfortunes(self) -> None:
        """Lets one thing after the other happen until cancelled."""
        acts: dict[Happening, int] = {
            self._kill: 6,
            self._partition: 3,
            self._steal_lease: 3,
            self._deafen: 6,
        }
        happenings, weights = list(acts), list(acts.values())
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.expovariate(1 / 10.0))
                group.create_task(self._rng.choices(happenings, weights)[0]())

    async def hears(self, name: str, plural: str) -> None:
        """Returns when a manager's watch of a resource brings something again."""
        ears = self.deaf.get((name, plural))
        if ears is not None:
            await ears.wait()

    async def _manage(self, name: str, life: Life) -> None:
        self._lives += 1
        rng = Random(f"{name} {self._lives} {self._seed}")
        late = LateClient(LocalClient(self.engine, SYSTEM), self, name, rng)
        client: Client = FaultyClient(late, self.faults, life, name)
        machines: Informer[VirtualMachine] = Informer(client, VIRTUAL_MACHINES, rng=rng, optional=True)
        instances: Informer[VirtualMachineInstance] = Informer(
            client, VIRTUAL_MACHINE_INSTANCES, rng=rng, optional=True
        )
        pods: Informer[Pod] = Informer(client, PODS, rng=rng)
        nads: Informer[NetworkAttachmentDefinition] = Informer(client, NADS, rng=rng)
        nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        informers = dummy_informers(client, nads, nodes, pods, rng)
        watched = user_informers(client, rng, machines=machines, instances=instances, pods=pods)
        users = Users(watched, self.now)
        blind = client if self._protections.fresh else BlindClient(client, watched)
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        manager = DummyManager(blind, informers, users, recorder, lambda: SETTINGS, now=self.now, rng=rng)
        webhooks = ForgetfulClient(client, self._protections)
        world = ForgetfulWorld(informers, users, lambda: SETTINGS, self._protections)
        elector = Elector(client, LANLOOM_NAMESPACE, "lanloom-manager", name, now=self.now, rng=rng)
        every = {id(item): item for item in (*informers.all(), *watched.all())}.values()
        async with asyncio.TaskGroup() as group:
            for informer in every:
                group.create_task(informer.run())
            await all_synced(every)
            admission = DummyAdmission(webhooks, world, _is_manager, now=self.now)
            self.replicas[name] = admission
            self.served.set()
            try:
                await elector.run(lambda: self._lead(name, manager, rng))
            finally:
                if self.replicas.get(name) is admission:  # the next life may have begun
                    del self.replicas[name]

    async def _lead(self, name: str, manager: DummyManager, rng: Random) -> None:
        """Leads, and now and then goes on for a while after it has lost the lease, as a slow process would."""
        self.note(f"{name} leads")
        leading = asyncio.create_task(manager.run())
        leading.add_done_callback(retrieve)
        try:
            await asyncio.shield(leading)
        except asyncio.CancelledError:
            if self.faults.strikes(0.7):
                self.note(f"{name} does not know yet that it has lost the lease")
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(rng.random() * 40)
            raise
        finally:
            leading.cancel()
            self.note(f"{name} leads no longer")

    async def _kill(self) -> None:
        process = self._process()
        self.note(f"kill {process.name} soon")
        await process.kill_within(self._rng.randrange(1, 60), self._rng.random() * 10)
        await asyncio.sleep(self._rng.expovariate(1 / 4.0))
        self.note(f"start {process.name}")
        process.start()

    async def _partition(self) -> None:
        name = self._process().name
        self.note(f"cut {name} off the network")
        self.faults.partitioned.add(name)
        await asyncio.sleep(self._rng.expovariate(1 / 15.0))
        self.faults.partitioned.discard(name)

    async def _steal_lease(self) -> None:
        """The lease passes to the other manager at once, while the one that had it goes on."""
        self.note("steal the lease")
        with suppress(KubeError):
            spec = {"holderIdentity": self._rng.choice(("", "a thief")), "leaseDurationSeconds": 1}
            await self.admin.patch(LEASES, "lanloom-manager", {"spec": spec}, LANLOOM_NAMESPACE)

    async def _deafen(self) -> None:
        """A manager hears nothing of NADs, of some users, or of any, for longer than any request, perhaps."""
        name, ears = self._process().name, asyncio.Event()
        plurals = self._rng.choice(([NADS.plural], [self._rng.choice(sorted(USERS))], sorted(USERS)))
        self.note(f"{name} hears nothing of {plurals} any more")
        for plural in plurals:
            self.deaf.setdefault((name, plural), ears)
        await asyncio.sleep(self._rng.random() * 200)
        self.deaf = {key: other for key, other in self.deaf.items() if other is not ears}
        ears.set()

    def _process(self) -> Process:
        return self.processes[self._rng.choice(sorted(self.processes))]


async def _is_manager(user: UserInfo) -> bool:
    return user == SYSTEM


class _Webhooks:
    """Takes reviews to one of the replicas that run, if it can be reached."""

    def __init__(self, cluster: DummyCluster) -> None:
        self._cluster = cluster

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """As the port says."""
        cluster = self._cluster
        await cluster.faults.pause()
        names = sorted(cluster.replicas)
        if not names or cluster.faults.strikes(0.01):
            raise WebhookError("connection refused")
        replica = cluster.replicas[cluster.rng.choice(names)]
        refers = webhook["clientConfig"]["url"].endswith("/references")
        before = cluster.witness.present(review["request"]) if refers else frozenset()
        asking = asyncio.create_task(
            answer(
                msgspec.json.encode(review),
                replica.refer if refers else replica.validate,
                lambda _resource, _outcome, _seconds: None,
            )
        )
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
        if asking.cancelled():
            raise WebhookError("connection reset")
        answered: Raw = msgspec.json.decode(asking.result())
        if refers and answered["response"]["allowed"]:
            cluster.witness.allowed(review["request"], before)
        await cluster.faults.pause()
        return answered


class _Slow:
    """The API server's chain of admission, after which it may take its time to store what was allowed, or drop it."""

    def __init__(self, cluster: DummyCluster) -> None:
        self._cluster = cluster
        self._chain = cluster.engine._admission

    async def mutate(self, asked: Attributes, call: Call, decode: Callable[[Raw], Any]) -> Raw | None:
        """As the chain does."""
        return await self._chain.mutate(asked, call, decode)

    async def validate(self, asked: Attributes, call: Call) -> None:
        """As the chain does; then the delay."""
        await self._chain.validate(asked, call)
        share = {"pods": 0.25, "virtualmachines": 0.4, "virtualmachineinstances": 0.4, NADS.plural: 0.02}
        faults, rng = self._cluster.faults, self._cluster.rng
        if faults.strikes(share.get(asked.kind.plural, 0)):
            await asyncio.sleep(rng.random() * rng.choice((2, 10, STORE_SECONDS)))
            if rng.random() < 0.1:
                raise errors.internal("etcdserver: request timed out")
