"""What a change of some object wakes: the networks whose users it may change, and no other."""

from collections.abc import Sequence
from typing import Any

import pytest

from lanloom.api.meta import Key
from tests.harness.virtual import run
from tests.nads.users.cluster import Cluster, Watching
from tests.nads.users.objects import (
    instance,
    machine,
    pod,
    renewed,
    swap,
    workload,
)

Raw = dict[str, Any]

A, B, C = Key("own", "a"), Key("own", "b"), Key("own", "c")
LABELLED: Raw = {"labels": {"beat": "1"}}


def _beat(body: Raw) -> Raw:
    """The same with something changed that says nothing of networks."""
    return {**body, "metadata": body["metadata"] | LABELLED}


CASES: dict[str, tuple[Raw | None, Raw, Sequence[set[Key] | None]]] = {
    "a machine comes": (None, machine("m", "a", "b"), [{A, B}]),
    "a machine without networks comes": (None, machine("m"), []),
    "a machine lives on": (machine("m", "a"), _beat(machine("m", "a")), []),
    "a machine gets another network": (machine("m", "a", "b"), machine("m", "a", "c"), [{B, C}]),
    "the order changes": (machine("m", "a", "b"), machine("m", "b", "a"), []),
    "another name for the same": (machine("m", "a"), machine("m", "own/a"), []),
    "an instance moves": (instance("m", "a", node="n1"), instance("m", "a", node="n2"), []),
    "an instance ends": (instance("m", "a"), instance("m", "a", phase="Succeeded"), [{A}]),
    "a swap begins": (None, swap("s", "a", "b", phase=""), [{A, B}]),
    "a swap goes on": (swap("s", "a", "b"), swap("s", "a", "b", phase="Recording"), []),
    "a swap ends": (swap("s", "a", "b"), swap("s", "a", "b", phase="Succeeded"), [{A, B}]),
    "a swap fails": (swap("s", "a", "b"), swap("s", "a", "b", phase="Failed", at="b"), [{A}]),
    "a swap that failed is brought back": (
        swap("s", "a", "b", phase="Failed", at="b"),
        swap("s", "a", "b", phase="Failed", at="a"),
        [{B}],
    ),
    "a pod starts": (pod("p", "a", phase="Pending"), pod("p", "a"), []),
    "a pod fails": (pod("p", "a,b"), pod("p", "a,b", phase="Failed"), [{A, B}]),
    "a pod that failed lives on": (pod("p", "a", phase="Failed"), _beat(pod("p", "a", phase="Failed")), []),
    "a pod can't be read any more": (pod("p", "a"), pod("p", "["), [None]),
    "a pod can be read again": (pod("p", "["), pod("p", "a"), [None]),
    "a pod's problem is another one": (pod("p", "["), pod("p", "A"), []),
    "a pod leaves the namespace open": (pod("p"), pod("p", default="a"), [None]),
    "a pod names what it may mean anyway": (pod("p", default="a"), pod("p", "a", default="a"), []),
    "a job is done": (workload("Job", "j", "a"), workload("Job", "j", "a", done="Complete"), [{A}]),
    "a deployment changes": (workload("Deployment", "d", "a"), workload("Deployment", "d", "b"), [{A, B}]),
    "a deployment lives on": (workload("Deployment", "d", "a"), _beat(workload("Deployment", "d", "a")), []),
    "a former template": (None, workload("ReplicaSet", "r", "a", owner=("Deployment", "d")), []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_wakes_whom_it_concerns(case: str) -> None:
    """A change is reported to the networks whose users it changes, and a heartbeat to none."""
    before, after, expected = CASES[case]
    cluster = Cluster()
    if before is not None:
        cluster.put(before)

    async def story() -> None:
        async with Watching(cluster) as watching:
            cluster.put(after)
            await watching.settle()
            assert watching.told == [None if item is None else frozenset(item) for item in expected]

    run(story())


@pytest.mark.parametrize(
    "body", [machine("x", "a"), instance("x", "a"), pod("x", "a"), workload("StatefulSet", "x", "a")]
)
def test_the_end_of_a_user(body: Raw) -> None:
    """A deletion is reported to the networks that were used, when no user is found there any more."""
    cluster = Cluster()
    cluster.put(body)

    async def story() -> None:
        async with Watching(cluster) as watching:
            found: list[tuple[frozenset[Key] | None, int]] = []
            watching.users.on_change(lambda nads: found.append((nads, len(watching.users.users_of(A)))))
            assert len(watching.users.users_of(A)) == 1
            cluster.remove(body["kind"], "x")
            await watching.settle()
            assert found == [(frozenset({A}), 0)]

    run(story())


def test_what_a_broken_watch_missed() -> None:
    """What came, went or became another one while a watch was broken is reported after the next list."""
    cluster = Cluster()
    for name in ("stays", "goes", "again"):
        cluster.put(pod(name, "a"))

    async def story() -> None:
        async with Watching(cluster) as watching:
            cluster.break_watches()
            cluster.remove("Pod", "goes")
            cluster.put(pod("comes", "b"))
            cluster.put(renewed(pod("again", "a")))
            await watching.recover()
            assert sorted(watching.told, key=str) == [frozenset({A}), frozenset({A}), frozenset({B})]
            assert watching.titles("own/a") == ["Pod own/again", "Pod own/stays"]
            assert watching.titles("own/b") == ["Pod own/comes"]

    run(story())
