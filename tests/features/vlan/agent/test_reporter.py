"""How reports are written while the watch that should show them is behind."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.api.core import EVENTS
from lanloom.features.vlan.agent.publisher import NODE_REPORTS, TRUST_SECONDS, ReportWriter, StatusPublisher
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.errors import ServerError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer
from lanloom.kube.refusals import LASTING_SECONDS
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.harness.interceptor import WRITES, Interceptor, Request

NodeReporter = ReportWriter[ClusterNetworkNodeStatus]

STATUS = {
    "cluster-1": ClusterNetworkNodeStatus(cluster_network="cluster-1", node="node9", bridge="cluster-1-br")
}
NAME = report_name("cluster-1", "node9")


def with_a_blind_reporter(
    test: Callable[[Quiet, NodeReporter], Awaitable[None]],
) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a reporter whose watch brings nothing."""

    async def given(quiet: Quiet) -> None:
        await quiet.leave_alone()
        informer: Informer[ClusterNetworkNode] = Informer(quiet.admin, CLUSTER_NETWORK_NODES, rng=Random(1))
        await test(quiet, ReportWriter(quiet.admin, "node9", NODE_REPORTS, informer))

    given.__name__, given.__doc__ = test.__name__, test.__doc__
    return on_a_quiet_cluster(given)


@with_a_blind_reporter
async def test_an_unchanged_report_is_written_once(quiet: Quiet, reporter: NodeReporter) -> None:
    """The server's answer to a write is enough to know that nothing has to be written again."""
    written: Counter[str] = Counter()
    quiet.sim.engine.ledger.listen(lambda change: written.update([change.key.name]))
    for _ in range(3):
        await reporter.publish(STATUS)
    assert written == {NAME: 2}  # created, then filled in


@with_a_blind_reporter
async def test_a_report_that_was_deleted_unseen_comes_back(quiet: Quiet, reporter: NodeReporter) -> None:
    """A report whose deletion no watch ever shows is written again after some time."""
    await reporter.publish(STATUS)
    await quiet.admin.delete(CLUSTER_NETWORK_NODES, NAME)
    await asyncio.sleep(TRUST_SECONDS + 1)
    await reporter.publish(STATUS)
    assert (await quiet.admin.get(CLUSTER_NETWORK_NODES, NAME)).status == STATUS["cluster-1"]


@with_a_blind_reporter
async def test_a_changed_report_survives_a_deletion(quiet: Quiet, reporter: NodeReporter) -> None:
    """A report that changes after a user deleted it is there again at once."""
    await reporter.publish(STATUS)
    await quiet.admin.delete(CLUSTER_NETWORK_NODES, NAME)
    changed = ClusterNetworkNodeStatus(cluster_network="cluster-1", node="node9", bridge="")
    await reporter.publish({"cluster-1": changed})
    assert (await quiet.admin.get(CLUSTER_NETWORK_NODES, NAME)).status == changed


@with_a_blind_reporter
async def test_a_report_that_was_there_before_is_taken_over(quiet: Quiet, reporter: NodeReporter) -> None:
    """A predecessor's report is filled in, not fought over."""
    await quiet.admin.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": NAME}})
    await reporter.publish(STATUS)
    assert (await quiet.admin.get(CLUSTER_NETWORK_NODES, NAME)).status == STATUS["cluster-1"]


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_report_that_lost_its_labels_is_made_anew(quiet: Quiet) -> None:
    """A report whose labels a user took away or changed gets them again, and goes on telling what is so."""
    await quiet.uplink()
    name = report_name("cluster-1", "node1")
    labels = (await quiet.admin.get(CLUSTER_NETWORK_NODES, name)).metadata.labels
    for key in (names.NODE_LABEL, names.CLUSTER_NETWORK_LABEL):
        for value in (None, "other"):
            await quiet.admin.patch(CLUSTER_NETWORK_NODES, name, {"metadata": {"labels": {key: value}}})
            await asyncio.sleep(60)
            assert (await quiet.admin.get(CLUSTER_NETWORK_NODES, name)).metadata.labels == labels
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()


@on_a_quiet_cluster
async def test_reports_of_others_about_the_node_go(quiet: Quiet) -> None:
    """What an earlier controller reported of the node, under another name, is cleared up and holds up nothing."""
    await quiet.uplink()
    labels = {names.NODE_LABEL: "node1", names.CLUSTER_NETWORK_LABEL: "cluster-1"}
    await quiet.admin.create(
        CLUSTER_NETWORK_NODES, {"metadata": {"name": "cluster-1-node1", "labels": labels}}
    )
    await asyncio.sleep(60)
    kept = [item.metadata.name for item in (await quiet.admin.list(CLUSTER_NETWORK_NODES)).items]
    assert kept == [report_name("cluster-1", f"node{number}") for number in (1, 2, 3)]


class Refused(Interceptor):
    """An API server whose webhook lets no user write reports of cluster networks."""

    async def send(self, request: Request) -> Any:
        if request.verb in WRITES and request.resource is CLUSTER_NETWORK_NODES:
            raise ServerError(500, "InternalError", "failed calling webhook")
        return await super().send(request)


@on_a_quiet_cluster
async def test_a_report_that_is_refused_for_long(quiet: Quiet) -> None:
    """A node whose reports can't be written says so by an Event of the Node."""
    await quiet.leave_alone()
    client, rng, now = Refused(quiet.admin), Random(1), asyncio.get_running_loop().time
    informer: Informer[ClusterNetworkNode] = Informer(quiet.admin, CLUSTER_NETWORK_NODES, rng=rng)
    unused: Any = None  # it is not come to while the reports can't be written
    reporter: NodeReporter = ReportWriter(client, "node9", NODE_REPORTS, informer)
    publisher = StatusPublisher(
        "node9",
        reporter,
        unused,
        Recorder(client, "lanloom-agent", "node9", now=now, rng=rng),
        lambda _name: None,
        on_answer=lambda _began: None,
        rng=rng,
    )
    publisher.report(STATUS)
    running = asyncio.create_task(publisher.controller.run())
    await asyncio.sleep(3 * LASTING_SECONDS)
    running.cancel()
    events = (await quiet.admin.list(EVENTS)).items
    assert ("node9", "WriteRefused") in {(item.involved_object.name, item.reason) for item in events}
