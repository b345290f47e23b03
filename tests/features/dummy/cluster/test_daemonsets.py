"""The lab's controller of DaemonSets does what kube-controller-manager does: the same cases with either."""

from functools import partial
from typing import Any, Literal

import pytest

from lanloom.api.core import NODES, PODS, Pod
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.errors import NotFound
from tests.features.dummy.cluster.ground import Ground
from tests.features.dummy.cluster.kubelets import HELD

pytestmark = pytest.mark.slow

LABELS = {"app": "daemon"}
NAME = "daemon"


async def add_daemons(cluster: Ground, unavailable: int | str = 1) -> DaemonSet:
    """A DaemonSet, once its pods are ready on all three nodes."""
    template = {
        "metadata": {"labels": LABELS, "annotations": {"note": "kept"}},
        "spec": {
            "hostNetwork": True,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "one"}],
        },
    }
    spec = {
        "selector": {"matchLabels": LABELS},
        "template": template,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}},
    }
    await cluster.client.create(DAEMON_SETS, {"metadata": {"name": NAME}, "spec": spec}, cluster.place)
    return await rolled_out(cluster)


async def get(cluster: Ground) -> DaemonSet:
    """The DaemonSet."""
    return await cluster.client.get(DAEMON_SETS, NAME, cluster.place)


async def rolled_out(cluster: Ground, nodes: int = 3) -> DaemonSet:
    """The DaemonSet once each of so many nodes has a ready pod of the template as it is."""

    def holds(daemon: DaemonSet) -> bool:
        status = daemon.status
        return (
            status.observed_generation == daemon.metadata.generation
            and status.desired_number_scheduled
            == status.updated_number_scheduled
            == status.number_available
            == status.number_ready
            == nodes
        )

    return await cluster.until(partial(get, cluster), holds)


async def change(cluster: Ground, image: str) -> None:
    """A new template."""
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    await cluster.client.patch(DAEMON_SETS, NAME, {"spec": {"template": template}}, cluster.place)


async def pods(cluster: Ground, nodes: set[str]) -> dict[str, Pod]:
    """The pods by node, once they are on exactly these nodes."""
    return await cluster.until(cluster.pods, lambda found: found.keys() == nodes)


async def gone(cluster: Ground) -> None:
    """Returns when there is no DaemonSet any more."""

    async def is_gone() -> bool:
        try:
            await get(cluster)
        except NotFound:
            return True
        return False

    await cluster.until(is_gone, bool)


async def test_every_node_gets_a_pod(cluster: Ground) -> None:
    """Each node has one pod of the template, owned by the DaemonSet, and the status counts them."""
    daemon = await add_daemons(cluster)
    for pod in (await pods(cluster, {"n1", "n2", "n3"})).values():
        meta = pod.metadata
        assert meta.name.startswith(f"{NAME}-")
        assert meta.labels.keys() == {"app", "controller-revision-hash", "pod-template-generation"}
        assert meta.labels["pod-template-generation"] == "1"
        assert meta.annotations == {"note": "kept"}
        (owner,) = meta.owner_references
        assert (owner.api_version, owner.kind, owner.name) == ("apps/v1", "DaemonSet", NAME)
        assert (owner.uid, owner.controller, owner.block_owner_deletion) == (daemon.metadata.uid, True, True)
    status = daemon.status
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (3, 3)
    assert (status.number_unavailable, status.number_misscheduled, status.observed_generation) == (0, 0, 1)


@pytest.mark.parametrize(("unavailable", "number"), [("100%", 3), ("10%", 1)])
async def test_a_new_template_takes_as_many_pods_as_it_may(
    cluster: Ground, unavailable: str, number: int
) -> None:
    """A rolling update ends so many pods as maxUnavailable says, and the others once new pods are ready."""
    await add_daemons(cluster, unavailable)
    before = {pod.metadata.uid for pod in (await cluster.pods()).values()}
    cluster.kubelets.verdict = lambda pod: HELD
    await change(cluster, "two")

    def stuck(daemon: DaemonSet) -> bool:
        return daemon.status.updated_number_scheduled == number and daemon.status.number_unavailable == number

    status = (await cluster.until(partial(get, cluster), stuck)).status
    assert status.number_ready == 3 - number
    assert len(before & {pod.metadata.uid for pod in (await cluster.pods()).values()}) == 3 - number
    cluster.kubelets.verdict = lambda pod: None
    cluster.kubelets.look_again()
    await rolled_out(cluster)
    after = await pods(cluster, {"n1", "n2", "n3"})
    assert not before & {pod.metadata.uid for pod in after.values()}
    assert len({pod.metadata.labels["controller-revision-hash"] for pod in after.values()}) == 1


async def test_pods_that_are_not_ready_go_first(cluster: Ground) -> None:
    """A rolling update takes pods that are not ready at once."""
    await add_daemons(cluster)
    cluster.kubelets.verdict = lambda pod: "broken" if pod.spec.node_name != "n1" else None
    cluster.kubelets.look_again()
    await cluster.until(partial(get, cluster), lambda daemon: daemon.status.number_ready == 1)
    before = {node: pod.metadata.uid for node, pod in (await cluster.pods()).items()}
    await change(cluster, "two")

    async def kept() -> list[str]:
        return [node for node, pod in (await cluster.pods()).items() if before[node] == pod.metadata.uid]

    assert await cluster.until(kept, lambda nodes: len(nodes) == 1) == ["n1"]
    await cluster.until(partial(get, cluster), lambda daemon: daemon.status.updated_number_scheduled == 2)


async def test_a_deleted_pod_comes_again(cluster: Ground) -> None:
    """A pod that a user deletes is replaced on its node."""
    await add_daemons(cluster)
    old = (await cluster.pods())["n2"].metadata
    await cluster.client.delete(PODS, old.name, cluster.place)

    def replaced(found: dict[str, Pod]) -> bool:
        return "n2" in found and found["n2"].metadata.uid != old.uid

    await cluster.until(cluster.pods, replaced)
    await rolled_out(cluster)


async def test_a_failed_pod_is_replaced(cluster: Ground) -> None:
    """A pod that failed gives way to a new one."""
    await add_daemons(cluster)
    old = (await cluster.pods())["n2"].metadata
    failed = {"status": {"phase": "Failed"}}
    await cluster.client.patch(PODS, old.name, failed, cluster.place, subresource="status")

    def replaced(found: dict[str, Pod]) -> bool:
        return "n2" in found and found["n2"].metadata.uid != old.uid

    await cluster.until(cluster.pods, replaced)
    await rolled_out(cluster)


async def test_a_node_comes(cluster: Ground) -> None:
    """A new node gets a pod, and counts until that is ready."""
    await add_daemons(cluster)
    cluster.kubelets.verdict = lambda pod: HELD
    await cluster.add_node("n4")
    await pods(cluster, {"n1", "n2", "n3", "n4"})

    def noticed(daemon: DaemonSet) -> bool:
        status = daemon.status
        return (status.desired_number_scheduled, status.number_unavailable, status.number_ready) == (4, 1, 3)

    await cluster.until(partial(get, cluster), noticed)
    cluster.kubelets.verdict = lambda pod: None
    cluster.kubelets.look_again()
    await rolled_out(cluster, 4)


@pytest.mark.timeout(600)
async def test_a_node_goes(cluster: Ground) -> None:
    """The pod of a node that is gone goes, too, and the node no longer counts."""
    await add_daemons(cluster)
    await cluster.client.delete(NODES, "n3")
    # kube-controller-manager looks for such pods every 20 seconds, and waits 40 more. Only the pod's end tells its
    # controller of DaemonSets that something has changed.
    await cluster.until(cluster.pods, lambda found: found.keys() == {"n1", "n2"}, seconds=200)
    await rolled_out(cluster, 2)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_pods_go_with_their_daemon_set(
    cluster: Ground, propagation: Literal["Background", "Foreground"]
) -> None:
    """A DaemonSet that is deleted takes its pods along."""
    await add_daemons(cluster)
    await cluster.client.delete(DAEMON_SETS, NAME, cluster.place, propagation=propagation)
    await pods(cluster, set())
    await gone(cluster)


async def test_in_the_foreground_the_daemon_set_waits_for_its_pods(cluster: Ground) -> None:
    """Deleted in the foreground, a DaemonSet is there until its last pod is gone, and makes no new one."""
    await add_daemons(cluster)
    cluster.kubelets.silent |= {"n2"}
    await cluster.client.delete(DAEMON_SETS, NAME, cluster.place, propagation="Foreground")
    await pods(cluster, {"n2"})
    assert (await get(cluster)).metadata.deletion_timestamp is not None
    cluster.kubelets.silent.clear()
    cluster.kubelets.look_again()
    await gone(cluster)
    assert await cluster.pods() == {}


async def test_orphans_stay_and_are_adopted(cluster: Ground) -> None:
    """Pods of a DaemonSet that is deleted without them stay, and belong to the next one of that name."""
    await add_daemons(cluster)
    before = {node: pod.metadata.uid for node, pod in (await cluster.pods()).items()}
    await cluster.client.delete(DAEMON_SETS, NAME, cluster.place, propagation="Orphan")
    await gone(cluster)
    assert {node: pod.metadata.uid for node, pod in (await cluster.pods()).items()} == before
    daemon = await add_daemons(cluster, "100%")
    after = await cluster.pods()
    assert {node: pod.metadata.uid for node, pod in after.items()} == before

    def owners(found: dict[str, Pod]) -> set[Any]:
        return {owner.uid for pod in found.values() for owner in pod.metadata.owner_references}

    assert owners(after) == {daemon.metadata.uid}
