"""A check on an embedded API server: what is created, what is awaited, and that nothing stays, however it ends."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from lanloom.api.core import NAMESPACES, NODES, PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.errors import NotFound
from lanloom.processes.trials.facts import IMAGE_PODS, NO_MANAGER, CheckOptions, read_facts
from lanloom.processes.trials.run import CREATED, check, clean_up
from lanloom.processes.trials.verdicts import Verdict
from lanloom.refusals import Refusal
from lanloom.runtime.feature import trials_of
from lanloom.runtime.trials import NAMESPACE
from tests.harness.cluster import Cluster, play
from tests.processes.trials.cases import FACTS, KINDS, good

Raw = dict[str, Any]

TRIALS = trials_of(FEATURES, FACTS)
REPORTS = {name: report for trial in TRIALS for name, report in good(trial).items()}


BACKGROUND = frozenset(probe.task.name for trial in TRIALS for probe in trial.probes if probe.background)
RUNNING: Raw = {"status": {"phase": "Running"}}


class CheckedCluster(Cluster):
    """A cluster with Lanloom's kinds, and something that makes pods report."""

    kinds = KINDS
    steps: list[str]

    async def prepare(self) -> None:
        """Make what a cluster has before the check."""
        self.steps = []
        with suppress(NotFound):
            await self.client.get(NAMESPACES, "default")
        for name in ("node1", "node2"):
            conditions = [{"type": "Ready", "status": "True"}]
            await self.keep(NODES, {"metadata": {"name": name}, "status": {"conditions": conditions}})

    async def report(self, silent: frozenset[str] = frozenset()) -> None:
        """Give every pod of the check the report of a good one, but for those that are silent, or stay."""
        while True:
            for pod in (await self.client.list(PODS, NAMESPACE)).items:
                name = pod.metadata.name
                if name in silent:
                    continue
                if name in BACKGROUND:
                    with suppress(NotFound):
                        await self.client.patch(PODS, name, RUNNING, NAMESPACE, subresource="status")
                elif not pod.has_ended:
                    message = msgspec.json.encode(REPORTS[name]).decode()
                    state = {"terminated": {"exitCode": 0, "message": message}}
                    status = {"phase": "Succeeded", "containerStatuses": [{"name": "probe", "state": state}]}
                    with suppress(NotFound):
                        await self.client.patch(
                            PODS, name, {"status": status}, NAMESPACE, subresource="status"
                        )
            await asyncio.sleep(1)

    async def check(self) -> tuple[Verdict, ...]:
        """Run the check."""
        return await check(self.client, FACTS, TRIALS, self.steps.append)

    async def left(self) -> set[str]:
        """Return what there is of the check."""
        found = {
            f"{kind.kind} {item.metadata.name}"
            for kind in (PODS, *CREATED)
            for item in (await self.client.list(kind)).items
        }
        with suppress(NotFound):
            await self.client.get(NAMESPACES, NAMESPACE)
            found.add("namespace")
        return found


def story(play_it: Callable[[CheckedCluster], Any]) -> None:
    """Play a story on a prepared cluster."""

    async def prepared(cluster: CheckedCluster) -> None:
        await cluster.prepare()
        await play_it(cluster)

    play(prepared, CheckedCluster)


def test_all_is_tried_and_removed() -> None:
    """Every trial has its verdict, progress is said, and nothing of the check is left."""

    async def play_it(cluster: CheckedCluster) -> None:
        cluster.begin("kubelet", cluster.report())
        verdicts = await cluster.check()
        assert {item.name: item.result for item in verdicts} == {trial.name: "ok" for trial in TRIALS}
        assert "8 of 8 pods have reported" in cluster.steps
        assert await cluster.left() == set()

    story(play_it)


def test_a_pod_of_the_other_node_is_there_first() -> None:
    """Pods that must not hear another one are created when that one runs."""

    async def play_it(cluster: CheckedCluster) -> None:
        task = asyncio.create_task(cluster.check())
        await asyncio.sleep(10)
        names = {pod.metadata.name for pod in (await cluster.client.list(PODS, NAMESPACE)).items}
        assert "isolated-c" in names and not names & {"isolated-a", "isolated-b"}
        cluster.begin("kubelet", cluster.report())
        assert {item.result for item in await task} == {"ok"}

    story(play_it)


def test_a_pod_that_does_not_run_fails_its_trial_alone() -> None:
    """Where the pod of the other node never runs, the other trials are made all the same."""

    async def play_it(cluster: CheckedCluster) -> None:
        cluster.begin("kubelet", cluster.report(BACKGROUND))
        results = {item.name: item.result for item in await cluster.check()}
        assert results == {"isolated": "failed", "lan": "ok", "vlan": "ok", "ipam": "ok"}

    story(play_it)


def test_pods_that_never_end_are_no_end_of_the_check() -> None:
    """After its time a pod without a report is a failure of its trial alone, and is removed too."""

    async def play_it(cluster: CheckedCluster) -> None:
        cluster.begin("kubelet", cluster.report(frozenset({"lan-a"})))
        results = {item.name: item.result for item in await cluster.check()}
        assert results == {"lan": "failed", "vlan": "ok", "ipam": "ok", "isolated": "ok"}
        assert await cluster.left() == set()

    story(play_it)


@pytest.mark.parametrize("seconds", [0, 1, 2, 5])
def test_an_interrupted_check_removes_everything(seconds: int) -> None:
    """Cancelled at any moment, the check ends when what it created is gone."""

    async def play_it(cluster: CheckedCluster) -> None:
        task = asyncio.create_task(cluster.check())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await cluster.left() == set()

    story(play_it)


@pytest.mark.parametrize("writes", range(1, 22))
def test_a_killed_check_is_cleaned_up(writes: int) -> None:
    """Whatever the last write was before a check was killed, the clean-up removes all of it, and nothing else."""

    async def play_it(cluster: CheckedCluster) -> None:
        for resource, body, namespace in _writes()[:writes]:
            await cluster.client.create(resource, body, namespace)
        await clean_up(cluster.client)
        assert await cluster.left() == set()
        assert len((await cluster.client.list(NODES)).items) == 2

    story(play_it)


def _writes() -> list[tuple[Resource[Any], Raw, str]]:
    from lanloom.processes.trials.run import namespace_body
    from lanloom.runtime.trials import pod

    found: list[tuple[Resource[Any], Raw, str]] = [(NAMESPACES, namespace_body(), "")]
    for trial in TRIALS:
        found += [(item.resource, item.body, item.namespace) for item in trial.creations]
        found += [(PODS, pod(FACTS, probe), NAMESPACE) for probe in trial.probes]
    return found


OTHERS = ((LANS, "default"), (DUMMY_CLUSTER_NETWORKS, ""), (NETWORKS, ""))


@pytest.mark.parametrize(("kind", "namespace"), OTHERS, ids=lambda item: getattr(item, "kind", item))
def test_objects_of_others_stay(kind: Resource[Any], namespace: str) -> None:
    """An object with the same name that another user made is neither used nor removed."""

    async def play_it(cluster: CheckedCluster) -> None:
        body = next(item.body for trial in TRIALS for item in trial.creations if item.resource == kind)
        foreign = {"metadata": {"name": body["metadata"]["name"]}, "spec": body["spec"]}
        await cluster.client.create(kind, foreign, namespace)
        cluster.begin("kubelet", cluster.report())
        verdicts = await cluster.check()
        assert {item.result for item in verdicts} <= {"ok", "failed"}
        if namespace != "default":
            assert any("was refused" in item.found for item in verdicts)
        await cluster.client.get(kind, body["metadata"]["name"], namespace)

    story(play_it)


def test_one_check_at_a_time() -> None:
    """A namespace that is there already ends the check before it creates anything, and is left alone."""

    async def play_it(cluster: CheckedCluster) -> None:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with pytest.raises(Refusal, match="--clean-up"):
            await cluster.check()
        assert await cluster.left() == {"namespace"}
        assert await clean_up(cluster.client) == 0
        assert await cluster.left() == {"namespace"}

    story(play_it)


def test_an_object_that_waits_is_awaited() -> None:
    """An object that a finalizer holds until pods are gone is gone when the check ends."""

    async def play_it(cluster: CheckedCluster) -> None:
        cluster.begin("kubelet", cluster.report())
        cluster.begin("manager", _hold(cluster))
        await cluster.check()
        assert await cluster.left() == set()

    story(play_it)


async def _hold(cluster: CheckedCluster) -> None:
    """Put a finalizer on the LAN, and take it away some seconds after its deletion."""
    while True:
        for lan in (await cluster.client.list(LANS)).items:
            held = [] if lan.metadata.is_deleting else ["x.example/held"]
            if lan.metadata.is_deleting:
                assert not (await cluster.client.list(PODS, NAMESPACE)).items
                await asyncio.sleep(5)
            patch = {"metadata": {"finalizers": held}}
            with suppress(NotFound):
                await cluster.client.patch(LANS, lan.metadata.name, patch, NAMESPACE)
        await asyncio.sleep(0.1)


def test_what_can_not_be_removed_is_named() -> None:
    """A clean-up that does not come to its end names what is left, and how to go on."""

    async def play_it(cluster: CheckedCluster) -> None:
        for resource, body, namespace in _writes()[:3]:
            made = body | {"metadata": body["metadata"] | {"finalizers": ["x.example/held"]}}
            await cluster.client.create(resource, made, namespace)
        with pytest.raises(Refusal, match=r"Pod vlan-1.*--clean-up"):
            await clean_up(cluster.client, 5.0)

    story(play_it)


def test_the_facts_of_a_cluster() -> None:
    """Image and underlay are those that the cluster has; what the user says precedes."""

    async def play_it(cluster: CheckedCluster) -> None:
        lan = next(item.body for trial in TRIALS for item in trial.creations if item.resource == LANS)
        await cluster.client.create(LANS, lan | {"metadata": {"name": "blue"}}, "default")
        with pytest.raises(Refusal) as refused:
            await read_facts(cluster.client, CheckOptions(nodes=("node1", "node9")), "r")
        assert str(refused.value).split("\n- ")[1:] == [
            NO_MANAGER,
            "these nodes are not ready, cordoned or not there: node9",
        ]
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "lanloom-system"}})
        pod = {
            "metadata": {"name": "m", "labels": {"app.kubernetes.io/name": "lanloom-manager"}},
            "spec": {"containers": [{"name": "m", "image": "registry.example/lanloom:1"}]},
        }
        await cluster.client.create(IMAGE_PODS, pod, "lanloom-system")
        facts = await read_facts(cluster.client, CheckOptions(), "r")
        assert (facts.image, facts.underlay) == ("registry.example/lanloom:1", "eth0")
        assert (
            facts.kinds == FACTS.kinds and len(facts.places) == 2 and facts.vni not in (0, lan["spec"]["vni"])
        )
        facts = await read_facts(
            cluster.client, CheckOptions(image="mine", underlay="bond0", nodes=("node2", "node1")), "r"
        )
        assert (facts.image, facts.underlay, facts.places[0].name) == ("mine", "bond0", "node2")

    story(play_it)
