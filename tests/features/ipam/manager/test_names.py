"""NICs that belong to a name wait for the next owner of that name, and no longer than they should."""

from typing import Any

import pytest

from lanloom.api.core import EVENTS, PODS
from lanloom.api.ipam import (
    HELD_UNTIL,
    INSTANCE,
    NAD,
    NICS,
    POD,
    STICKY_FOR,
    VIRTUAL_MACHINE,
    Nic,
    NicSpec,
    OwnerSpec,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import ObjectMeta, parse_rfc3339, rfc3339
from lanloom.api.resource import Resource
from lanloom.api.workloads import STATEFUL_SET_SIZES, StatefulSet, StatefulSetOrdinals, StatefulSetSpec
from lanloom.features.ipam.manager.evidence import Evidence, is_expected, is_leaked, period_of
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.ipam.manager.ownercluster import UNWELL, OwnerCluster
from tests.harness.cluster import play
from tests.harness.interceptor import ScriptedClient
from tests.harness.wallclock import WallClock

HOUR = 3600.0


async def add(
    cluster: OwnerCluster,
    kind: str = POD,
    sticky_for: str = "1h",
    owner: str = "web",
    interface: str = "",
    **marks: str,
) -> None:
    """A NIC of a name, with these annotations."""
    await cluster.add_nic(
        kind, "", owner=owner, interface=interface, annotations={STICKY_FOR: sticky_for, **marks}
    )


async def mark(cluster: OwnerCluster) -> str | None:
    """Until when the NIC is held, as it says."""
    nic = await cluster.find_nic()
    assert nic is not None
    return nic.metadata.annotations.get(HELD_UNTIL)


async def end_pod(cluster: OwnerCluster) -> None:
    """The pod is gone."""
    await cluster.client.delete(PODS, "web", "default", grace=0)


def test_a_name_that_nobody_has_any_more() -> None:
    """The NIC says until when it is held, is held so long and not much longer, and Events tell both."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_pod("web")
        await add(cluster)
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None
        await end_pod(cluster)
        assert not await cluster.is_gone(10.0)
        until = await mark(cluster)
        assert until is not None
        assert HOUR - 20.0 < parse_rfc3339(until) - cluster.now() <= HOUR
        assert not await cluster.is_gone(HOUR - 60.0)
        assert await cluster.is_gone(120.0)
        told = {item.reason: item.message for item in (await cluster.client.list(EVENTS)).items}
        assert told["AddressesHeld"] == f"Keeps no address for Pod web until {until}"
        assert told["HoldExpired"] == "Pod web did not come back in time; gave back no address"
        assert cluster.leaks == 0

    play(story, OwnerCluster)


def test_a_name_that_comes_again() -> None:
    """Each time that the name comes again, the NIC is held by it, and the time begins again afterwards."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_pod("web")
        await add(cluster)
        for _ in range(3):
            await end_pod(cluster)
            assert not await cluster.is_gone(HOUR - 60.0)
            assert await mark(cluster)
            await cluster.add_pod("web")
            assert not await cluster.is_gone(5 * HOUR)
            assert await mark(cluster) is None

    play(story, OwnerCluster)


def test_a_pod_that_has_ended_is_nobody() -> None:
    """The time begins with the end of a pod, also where its object stays."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_pod("web")
        await add(cluster)
        await cluster.phase("web", "Failed")
        assert not await cluster.is_gone(HOUR - 60.0)
        assert await cluster.is_gone(120.0)

    play(story, OwnerCluster)


def test_a_change_of_the_leader() -> None:
    """A new leader goes by what is written on the NIC, and counts no hour again."""

    async def story(cluster: OwnerCluster) -> None:
        await add(cluster)
        assert not await cluster.is_gone(HOUR / 2)
        until = await mark(cluster)
        cluster.depose()
        assert not await cluster.is_gone(60.0)
        assert await mark(cluster) == until
        assert await cluster.is_gone(HOUR / 2)

    play(story, OwnerCluster)


def test_what_can_t_be_read_is_kept() -> None:
    """While pods can't be read, a NIC whose time is over stays."""

    async def story(cluster: OwnerCluster) -> None:
        await add(cluster, sticky_for="10s")
        cluster.make_unreadable(PODS, UNWELL)
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None

    play(story, OwnerCluster)


@pytest.mark.parametrize("text", ["", "soon", "\u0662\u0660\u0662\u0666"])
def test_marks_that_are_no_time(text: str) -> None:
    """A mark that can't be read is written again."""

    async def story(cluster: OwnerCluster) -> None:
        await add(cluster, **{HELD_UNTIL: text})
        assert not await cluster.is_gone(HOUR / 2)
        assert await cluster.is_gone(HOUR)

    play(story, OwnerCluster)


def test_a_mark_of_a_clock_that_was_ahead() -> None:
    """A NIC is held for its period, also if it was to be held for longer by a clock that was set back since."""

    async def story(cluster: OwnerCluster) -> None:
        await add(cluster, **{HELD_UNTIL: rfc3339(cluster.now() + 3 * HOUR)})
        assert not await cluster.is_gone(HOUR - 60.0)
        assert await cluster.is_gone(120.0)

    play(story, OwnerCluster)


class SteppedCluster(OwnerCluster):
    """A cluster whose manager's clock can be set."""

    def __init__(self, storage: MemoryStorage, *, seed: int = 1) -> None:
        super().__init__(storage, seed=seed)
        self.clock = self.now = WallClock(self.now)


@pytest.mark.parametrize("ahead", [HOUR / 2, 3 * HOUR, 50 * 365 * 24 * HOUR, -3 * HOUR])
@pytest.mark.parametrize("wakes", [True, False])
def test_a_clock_that_is_set_while_a_name_is_kept(ahead: float, wakes: bool) -> None:
    """Addresses are kept for their period, whatever the clock is set to meanwhile, as by NTP after a boot."""

    async def story(cluster: SteppedCluster) -> None:
        await add(cluster)
        assert not await cluster.is_gone(600.0)
        cluster.clock.ahead = ahead
        if wakes:
            await cluster.add_pod("web")
            await end_pod(cluster)
        kept = HOUR if wakes else HOUR - 600.0
        assert not await cluster.is_gone(kept - 60.0)
        assert await cluster.is_gone(120.0)

    play(story, SteppedCluster)


def test_a_mark_of_the_past() -> None:
    """A mark on the NIC of a name that is in use is taken away, whenever it says that the time is over."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_pod("web")
        await add(cluster, **{HELD_UNTIL: "2020-01-01T00:00:00Z"})
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None

    play(story, OwnerCluster)


def test_deletion_by_hand() -> None:
    """A held NIC that a user deletes goes at once; one that a pod uses goes with the pod."""

    async def story(cluster: OwnerCluster) -> None:
        await add(cluster)
        assert not await cluster.is_gone(60.0)
        await cluster.remove(NICS, "web-eth0")
        assert await cluster.is_gone(10.0)
        await cluster.add_pod("web")
        await add(cluster)
        await cluster.remove(NICS, "web-eth0")
        assert not await cluster.is_gone(24 * HOUR)
        await end_pod(cluster)
        assert await cluster.is_gone(10.0)

    play(story, OwnerCluster)


def test_machines() -> None:
    """The NIC of a machine's name waits for the next machine of that name; a stopped machine has it."""

    async def story(cluster: OwnerCluster) -> None:
        machine = await cluster.add_machine(lan="default/lan")
        await add(cluster, VIRTUAL_MACHINE, interface="lan", **{NAD: "default/lan"})
        await cluster.add_instance(machine, lan="default/lan")
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None
        await cluster.remove(VIRTUAL_MACHINES)
        assert not await cluster.is_gone(HOUR - 60.0)
        assert await mark(cluster)
        await cluster.add_machine(lan="default/lan")
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None

    play(story, OwnerCluster)


def test_other_owners_are_not_names() -> None:
    """The annotation on the NIC of an instance, or of a pod with its uid, means nothing."""

    async def story(cluster: OwnerCluster) -> None:
        uid = await cluster.add_pod("web")
        for kind, owner in ((INSTANCE, ""), (POD, uid)):
            await cluster.add_nic(kind, owner, annotations={STICKY_FOR: "1s"})
            assert not await cluster.is_gone(24 * HOUR)
            assert await mark(cluster) is None
            nic = await cluster.find_nic()
            assert nic is not None
            assert not nic.is_sticky
            await cluster.remove(NICS, "web-eth0")
            with ignore_not_found("web-eth0"):
                await cluster.client.patch(NICS, "web-eth0", {"metadata": {"finalizers": None}}, "default")

    play(story, OwnerCluster)


class SetCluster(OwnerCluster):
    """A cluster with a StatefulSet `web`, which the embedded server does not serve."""

    size: int | None = None

    def __init__(self, storage: MemoryStorage, *, seed: int = 1) -> None:
        super().__init__(storage, seed=seed)
        self.scripted = SetClient(LocalClient(self.engine), self)


class SetClient(ScriptedClient):
    """Answers for the StatefulSet."""

    def __init__(self, inner: Client, cluster: SetCluster) -> None:
        super().__init__(inner)
        self._cluster = cluster

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        size = self._cluster.size
        if resource is STATEFUL_SET_SIZES and (name, namespace) == ("web", "default") and size is not None:
            return StatefulSet(metadata=ObjectMeta(name=name), spec=StatefulSetSpec(replicas=size))
        return await super().get(resource, name, namespace)


def test_a_stateful_set_that_wants_the_pod() -> None:
    """While a StatefulSet wants the name, its NIC is held without end; the time begins when it does not any more."""

    async def story(cluster: SetCluster) -> None:
        cluster.size = 2
        await add(cluster, owner="web-1")
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None
        cluster.size = 1
        assert not await cluster.is_gone(HOUR / 2)
        assert await mark(cluster)
        cluster.size = 2
        assert not await cluster.is_gone(24 * HOUR)
        assert await mark(cluster) is None
        cluster.size = None
        assert await cluster.is_gone(2 * HOUR)

    play(story, SetCluster)


@pytest.mark.parametrize(
    ("name", "kind", "replicas", "start", "expected"),
    [
        ("web-0", POD, 1, 0, True),
        ("web-1", POD, 1, 0, False),
        ("web-0", POD, 0, 0, False),
        ("web-5", POD, 1, 5, True),
        ("web-0", POD, 1, 5, False),
        ("web", POD, 1, 0, False),
        ("web-0", VIRTUAL_MACHINE, 1, 0, False),
    ],
)
def test_which_pods_a_stateful_set_wants(
    name: str, kind: str, replicas: int, start: int, expected: bool
) -> None:
    """A StatefulSet wants as many pods as it has replicas, from its first number on."""
    spec = StatefulSetSpec(replicas=replicas, ordinals=StatefulSetOrdinals(start=start))
    evidence = Evidence(stateful_set=StatefulSet(metadata=ObjectMeta(name="web"), spec=spec))
    assert is_expected(nic(name, kind), evidence) is expected
    assert not is_expected(nic(name, kind), Evidence())


def test_nobody_leaks_a_name() -> None:
    """A NIC of a name is never taken for one that was forgotten, and is kept longest where its period is unreadable."""
    assert not is_leaked(nic("web-0", **{STICKY_FOR: "1h"}), Evidence())
    assert period_of(nic("web-0", **{STICKY_FOR: "1h"})) == HOUR
    assert period_of(nic("web-0", **{STICKY_FOR: "soon"})) == 366 * 24 * HOUR


def nic(name: str, kind: str = POD, **annotations: str) -> Nic:
    """A NIC of a name."""
    meta = ObjectMeta(name="n", namespace="default", annotations=annotations)
    return Nic(metadata=meta, spec=NicSpec(owner=OwnerSpec(kind=kind, name=name)))
