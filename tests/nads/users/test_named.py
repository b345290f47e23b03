"""By what users are called: each once, by what an operator has to change."""

from collections.abc import Sequence
from typing import Any

import pytest

from lanloom.api.meta import Key
from lanloom.nads.users import list_live_users
from tests.harness.virtual import run
from tests.nads.users.cluster import Cluster, Watching
from tests.nads.users.objects import (
    instance,
    machine,
    orphan,
    pod,
    renewed,
    workload,
)

Raw = dict[str, Any]

VM, VMI = "VirtualMachine", "VirtualMachineInstance"
ON_VM, ON_VMI, ON_RS = (VM, "db"), (VMI, "db"), ("ReplicaSet", "web-1")
MULTUS_JSON = '[{"name": "net", "namespace": "a", "interface": "pod1"}]'

CASES: dict[str, tuple[Sequence[Raw], list[str]]] = {
    "nobody": ([machine("db", "b/net"), pod("web"), workload("Deployment", "web", "net")], []),
    "a machine that is off": ([machine("db", "a/net")], ["VirtualMachine own/db"]),
    "a machine that runs": (
        [
            machine("db", "a/net"),
            instance("db", "a/net", owner=ON_VM, node="node1"),
            pod("virt-launcher-db", MULTUS_JSON, owner=ON_VMI),
        ],
        ["VirtualMachine own/db (runs on node1)"],
    ),
    "a machine that migrates": (
        [
            machine("db", "a/net"),
            instance("db", "a/net", owner=ON_VM, node="node1", target="node2"),
            pod("virt-launcher-db-1", MULTUS_JSON, owner=ON_VMI),
            pod("virt-launcher-db-2", MULTUS_JSON, owner=ON_VMI, node="node2"),
        ],
        ["VirtualMachine own/db (runs on node1, migrates to node2)"],
    ),
    "a target whose machine does not tell yet": (
        [
            machine("db", "a/net"),
            instance("db", "a/net", owner=ON_VM, node="node1"),
            pod("virt-launcher-db-2", MULTUS_JSON, owner=ON_VMI, node=""),
        ],
        ["VirtualMachine own/db (runs on node1, pod virt-launcher-db-2)"],
    ),
    "a machine that was changed while it runs": (
        [machine("db"), instance("db", "a/net", owner=ON_VM, node="node1")],
        ["VirtualMachine own/db (still runs on node1)"],
    ),
    "a machine that starts": (
        [machine("db", "a/net"), instance("db", "a/net", owner=ON_VM, phase="Scheduling")],
        ["VirtualMachine own/db (is starting)"],
    ),
    "an instance of its own": (
        [instance("db", "a/net", node="node1"), pod("virt-launcher-db", MULTUS_JSON, owner=ON_VMI)],
        ["VirtualMachineInstance own/db (runs on node1)"],
    ),
    "an instance whose machine is another one": (
        [machine("db"), instance("db", "a/net", owner=(VM, "other"), node="node1")],
        ["VirtualMachineInstance own/db (runs on node1)"],
    ),
    "an instance whose machine was created again": (
        [renewed(machine("db")), instance("db", "a/net", owner=ON_VM, node="node1")],
        ["VirtualMachineInstance own/db (runs on node1)"],
    ),
    "a pod that outlives its instance's end": (
        [
            machine("db"),
            instance("db", "a/net", owner=ON_VM, phase="Succeeded"),
            pod("p", "a/net", owner=ON_VMI),
        ],
        ["VirtualMachine own/db (pod p on node1)"],
    ),
    "an instance that has ended": ([instance("db", "a/net", phase="Failed")], []),
    "a launcher without an instance": ([pod("p", "a/net", owner=ON_VMI)], ["Pod own/p"]),
    "a launcher that lost its owner": (
        [machine("db"), instance("db", owner=ON_VM), orphan("p", "a/net", "db")],
        ["VirtualMachine own/db (pod p on node1)"],
    ),
    "a machine to which foreign pods say that they belong": (
        [
            machine("db", "a/net"),
            instance("db", "a/net", owner=ON_VM, node="node1"),
            *(pod(f"p{number}", "a/net", owner=ON_VMI, node="node2") for number in range(9)),
        ],
        ["VirtualMachine own/db (runs on node1, pod p0 on node2, pod p1 on node2 and 7 more)"],
    ),
    "a pod": ([pod("p", "a/net@eth1"), pod("q", "a/net", phase="Succeeded")], ["Pod own/p"]),
    "a bare name": ([pod("p", "net", namespace="a"), pod("p", "net")], ["Pod a/p"]),
    "a default network": ([pod("p", default="a/net"), pod("q", default="net")], ["Pod own/p", "Pod own/q"]),
    "a deployment": (
        [
            workload("Deployment", "web", "a/net"),
            workload("ReplicaSet", "web-1", "a/net", owner=("Deployment", "web")),
            pod("web-1-x", "a/net", owner=ON_RS),
        ],
        ["Deployment own/web"],
    ),
    "a deployment that was changed": (
        [
            workload("Deployment", "web"),
            workload("ReplicaSet", "web-1", "a/net", owner=("Deployment", "web")),
            *(pod(f"web-1-{name}", "a/net", owner=ON_RS) for name in "vwxyz"),
        ],
        ["Deployment own/web (pod web-1-v, pod web-1-w, pod web-1-x and 2 more)"],
    ),
    "a former template": (
        [
            workload("Deployment", "web"),
            workload("ReplicaSet", "web-1", "a/net", owner=("Deployment", "web")),
        ],
        [],
    ),
    "a pod whose deployment is gone": (
        [
            workload("ReplicaSet", "web-1", "a/net", owner=("Deployment", "web")),
            pod("web-1-x", "a/net", owner=ON_RS),
        ],
        ["ReplicaSet own/web-1 (pod web-1-x)"],
    ),
    "a replica set of its own": ([workload("ReplicaSet", "web-1", "a/net")], ["ReplicaSet own/web-1"]),
    "a pod of something else": ([pod("p", "a/net", owner=("Rollout", "web"))], ["Pod own/p"]),
    "a stateful set and a daemon set": (
        [
            workload("StatefulSet", "s", "a/net"),
            pod("s-0", "a/net", owner=("StatefulSet", "s")),
            workload("DaemonSet", "d", "a/net"),
        ],
        ["DaemonSet own/d", "StatefulSet own/s"],
    ),
    "a job": ([workload("Job", "j", "a/net"), pod("j-x", "a/net", owner=("Job", "j"))], ["Job own/j"]),
    "a finished job": ([workload("Job", "j", "a/net", done="Complete")], []),
    "a pod of a failed job": (
        [workload("Job", "j", "a/net", done="Failed"), pod("j-x", "a/net", owner=("Job", "j"))],
        ["Job own/j (pod j-x)"],
    ),
    "a cron job": (
        [
            workload("CronJob", "c", "a/net"),
            workload("Job", "c-1", "a/net", owner=("CronJob", "c")),
            pod("c-1-x", "a/net", owner=("Job", "c-1")),
        ],
        ["CronJob own/c"],
    ),
    "something unreadable": (
        [pod("p", "a/b/c"), machine("db", "a/net")],
        [
            'Pod own/p (annotation k8s.v1.cni.cncf.io/networks can\'t be read: "a/b/c" must be a name, namespace/name'
            " or namespace/name@interface)",
            "VirtualMachine own/db",
        ],
    ),
    "something unreadable next to what is sure": ([pod("p", "a/net", default="A")], ["Pod own/p"]),
    "owners in a circle": (
        [
            workload("Job", "j", "a/net", owner=("CronJob", "c")),
            workload("CronJob", "c") | {"metadata": workload("CronJob", "c", owner=("Job", "j"))["metadata"]},
        ],
        ["Job own/j"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_users_are_called(case: str) -> None:
    """Every user of a network is named once, by what an operator would change, watched or read again."""
    objects, expected = CASES[case]
    cluster = Cluster()
    for body in objects:
        cluster.put(body)

    async def story() -> None:
        async with Watching(cluster) as watching:
            assert watching.titles("a/net") == expected
            assert watching.users.is_used(Key("a", "net")) == bool(expected)
        fresh = await list_live_users(cluster)
        assert [str(user) for user in fresh.users_of(Key("a", "net"))] == expected

    run(story())


def test_whose_a_pod_is() -> None:
    """A pod is the machine or the workload that owns it, whatever networks it names; one that is gone is itself."""
    cluster = Cluster()
    for body in (
        machine("db"),
        instance("db", owner=ON_VM),
        pod("virt-launcher-db", owner=ON_VMI),
        workload("Deployment", "web"),
        workload("ReplicaSet", "web-1", owner=("Deployment", "web")),
        pod("web-1-a", owner=ON_RS),
        pod("alone"),
    ):
        cluster.put(body)
    expected = {
        "virt-launcher-db": "VirtualMachine own/db",
        "web-1-a": "Deployment own/web",
        "alone": "Pod own/alone",
        "gone": "Pod own/gone",
    }

    async def story() -> None:
        fresh = await list_live_users(cluster)
        async with Watching(cluster) as watching:
            for name, title in expected.items():
                for users in (fresh, watching.users):
                    assert str(users.user_of(Key("own", name))) == title

    run(story())
