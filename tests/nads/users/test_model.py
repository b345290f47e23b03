"""Users after any history, against a look at every single object."""

from random import Random
from typing import Any

import pytest

from lanloom.api.meta import Key, Object
from lanloom.nads.references import references_of
from lanloom.nads.users import list_live_users
from tests.harness.examples import seeds
from tests.harness.virtual import run
from tests.nads.users.cluster import Cluster, Watching
from tests.nads.users.objects import (
    instance,
    machine,
    orphan,
    pod,
    workload,
)

Raw = dict[str, Any]
Title = tuple[str, str, str]

NADS = [Key(place, name) for place in ("own", "a", "b") for name in ("net", "neta")]
TEXTS = [
    "",
    "",
    "net",
    "neta",
    "a/net",
    "b/neta@eth1",
    "net,a/net",
    '[{"name":"neta","namespace":"b"}]',
    "[",
    "a/b/c",
]
TITLES = ["net", "a/net", "b/neta", "own/neta"]
NAMES = ["x", "y", "z"]
CONTROLLERS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]


def _random_object(rng: Random) -> Raw:
    """Any object that may use networks, owned by any other or none."""
    name, text = rng.choice(NAMES), rng.choice(TEXTS)
    owner = rng.choice(
        [None, (rng.choice([*CONTROLLERS, "VirtualMachine", "VirtualMachineInstance"]), rng.choice(NAMES))]
    )
    titles = rng.sample(TITLES, rng.randint(0, 2))
    match rng.randrange(6):
        case 0:
            return machine(name, *titles)
        case 1:
            phase = rng.choice(["Running", "Running", "Failed"])
            return instance(name, *titles, owner=owner, phase=phase, node=rng.choice(["", "n1", "n2"]))
        case 2:
            return orphan(name, text, rng.choice(NAMES))
        case 3 | 4:
            phase, default = (
                rng.choice(["Pending", "Running", "Succeeded"]),
                rng.choice(["", "", "net", "a/net"]),
            )
            return pod(name, text, default=default, owner=owner, phase=phase, node=rng.choice(["n1", "n2"]))
    return workload(rng.choice(CONTROLLERS), name, text, owner=owner, done=rng.choice(["", "", "Complete"]))


def _users(cluster: Cluster, nad: Key) -> set[Title]:
    """Who uses a network: every object is looked at, and its owner is looked for among all."""
    every = [(kind, item) for kind, items in cluster.objects.items() for item in items.values()]
    found = set()
    for kind, item in every:
        if references_of(item).may_mean(nad):
            for _ in range(4):
                owners = [(of, each) for of, each in every if each.metadata.uid in _owner_uids(item)]
                if not owners:
                    break
                (kind, item), *_rest = owners
            found.add((kind, item.metadata.namespace, item.metadata.name))
    return found


def _owner_uids(item: Object) -> set[str]:
    created_by = item.metadata.labels.get("kubevirt.io/created-by")
    return {each.uid for each in item.metadata.owner_references} | ({created_by} if created_by else set())


def _referring(cluster: Cluster, nad: Key) -> set[tuple[str, Key]]:
    return {
        (kind, key)
        for kind, items in cluster.objects.items()
        for key, item in items.items()
        if references_of(item).may_mean(nad)
    }


def _act(rng: Random, cluster: Cluster) -> None:
    present = [(kind, key) for kind, items in cluster.objects.items() for key in items]
    if present and rng.random() < 0.4:
        kind, key = rng.choice(present)
        cluster.remove(kind, key.name, key.namespace)
    else:
        cluster.put(_random_object(rng))


@pytest.mark.parametrize("seed", seeds(30))
def test_users_after_any_history(seed: int) -> None:
    """Whatever came, changed, went or was missed, users are those that a look at everything finds; no other woke."""
    rng, cluster = Random(seed), Cluster()
    for _ in range(rng.randint(0, 10)):
        _act(rng, cluster)

    async def story() -> None:
        async with Watching(cluster) as watching:
            for _ in range(80):
                watching.told.clear()
                before = {nad: _referring(cluster, nad) for nad in NADS}
                if rng.random() < 0.1:
                    cluster.break_watches()
                    for _ in range(rng.randint(1, 5)):
                        _act(rng, cluster)
                    await watching.recover()
                else:
                    _act(rng, cluster)
                    await watching.settle()
                changed = {nad for nad in NADS if _referring(cluster, nad) != before[nad]}
                if None in watching.told:
                    continue
                told = {nad for nads in watching.told if nads is not None for nad in nads}
                assert changed <= told
                _check(cluster, watching)
            _check(cluster, watching)
        fresh = await list_live_users(cluster)
        assert all(fresh.users_of(nad) == watching.users.users_of(nad) for nad in NADS)

    run(story())


def _check(cluster: Cluster, watching: Watching) -> None:
    for nad in NADS:
        users = watching.users.users_of(nad)
        assert {(user.kind, user.namespace, user.name) for user in users} == _users(cluster, nad)
        assert list(users) == sorted(set(users))
        assert bool(users) == bool(_referring(cluster, nad))


@pytest.mark.parametrize("seed", seeds(10))
def test_single_changes_wake_exactly(seed: int) -> None:
    """A change that is heard of at once wakes the networks that it concerns, not one more and not one less."""
    rng, cluster = Random(seed), Cluster()

    async def story() -> None:
        async with Watching(cluster) as watching:
            for _ in range(150):
                watching.told.clear()
                before = {nad: _referring(cluster, nad) for nad in NADS}
                _act(rng, cluster)
                await watching.settle()
                changed = {nad for nad in NADS if _referring(cluster, nad) != before[nad]}
                if None not in watching.told:
                    assert {nad for nads in watching.told if nads is not None for nad in nads} == changed

    run(story())
