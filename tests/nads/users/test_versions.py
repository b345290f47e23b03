"""Which state of an object is the newest that is known."""

import asyncio

from lanloom.nads.users import GONE_SECONDS, VersionTracker
from tests.harness.virtual import run
from tests.nads.users.cluster import Cluster, Watching
from tests.nads.users.objects import (
    instance,
    machine,
    pod,
    renewed,
    uid,
    workload,
)


def test_machines_instances_and_pods() -> None:
    """The newest version is known of everything that a webhook lets in, and of nothing else."""
    cluster = Cluster()

    async def story() -> None:
        async with Watching(cluster) as watching:
            for body in (machine("x"), instance("x"), pod("x"), pod("x", "a"), workload("Job", "x")):
                cluster.put(body)
            await watching.settle()
            kinds = ("VirtualMachine", "VirtualMachineInstance", "Pod", "Job")
            assert [watching.users.seen(uid(kind, "x")) for kind in kinds] == [101, 102, 104, None]

    run(story())


def test_what_is_gone() -> None:
    """What is gone is remembered by its last state for two minutes, then forgotten; a namesake is another one."""
    cluster = Cluster()
    cluster.put(pod("x"))

    async def story() -> None:
        async with Watching(cluster) as watching:
            cluster.remove("Pod", "x")
            await watching.settle()
            assert watching.users.seen(uid("Pod", "x")) == 101
            cluster.put(renewed(pod("x")))
            await asyncio.sleep(GONE_SECONDS - 2)
            assert watching.users.seen(uid("Pod", "x")) == 101
            await asyncio.sleep(2)
            assert watching.users.seen(uid("Pod", "x")) is None
            assert watching.users.seen("another") == 103

    run(story())


def test_another_object_in_its_place() -> None:
    """An object that took another's place while a watch was broken is known next to the one that is gone."""
    cluster = Cluster()
    cluster.put(pod("x"))

    async def story() -> None:
        async with Watching(cluster) as watching:
            cluster.break_watches()
            cluster.put(renewed(pod("x")))
            await asyncio.sleep(GONE_SECONDS / 2)
            assert [watching.users.seen(each) for each in (uid("Pod", "x"), "another", "")] == [
                101,
                102,
                None,
            ]
            await asyncio.sleep(GONE_SECONDS)
            assert [watching.users.seen(each) for each in (uid("Pod", "x"), "another")] == [None, 102]

    run(story())


def test_memory_is_bounded() -> None:
    """However many objects come and go, those of the last two minutes are remembered."""
    time = [0.0]
    seen = VersionTracker(lambda: time[0])
    cluster = Cluster()
    for at in range(1000):
        time[0] += 1
        item = cluster.put(pod(f"p{at}"))
        seen.changed(None, item)
        seen.changed(item, None)
    remembered = [at for at in range(1000) if seen(uid("Pod", f"p{at}")) is not None]
    assert remembered == list(range(1000 - int(GONE_SECONDS), 1000))
    assert len(seen._gone) == len(seen._forget) == GONE_SECONDS
    assert not seen._there
