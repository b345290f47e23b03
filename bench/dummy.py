"""Who uses an isolated network, among 10,000 machines: the answer, what an event wakes, and the end of a user.

500 namespaces, 50 networks; every machine is on one of them and on a VLAN of its own namespace, and every second one
runs, so that it has an instance and a pod as well. The watches are those of the manager, on a server in the same
process that does nothing but tell. What wakes a DummyClusterNetwork is what `NadUsers.on_change` tells of its NAD.
Times are CPU time: nothing waits here.
"""

import asyncio
import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from statistics import median
from typing import Any

import msgspec

from bench.report import Row
from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.workloads import ReplicaSet, strip_pod
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers
from lanloom.kube.store import Store
from lanloom.nads.references import references_of
from lanloom.nads.users import REFERENCES, NadUsers, user_informers, values_of
from tests.nads.users.cluster import Cluster, Watching
from tests.nads.users.objects import instance, machine, pod

Raw = dict[str, Any]

MACHINES = 10_000
NAMESPACES = 500
NETWORKS = 50
ROUNDS = 20
EVENTS = 500
LOOKUPS = 22.0
"""How many bare looks at the index an answer may cost: 1 ms on a quiet machine, where one takes 45 µs."""

NADS = [Key("harvester-system", f"net{number}") for number in range(NETWORKS)]


def rows() -> Iterator[Row]:
    """Answers, wakes, time, memory."""
    cluster = Cluster()
    for body in _bodies():
        cluster.put(body)
    yield from asyncio.run(_measured(cluster))


def _bodies() -> Iterator[Raw]:
    for number in range(MACHINES):
        name, namespace = f"vm{number}", f"ns{number % NAMESPACES}"
        yield _machine(number)
        if number % 2:
            node, titles = f"node{number % 100}", _titles(number)
            owner = ("VirtualMachine", name)
            yield instance(name, *titles, owner=owner, node=node, namespace=namespace)
            owner = ("VirtualMachineInstance", name)
            launcher = f"virt-launcher-{name}"
            yield pod(launcher, ",".join(titles), owner=owner, node=node, namespace=namespace)


def _titles(number: int, shift: int = 0) -> tuple[str, str]:
    # by the namespace's number as well, so that each network has users that run in each state
    return "vlan1", str(NADS[(number + number // NETWORKS + shift) % NETWORKS])


def _machine(number: int, shift: int = 0) -> Raw:
    return machine(f"vm{number}", *_titles(number, shift), namespace=f"ns{number % NAMESPACES}")


async def _measured(cluster: Cluster) -> list[Row]:
    gc.collect()
    watching = Watching(cluster)
    async with watching:
        return [
            *_answers(cluster, watching),
            *await _wakes(watching),
            await _ends(watching),
            _memory(cluster),
            _controller_owners(),
        ]


def _answers(cluster: Cluster, watching: Watching) -> Iterator[Row]:
    users, users_of = watching.users, watching.users.users_of
    every = [item for items in cluster.objects.values() for item in items.values()]
    stores = [informer.store for informer in watching.informers.all()]
    answers = [partial(users_of, nad) for nad in NADS]
    bare = [partial(_objects, stores, values_of(nad)) for nad in NADS]
    unused = partial(users_of, Key("harvester-system", "net"))
    *seconds, nobody = _best([*answers, *bare, unused])
    slowest, lookup = max(seconds[:NETWORKS]), median(seconds[NETWORKS:])
    (scan,) = _best([lambda: [item for item in every if references_of(item).may_mean(NADS[0])]], rounds=3)
    count, parts = max(len(users.users_of(nad)) for nad in NADS), len(bare[0]())
    yield Row(
        name=f"users of a network among {len(every):,} objects, against a bare look at its index",
        measured=slowest / lookup,
        limit=LOOKUPS,
        unit="×",
        note=f"{slowest * 1e3:.2f} ms, the slowest of {NETWORKS} networks, against {lookup * 1e3:.2f} ms: "
        f"{count} users of {parts} objects, each told by name and place; best of {ROUNDS} rounds of all networks",
    )
    yield Row(
        name="the same for a network that nobody uses",
        measured=nobody * 1e6,
        limit=100,
        unit="µs",
    )
    yield Row(
        name="users by the index, against a look at every object",
        measured=scan / slowest,
        limit=50,
        unit="×",
        at_least=True,
        note=f"the look takes {scan * 1e3:.0f} ms, the lists before it not counted",
    )


def _objects(stores: list[Store[Any]], values: tuple[str, ...]) -> list[Any]:
    """Return the objects that an index has for a network, of which nothing is said yet."""
    return [item for value in values for store in stores for item in store.by(REFERENCES, value)]


async def _wakes(watching: Watching) -> list[Row]:
    """Machines that live on, then machines that change from one network to another."""
    cluster, told = watching.cluster, watching.told
    beats = [number * 17 % MACHINES for number in range(EVENTS)]
    told.clear()
    for number in beats:
        body = _machine(number)
        cluster.put({**body, "metadata": body["metadata"] | {"labels": {"beat": "1"}}})
    await watching.settle()
    idle = len(told)
    told.clear()
    for number in beats:
        cluster.put(_machine(number, shift=1))
    await watching.settle()
    woken = [len(nads) if nads is not None else NETWORKS for nads in told]
    return [
        Row(
            name=f"networks of {NETWORKS} that a machine's heartbeat wakes",
            measured=idle / EVENTS,
            limit=0,
            unit="",
            note=f"{EVENTS} events",
        ),
        Row(
            name="networks that a machine wakes which changes from one to another",
            measured=sum(woken) / EVENTS,
            limit=2,
            unit="",
            note=f"{EVENTS} events, at the most {max(woken)} each",
        ),
    ]


async def _ends(watching: Watching) -> Row:
    """From the event of the last user's end until it is known that no user is left."""
    cluster, nad = watching.cluster, Key("harvester-system", "last")
    answers: asyncio.Queue[tuple[int, float]] = asyncio.Queue()

    def answer(nads: frozenset[Key] | None) -> None:
        if nads is not None and nad in nads:
            answers.put_nowait((len(watching.users.users_of(nad)), time.process_time()))

    watching.users.on_change(answer)
    seconds = []
    for _ in range(EVENTS):
        cluster.put(pod("last", str(nad)))
        await answers.get()
        started = time.process_time()
        cluster.remove("Pod", "last")
        left, ended = await answers.get()
        assert left == 0
        seconds.append(ended - started)
    seconds.sort()
    return Row(
        name="from the event of a last user's end to the answer that nobody is left, p99",
        measured=seconds[EVENTS * 99 // 100] * 1e3,
        limit=5,
        unit="ms",
        note=f"median {seconds[EVENTS // 2] * 1e3:.2f} ms; from the watch on, in one process",
    )


def _memory(cluster: Cluster) -> Row:
    """Return what the index and the versions by uid add to stores that are there for other features anyway."""
    rng = Random(0)
    informers = Informers(cluster, rng)  # type: ignore[arg-type]
    shared: list[Informer[Any]] = [
        informers.get(VIRTUAL_MACHINES, optional=True),
        informers.get(VIRTUAL_MACHINE_INSTANCES, optional=True),
        informers.get(PODS, transform=strip_pod),
    ]
    for informer in shared:
        for _ in informer.store.replace(cluster.objects[informer.resource.kind].values()):
            pass
    gc.collect()
    tracemalloc.start()
    kept = NadUsers(cluster, user_informers(informers), time.monotonic)
    added, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    count = sum(len(informer.store) for informer in shared)
    return Row(
        name="memory that knowing users adds to a machine, an instance or a pod",
        measured=added / count / 1024,
        limit=1,
        unit="KiB",
        note=f"{count:,} objects, two networks each: the index, and the versions by uid",
    )


def _controller_owners() -> Row:
    """Return what is kept of a ReplicaSet as a Deployment leaves many of them: the bulk of all that makes pods."""
    texts = [msgspec.json.encode(_replica_set(number)) for number in range(MACHINES)]
    decoder = msgspec.json.Decoder(ReplicaSet)
    gc.collect()
    tracemalloc.start()
    kept = [decoder.decode(text) for text in texts]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Row(
        name="memory of a ReplicaSet, which is kept for its template's networks",
        measured=size / len(kept) / 1024,
        limit=1.5,
        unit="KiB",
        note=f"{len(texts[0]) / 1024:.1f} KiB on the wire",
    )


def _replica_set(number: int) -> Raw:
    place, name = f"ns{number % NAMESPACES}", f"web{number % 1000}"
    labels = {f"app.kubernetes.io/{key}": f"{key}{number}" for key in ("name", "instance", "part-of")}
    counts = {f"deployment.kubernetes.io/{key}": str(number % 10) for key in ("desired-replicas", "revision")}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": name,
        "uid": f"uid-of-a-deployment-{number:016}",
    }
    meta = {"name": f"{name}-{number:09}", "namespace": place, "uid": f"uid-of-a-replica-set-{number:015}"}
    more = {"resourceVersion": str(100_000 + number), "creationTimestamp": "2026-01-01T00:00:00Z"}
    pods = {"metadata": {"labels": labels, "annotations": {"checksum": "a" * 64}}, "spec": {"containers": []}}
    return {
        "metadata": meta | more | {"labels": labels, "annotations": counts, "ownerReferences": [owner]},
        "spec": {"replicas": 0, "template": pods},
    }


def _best(acts: Sequence[Callable[[], object]], rounds: int = ROUNDS) -> list[float]:
    """Seconds of CPU of the fastest of each; by turns, so that a burst of load meets one round of many."""
    best = [math.inf] * len(acts)
    for _ in range(rounds):
        for number, act in enumerate(acts):
            started = time.process_time()
            act()
            best[number] = min(best[number], time.process_time() - started)
    return best
