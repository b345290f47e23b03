"""Whatever happens to machines, pods and NICs, in whatever order: no address of a live owner is given back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.api.core import PODS
from lanloom.api.ipam import (
    FINALIZER,
    NICS,
    POD,
    STICKY_FOR,
    VIRTUAL_MACHINE,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.features.ipam.agent.nics import hold_nic
from lanloom.features.ipam.manager.owners import LEAK_SECONDS
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.lookup import get_or_none
from lanloom_embedded.engine.storage import Change
from tests.features.ipam.manager.ownercluster import UNWELL, OwnerCluster
from tests.harness.cluster import play

ORIGIN = "test/origin"
"""An annotation of all that uses an address: the uid of the owner that it got it from."""

USES = "test/uses"
"""An annotation of a pod that uses the address of a name: of the name of which kind."""

LAUNCHERS = ("launcher-a", "launcher-b")
READ: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)


class Story:
    """What may befall the machine and the pod called `web`, their NICs `machine` and `pod`, and those of their names.

    KubeVirt never makes an instance for a machine that is gone, nor a pod for an instance that is gone; else anything
    may follow anything.
    """

    def __init__(self, cluster: OwnerCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.wrong: list[str] = []
        cluster.engine.ledger.listen(self._notice)

    def _notice(self, change: Change) -> None:
        """Judges each NIC at the very moment at which it goes."""
        if change.resource.plural != NICS.plural or change.after is not None or change.before is None:
            return
        owner = change.before.raw()["spec"]["owner"]
        uid = owner.get("uid") or owner["kind"]
        if alive := list(self._alive(uid)):
            self.wrong.append(f"{change.key} went although {alive} used its address")

    def _alive(self, uid: str) -> list[str]:
        found = []
        for resource in READ:
            kind = self.cluster.engine.registry.find(resource.group, resource.version, resource.plural)
            assert kind is not None
            for state in self.cluster.engine.ledger.table(kind.key).select(""):
                meta, body = state.meta(), state.raw()
                ended = body.get("status", {}).get("phase") in ("Succeeded", "Failed")
                if not ended and uid in (meta.uid, meta.annotations.get(ORIGIN), meta.annotations.get(USES)):
                    found.append(f"{resource.kind} {meta.name}")
        return found

    async def make_machine(self) -> None:
        """A machine, stopped."""
        await self.client.create(VIRTUAL_MACHINES, {"metadata": {"name": "web"}}, "default")

    async def start(self) -> None:
        """The machine gets an instance, and that a pod."""
        machine = await self.client.get(VIRTUAL_MACHINES, "web", "default")
        if machine.metadata.deletion_timestamp is None:
            meta = _meta("web", machine.metadata.uid, VIRTUAL_MACHINE, machine)
            await self.client.create(VIRTUAL_MACHINE_INSTANCES, {"metadata": meta}, "default")
            await self.launch()

    async def launch(self) -> None:
        """The instance gets a pod, or one more to move to."""
        instance = await self.client.get(VIRTUAL_MACHINE_INSTANCES, "web", "default")
        origin = instance.metadata.annotations[ORIGIN]
        for name in LAUNCHERS:
            meta = _meta(name, origin, "VirtualMachineInstance", instance)
            meta["labels"] = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": instance.metadata.uid}
            meta["annotations"]["kubevirt.io/domain"] = "web"
            with suppress(KubeError):
                await self.client.create(PODS, {"metadata": meta, "spec": _POD_SPEC}, "default")
                await self.use(name, VIRTUAL_MACHINE)
                return

    async def use(self, pod: str, kind: str) -> None:
        """A new pod uses the address of its name, if that has a NIC, as the agent does."""
        nic = await get_or_none(self.client, NICS, Key("default", f"name-{kind.lower()}"))
        if nic is not None:
            await hold_nic(self.client, nic, pod)
            await self.client.patch(PODS, pod, {"metadata": {"annotations": {USES: kind}}}, "default")

    async def adopt(self) -> None:
        """A machine takes over the instance that another one left."""
        machine = await self.client.get(VIRTUAL_MACHINES, "web", "default")
        instance = await self.client.get(VIRTUAL_MACHINE_INSTANCES, "web", "default")
        if not instance.metadata.owner_references:
            reference = _meta("web", "", VIRTUAL_MACHINE, machine)["ownerReferences"]
            patch = {"metadata": {"ownerReferences": reference}}
            await self.client.patch(VIRTUAL_MACHINE_INSTANCES, "web", patch, "default")

    async def replace(self, adopts: bool) -> None:
        """The machine is deleted and another one of its name made, which takes over the instance or has its own."""
        await self.delete(VIRTUAL_MACHINES, "web", "Orphan" if adopts else "Background")
        await asyncio.sleep(3.0)
        await self.make_machine()
        await (self.adopt() if adopts else self.start())

    async def end(self, pod: str, phase: str) -> None:
        """A pod ends."""
        await self.client.patch(PODS, pod, {"status": {"phase": phase}}, "default", subresource="status")

    async def make_pod(self) -> None:
        """A pod of its own."""
        await self.client.create(PODS, {"metadata": {"name": "web"}, "spec": _POD_SPEC}, "default")
        await self.use("web", POD)

    async def make_name(self, kind: str) -> None:
        """The NIC of a name, which is kept for a minute."""
        meta = {
            "name": f"name-{kind.lower()}",
            "annotations": {STICKY_FOR: "1m"},
            "finalizers": [FINALIZER],
        }
        spec = {"owner": {"kind": kind, "name": "web"}}
        await self.client.create(NICS, {"metadata": meta, "spec": spec}, "default")

    async def make_nic(self, name: str, resource: Resource[Any], held: bool) -> None:
        """The NIC of the pod or the machine that is there now."""
        owner = await self.client.get(resource, "web", "default")
        meta = _meta(name, owner.metadata.uid, resource.kind, owner) | {"finalizers": [FINALIZER] * held}
        spec = {"owner": {"kind": resource.kind, "name": "web", "uid": owner.metadata.uid}}
        await self.client.create(NICS, {"metadata": meta, "spec": spec}, "default")

    async def delete(self, resource: Resource[Any], name: str, propagation: Any = "Background") -> None:
        """A user deletes something."""
        await self.client.delete(resource, name, "default", propagation=propagation)

    async def trouble(self, resource: Resource[Any], on: bool) -> None:
        """The controller can't read that kind any more, or can again."""
        if on:
            self.cluster.make_unreadable(resource, UNWELL)
        else:
            self.cluster.scripted.calm()

    async def end_all(self) -> None:
        """Nothing is left that uses an address, and everything can be read again."""
        self.cluster.scripted.calm()
        for resource in READ:
            for item in (await self.client.list(resource, "default")).items:
                with suppress(NotFound):
                    await self.delete(resource, item.metadata.name)


def _meta(name: str, origin: str, kind: str, owner: Object) -> dict[str, Any]:
    version = "v1" if kind == POD else "kubevirt.io/v1"
    reference = {"apiVersion": version, "kind": kind, "name": "web", "uid": owner.metadata.uid}
    return {"name": name, "annotations": {ORIGIN: origin}, "ownerReferences": [reference]}


_POD_SPEC = {"containers": [{"name": "main", "image": "image"}]}

Deed = Callable[[Story], Awaitable[None]]
DEEDS: dict[str, Deed] = {
    "machine": lambda story: story.make_machine(),
    "start": lambda story: story.start(),
    "launch": lambda story: story.launch(),
    "adopt": lambda story: story.adopt(),
    "replaced": lambda story: story.replace(adopts=False),
    "replaced under a guest": lambda story: story.replace(adopts=True),
    "a fails": lambda story: story.end("launcher-a", "Failed"),
    "b succeeds": lambda story: story.end("launcher-b", "Succeeded"),
    "a goes": lambda story: story.delete(PODS, "launcher-a"),
    "b goes": lambda story: story.delete(PODS, "launcher-b"),
    "stop": lambda story: story.delete(VIRTUAL_MACHINE_INSTANCES, "web"),
    "instance goes without its pods": lambda story: story.delete(VIRTUAL_MACHINE_INSTANCES, "web", "Orphan"),
    "machine goes": lambda story: story.delete(VIRTUAL_MACHINES, "web"),
    "machine goes without its instance": lambda story: story.delete(VIRTUAL_MACHINES, "web", "Orphan"),
    "pod": lambda story: story.make_pod(),
    "pod fails": lambda story: story.end("web", "Failed"),
    "pod goes": lambda story: story.delete(PODS, "web"),
    "NIC of the machine": lambda story: story.make_nic("machine", VIRTUAL_MACHINES, True),
    "bare NIC of the pod": lambda story: story.make_nic("pod", PODS, False),
    "NIC of the pod": lambda story: story.make_nic("pod", PODS, True),
    "NIC of the pod's name": lambda story: story.make_name(POD),
    "NIC of the machine's name": lambda story: story.make_name(VIRTUAL_MACHINE),
    "the name's NIC is deleted": lambda story: story.delete(NICS, "name-pod"),
    "the machine's NIC is deleted": lambda story: story.delete(NICS, "machine"),
    "the pod's NIC is deleted": lambda story: story.delete(NICS, "pod"),
    "no machines": lambda story: story.trouble(VIRTUAL_MACHINES, True),
    "no instances": lambda story: story.trouble(VIRTUAL_MACHINE_INSTANCES, True),
    "no pods": lambda story: story.trouble(PODS, True),
    "all well": lambda story: story.trouble(PODS, False),
}
STEPS = st.tuples(st.sampled_from(list(DEEDS)), st.sampled_from([0.0, 0.0, 0.3, 5.0, 60.0, LEAK_SECONDS + 1]))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(STEPS, min_size=3, max_size=30), st.integers(0, 2**32))
def test_no_address_of_a_live_owner_is_given_back(steps: list[tuple[str, float]], seed: int) -> None:
    """No NIC goes while something uses its address; when nothing is left that could, all of them go."""

    async def main(cluster: OwnerCluster) -> None:
        story = Story(cluster)
        await asyncio.sleep(1.0)
        for name, pause in [("machine", 0.0), ("start", 0.0), ("NIC of the machine", 0.0), *steps]:
            with suppress(KubeError):
                await DEEDS[name](story)
            await asyncio.sleep(pause)
        assert story.wrong == []
        await story.end_all()
        await asyncio.sleep(3 * LEAK_SECONDS)
        assert story.wrong == []
        assert (await cluster.client.list(NICS)).items == ()

    play(main, OwnerCluster, rng=Random(seed), seed=seed)
