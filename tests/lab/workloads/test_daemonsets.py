"""The lab's controller of DaemonSets, in virtual time, where `tests/features/dummy/cluster` does not test it."""

import asyncio

import pytest

from lanloom.api.core import NODES, PODS, Pod
from lanloom.api.workloads import DAEMON_SETS
from lanloom_lab.workloads.daemonsets import max_unavailable, selector
from tests.features.dummy.cluster.kubelets import HELD
from tests.lab.workloads.town import PLACE, Town, in_a_town


@in_a_town
async def test_the_status_counts_nodes(town: Town) -> None:
    """The status says how many nodes want a pod, have one, and have one that is ready."""
    town.kubelets.verdict = lambda pod: HELD if pod.spec.node_name == "n3" else None
    await town.add_daemons()
    await town.rest()
    status = (await town.daemons()).status
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (3, 3)
    assert (status.number_ready, status.number_available, status.number_unavailable) == (2, 2, 1)
    assert (status.updated_number_scheduled, status.observed_generation) == (3, 1)


@in_a_town
async def test_numbers_return_to_zero(town: Town) -> None:
    """A number that was written before is written as none again."""
    town.kubelets.verdict = lambda pod: HELD
    await town.add_daemons()
    await town.rest()
    assert (await town.daemons()).status.number_unavailable == 3
    town.kubelets.verdict = lambda pod: None
    town.kubelets.look_again()
    await town.rest()
    status = (await town.daemons()).status
    assert (status.number_unavailable, status.number_ready) == (0, 3)


@in_a_town
async def test_only_nodes_with_the_labels_of_the_selector(town: Town) -> None:
    """A template with a nodeSelector gets pods on the nodes with these labels, now and after the labels change."""
    await town.add_daemons(nodeSelector={"disk": "fast"})
    await town.rest()
    assert await town.nodes_with_pods() == []
    await town.client.patch(NODES, "n2", {"metadata": {"labels": {"disk": "fast"}}})
    await town.rest()
    assert await town.nodes_with_pods() == ["n2"]
    await town.client.patch(NODES, "n2", {"metadata": {"labels": {"disk": "slow"}}})
    await town.rest()
    assert await town.nodes_with_pods() == []


@in_a_town
async def test_one_pod_too_many_goes(town: Town) -> None:
    """Of two pods on one node the older one stays."""
    await town.add_daemons()
    await town.rest()
    before = await town.uids()
    first = (await town.pods())[0]
    body = {
        "metadata": {"name": "another", "labels": first.metadata.labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "one"}]},
    }
    await town.client.create(PODS, body, PLACE)
    await town.rest()
    assert await town.uids() == before


def old_ones(pods: tuple[Pod, ...], before: dict[str, str]) -> list[str]:
    """The nodes whose pod is the one of before."""
    return [pod.spec.node_name for pod in pods if before[pod.spec.node_name] == pod.metadata.uid]


@in_a_town
async def test_on_delete_leaves_it_to_others(town: Town) -> None:
    """With the strategy OnDelete old pods stay until they are deleted."""
    await town.add_daemons(spec={"updateStrategy": {"type": "OnDelete"}})
    await town.rest()
    before = await town.uids()
    await town.change_image("two")
    await town.rest()
    assert len(old_ones(await town.pods(), before)) == 3
    assert (await town.daemons()).status.updated_number_scheduled == 0
    await town.client.delete(PODS, (await town.pods())[2].metadata.name, PLACE)
    await town.rest()
    assert old_ones(await town.pods(), before) == ["n1", "n2"]
    assert (await town.daemons()).status.updated_number_scheduled == 1


@in_a_town
async def test_ready_for_long_enough(town: Town) -> None:
    """With minReadySeconds a pod is available only after it was ready for that long."""
    await town.add_daemons(spec={"minReadySeconds": 60})
    await town.rest()
    status = (await town.daemons()).status
    assert (status.number_ready, status.number_available) == (3, 0)
    await asyncio.sleep(40)
    assert (await town.daemons()).status.number_available == 3


@in_a_town
async def test_nobody_deleted_adopts(town: Town) -> None:
    """Pods that a DaemonSet left behind stay although its controller does not know of its deletion yet."""
    await town.add_daemons()
    await town.rest()
    before = await town.uids()
    town.behind = 5
    await town.client.delete(DAEMON_SETS, "daemon", PLACE, propagation="Orphan")
    await town.rest()
    assert await town.uids() == before


@pytest.mark.parametrize(
    ("limit", "desired", "number"), [(1, 10, 1), ("10%", 3, 1), ("10%", 11, 2), ("100%", 7, 7), ("34%", 3, 2)]
)
def test_percentages_are_rounded_up(limit: int | str, desired: int, number: int) -> None:
    """maxUnavailable is a number of nodes, or a share of them that is rounded up."""
    assert max_unavailable(limit, desired) == number


@in_a_town
async def test_selectors_of_both_forms(town: Town) -> None:
    """matchLabels and matchExpressions become one label selector."""
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
    ]
    await town.add_daemons(
        spec={"selector": {"matchLabels": {"app": "daemon"}, "matchExpressions": expressions}}
    )
    assert selector(await town.daemons()) == "app=daemon,tier in (a,b),!old,app"
