"""Random schedules: managers that die and overlap, pods that are stored late, spokes and LANs that come and go.

Pods pass the webhooks of either replica before they are stored. At every deletion of a NAD it is asked whether a stored
pod uses it, and at every pod that is stored, whether the NAD is still there for which it was let in. In the end nobody
uses anything, and nothing of any LAN is left. Without the marks on NADs, the same schedules do harm.
"""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from lanloom.api.admission import AdmissionRequest, GroupVersionResource, UserInfo
from lanloom.api.core import PODS
from lanloom.api.lan import LANS
from lanloom.api.multus import MULTUS_NETWORKS, NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.features.dummy.admission import DummyAdmission
from lanloom.features.dummy.manager.reader import StoreReader, dummy_informers
from lanloom.features.dummy.port import SharedUsers
from lanloom.features.dummy.rules.model import Settings
from lanloom.features.dummy.users import Users, user_informers
from lanloom.kube.errors import ApiError, NotFound
from lanloom.kube.informers import Informers
from lanloom.runtime.context import NadRequest
from lanloom_embedded.local import LocalClient
from tests.features.dummy.manager.scene import Mortal
from tests.features.lan.manager.scene import NAMES, PLACE, Scene, play

STEPS = 25
SETTINGS = Settings(default=False)


class Judged(Mortal):
    """A manager's client that may die at any request; `harm` is what its deletions of NADs did."""

    harm: list[str]

    async def delete(self, resource: Resource[Any], name: str, namespace: str = "", **options: Any) -> None:
        """As the port says."""
        users = await _users(self._inner, f"{namespace}/{name}") if resource is NADS else []
        await super().delete(resource, name, namespace, **options)
        if users:
            self.harm.append(f"{name} was deleted from under {users}")


async def _users(client: Any, nad: str) -> list[str]:
    pods = (await client.list(PODS)).items
    return [pod.metadata.name for pod in pods if pod.metadata.annotations.get(MULTUS_NETWORKS) == nad]


class Story:
    """One schedule. `harm` is what users suffered."""

    def __init__(self, scene: Scene, rng: Random) -> None:
        self.scene = scene
        self.rng = rng
        self.harm: list[str] = []
        self._pods = 0
        self._late: list[asyncio.Task[None]] = []
        self._managers: list[str] = []
        self._replicas: list[DummyAdmission] = []

    async def replica(self) -> None:
        """One more replica of the webhooks, with watches of its own."""
        client = LocalClient(self.scene.engine)
        shared = Informers(client, self.rng)
        users = Users(user_informers(shared), self.scene.now)
        reader = StoreReader(dummy_informers(shared), users, lambda: SETTINGS)

        async def is_manager(_user: UserInfo) -> bool:
            return False

        self._replicas.append(DummyAdmission(client, reader, is_manager, now=self.scene.now))
        self._late += [asyncio.create_task(informer.run()) for informer in shared.all()]

    def manager(self) -> None:
        """A manager that leads; one that led before may not know it yet, and both go on for a while."""
        name = f"manager-{len(self._managers)}"
        client = self._judged(self.rng.randrange(1, 60), after=self.rng.random() < 0.5)
        client.begin()
        self.scene.lead(client, name)
        self._managers.append(name)

    def _judged(self, at: int, *, after: bool = False) -> Judged:
        client = Judged(self.scene.engine, at, after=after)
        client.harm = self.harm
        return client

    async def step(self) -> None:
        """Something happens."""
        scene, rng = self.scene, self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                self._pods += 1
                self._late.append(asyncio.create_task(self._pod(f"pod-{self._pods}", rng.choice(NAMES))))
            case 3:
                pods = (await scene.client.list(PODS)).items
                for pod in rng.sample(pods, min(len(pods), 2)):
                    await scene.remove_pod(pod.metadata.name)
            case 4:
                await self._tolerate(scene.delete())
            case 5:
                await self._tolerate(scene.add())
            case 6:
                spokes = rng.choice([["a"], ["b"], ["a", "b"]])
                await self._tolerate(scene.change(spec={"spokes": spokes}))
            case 7:
                self.manager()
        await asyncio.sleep(rng.choice([0.0, 0.1, 1.0, 5.0, 40.0]))

    async def _tolerate(self, work: Any) -> None:
        with suppress(ApiError):
            await work

    async def _pod(self, name: str, nad: str) -> None:
        """A pod is reviewed, and stored up to a minute later."""
        meta = {"name": name, "namespace": "vms", "annotations": {MULTUS_NETWORKS: f"{PLACE}/{nad}"}}
        request = AdmissionRequest(
            uid=name,
            operation="CREATE",
            resource=GroupVersionResource("", "v1", "pods"),
            namespace="vms",
            object={"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}},
        )
        open_for_it = await self.scene.find(NADS, nad)
        verdict = await self.rng.choice(self._replicas).refer(request)
        if verdict.allowed:
            await asyncio.sleep(self.rng.choice([0.0, 0.5, 10.0, 55.0]))
            assert request.object is not None
            await self.scene.client.create(PODS, request.object, "vms")
            if open_for_it is not None and await self.scene.find(NADS, nad) is None:
                self.harm.append(f"{nad} is gone before {name} is stored, which was let in")

    async def finish(self) -> None:
        """Nobody uses anything any more, and the last manager lives."""
        scene = self.scene
        await asyncio.sleep(80)
        for pod in (await scene.client.list(PODS)).items:
            await scene.remove_pod(pod.metadata.name)
        await self._tolerate(scene.delete())
        for name in self._managers:
            await scene.end(name)
        scene.lead(self._judged(0), "last")
        await asyncio.sleep(300)
        for task in self._late:
            task.cancel()
        results = await asyncio.gather(*self._late, return_exceptions=True)
        errors = [item for item in results if isinstance(item, Exception) and not isinstance(item, NotFound)]
        assert not errors, errors


def tell(seed: int, *, careless: bool = False) -> list[str]:
    """The harm that a schedule does; `careless` managers neither mark NADs nor wait for requests."""
    rng, harm = Random(seed), list[str]()

    async def told(scene: Scene) -> None:
        if careless:
            scene.users = Careless
        story = Story(scene, rng)
        for _ in range(2):
            await story.replica()
        story.manager()
        await asyncio.sleep(1)
        await scene.add()
        for _ in range(STEPS):
            await story.step()
        await story.finish()
        assert not (await scene.client.list(LANS)).items
        assert await scene.nads() == []
        harm.extend(story.harm)

    play(told, rng=Random(seed))
    return harm


class Careless(SharedUsers):
    """Users without the care for those on the way."""

    def requests_of(self, nad: NetworkAttachmentDefinition) -> tuple[NadRequest, ...]:
        """None."""
        return ()

    def closing(self, nad: NetworkAttachmentDefinition) -> dict[str, str]:
        """Nothing."""
        return {}

    async def live(self) -> "Careless":
        """What the watches say."""
        return self


@pytest.mark.parametrize("seed", range(60))
def test_no_user_loses_a_nad(seed: int) -> None:
    """Whatever happens in between, no pod loses its NAD, and nothing is left of LANs that are gone."""
    assert tell(seed) == []


def test_the_marks_are_needed() -> None:
    """Managers that neither mark NADs nor wait do harm in some of these schedules, so the judge sees it."""
    assert any(tell(seed, careless=True) for seed in range(60))
