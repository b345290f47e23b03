"""A cluster that has nothing but isolated networks and those who use them: an API server, two managers, their webhooks.

Between the moment at which a webhook allows an object and the moment at which it is stored anything may happen, for as
long as an API server may take for a request. What managers send may arrive long after they gave it up.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol, TypeVar

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.dummy.admission import DummyAdmission, NetworkClaims
from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.reader import StoreReader, dummy_informers
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.election import Elector
from lanloom.kube.events import Recorder
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.nads.admission import ReferenceAdmission
from lanloom.nads.users import NadUsers, user_informers
from lanloom.runtime.https import errors
from lanloom.runtime.webhooks import answer, mutate_all, refer_all, validate_all
from lanloom.runtime.webhooktable import TableAdmission
from lanloom_embedded.engine.calls import SYSTEM, Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.engine.webhooks import Attributes, WebhookError
from lanloom_embedded.kinds import Raw
from lanloom_embedded.local import LocalClient
from tests.sim.dummy_clients import (
    ALL_OF_THEM,
    BlindClient,
    CarelessClient,
    ForgetfulClient,
    Protections,
)
from tests.sim.dummy_judge import USERS, Verifier
from tests.sim.faults import Faults, FaultyClient
from tests.sim.processes import Life
from tests.sim.simulation import Happening
from tests.sim.twomanagers import LateClient, TwoManagers

T = TypeVar("T", bound=Object)

HISTORY = 60
"""So many changes does the API server remember: a client that is away for a while finds its version gone (410)."""

STORE_SECONDS = 55.0
"""How long after the webhooks' answer an API server may still store an object, within its 60 seconds for a request."""

SETTINGS = Settings(default=False, image="registry.example/lanloom@sha256:" + "0" * 64, node_timeout=60.0)
ALICE = UserInfo(username="alice")


class DummyCluster(TwoManagers):
    """One cluster for one seed."""

    _calm, _down, _apart, _steps = 10.0, 4.0, 15.0, 60

    def __init__(self, seed: int, storage: MemoryStorage, protections: Protections = ALL_OF_THEM) -> None:
        now = asyncio.get_running_loop().time
        webhooks, rng = Webhooks(self), Random(f"engine {seed}")
        engine = Engine(storage, webhooks=webhooks, now=now, rng=rng, history=HISTORY)
        super().__init__(seed, engine, LANLOOM_NAMESPACE)
        self.users = LocalClient(self.engine, ALICE)
        self.witness = Verifier(self.note)
        self.replicas: dict[str, tuple[TableAdmission, ...]] = {}
        self.served = asyncio.Event()
        self.rng = Random(f"delays {seed}")
        slow = SlowAdmission(self.engine._admission, self.faults, self.rng)
        self.engine._writer._admission = slow  # type: ignore[assignment]
        self._protections = protections
        self.engine.ledger.listen(self.witness.see)

    def _misfortunes(self) -> dict[Happening, int]:
        return {self._kill: 6, self._partition: 3, self._steal_lease: 3, self._lose_hearing: 6}

    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        late = LateClient(LocalClient(self.engine, SYSTEM), self, name, rng)
        client: Client = FaultyClient(late, self.faults, life, name)
        shared = Informers(client, rng)
        informers, watched = dummy_informers(shared), user_informers(shared)
        blind: Client = client if self._protections.fresh else BlindClient(client, watched)
        if not self._protections.version:
            blind = CarelessClient(blind)
        users = NadUsers(client, watched, self.now)
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        manager = DummyManager(blind, informers, users, recorder, lambda: SETTINGS, now=self.now, rng=rng)
        webhooks = ForgetfulClient(client, self._protections)
        world = StoreReader(informers, users, lambda: SETTINGS)
        elector = Elector(client, LANLOOM_NAMESPACE, "lanloom-manager", name, now=self.now, rng=rng)
        every = {id(item): item for item in (*informers.all(), *watched.all())}.values()
        async with asyncio.TaskGroup() as group:
            for informer in every:
                group.create_task(informer.run())
            await all_synced(every)
            claims = NetworkClaims(webhooks, world)
            admissions: tuple[TableAdmission, ...] = (
                DummyAdmission(webhooks, world, is_manager, InFlight(), now=self.now),
                ReferenceAdmission(webhooks, world.nad, users.seen, lambda: claims, now=self.now),
            )
            self.replicas[name] = admissions
            self.served.set()
            try:
                await elector.run(lambda: self._lead(name, manager, rng))
            finally:
                if self.replicas.get(name) is admissions:  # the next life may have begun
                    del self.replicas[name]

    async def _lose_hearing(self) -> None:
        """A manager hears nothing of NADs, of some users, or of any, for longer than any request, perhaps."""
        name = self._process().name
        ears = self._deafen(
            name, *self._rng.choice(([NADS.plural], [self._rng.choice(sorted(USERS))], sorted(USERS)))
        )
        await asyncio.sleep(self._rng.random() * 200)
        self._listen(ears)


async def is_manager(user: UserInfo) -> bool:
    """Whether a request is one of the managers."""
    return user == SYSTEM


class Reviewed(Protocol):
    """A cluster whose managers take reviews."""

    replicas: dict[str, tuple[TableAdmission, ...]]
    rng: Random

    @property
    def faults(self) -> Faults:
        """What goes wrong with requests."""
        ...

    @property
    def witness(self) -> Verifier:
        """Who keeps what was allowed."""
        ...


class Webhooks:
    """Takes reviews to one of the replicas that run, if it can be reached."""

    def __init__(self, cluster: Reviewed) -> None:
        self._cluster = cluster

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """As the port says."""
        cluster = self._cluster
        await cluster.faults.pause()
        names = sorted(cluster.replicas)
        if not names or cluster.faults.strikes(0.01):
            raise WebhookError("connection refused")
        admissions = cluster.replicas[cluster.rng.choice(names)]
        path = webhook["clientConfig"]["url"].rpartition("/")[2]
        refers = path == "references"
        before = cluster.witness.present(review["request"]) if refers else frozenset()
        decide = {
            "references": refer_all(admissions),
            "mutate": mutate_all(admissions),
            "validate": validate_all(admissions),
        }[path]
        asking = asyncio.create_task(answer(msgspec.json.encode(review), decide, lambda *_: None))
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


class SlowAdmission:
    """The API server's chain of admission, after which it may take its time to store what was allowed, or drop it."""

    def __init__(self, chain: Any, faults: Faults, rng: Random) -> None:
        self._chain = chain
        self._faults = faults
        self._rng = rng

    async def mutate(self, asked: Attributes, call: Call, decode: Callable[[Raw], Any]) -> Raw | None:
        """As the chain does."""
        mutated: Raw | None = await self._chain.mutate(asked, call, decode)
        return mutated

    async def validate(self, asked: Attributes, call: Call) -> None:
        """As the chain does; then the delay."""
        await self._chain.validate(asked, call)
        share = {"pods": 0.25, "virtualmachines": 0.4, "virtualmachineinstances": 0.4, NADS.plural: 0.02}
        rng = self._rng
        if self._faults.strikes(share.get(asked.kind.plural, 0)):
            await asyncio.sleep(rng.random() * rng.choice((2, 10, STORE_SECONDS)))
            if rng.random() < 0.1:
                raise errors.internal("etcdserver: request timed out")
