"""Node addresses wait for uplinks that are being built, so that one manifest may hold both.

Alone, the NAD is accepted at once, and the nodes wait. Alongside Harvester the webhook does, whose rule refuses it.
"""

import asyncio
from random import Random

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import UPLINK_SECONDS, VlanAdmission, check_request
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import Raw, network, report, world
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.harness.admission import request
from tests.harness.virtual import run

CONFIG = vlan_config("bare", "bare", nodeSelector={"kubernetes.io/hostname": "node1"})


def failing(reason: str) -> Raw:
    """A report that node1 does not carry the cluster network."""
    body = report("bare", "node1", ready=False)
    body["status"]["conditions"][0]["reason"] = reason
    return body


@pytest.mark.parametrize(
    ("seen", "comes_after", "allowed", "seconds"),
    [
        ([CONFIG], 2.2, True, 2.5),
        ([CONFIG, failing("Configuring")], 2.2, True, 2.5),
        ([CONFIG], 60.0, False, UPLINK_SECONDS),
        ([CONFIG, failing("UplinkMissing")], 2.2, False, 0.0),
        ([], 2.2, False, 0.0),
    ],
    ids=["in time", "being built", "too late", "failing", "no uplink asked for"],
)
def test_waiting_beside_harvester(seen: list[Raw], comes_after: float, allowed: bool, seconds: float) -> None:
    """A NAD is refused at once where no uplink is coming, else only if none works within the time."""

    async def ask() -> tuple[bool, float]:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        for crd in manifests():
            await client.create(CRDS, crd)
        await client.create(CLUSTER_NETWORKS, cluster_network("bare"))
        if CONFIG in seen:
            await client.create(VLAN_CONFIGS, CONFIG)
        loop = asyncio.get_running_loop()

        async def agent() -> None:
            await asyncio.sleep(comes_after)
            working = report("bare", "node1")
            await client.create(CLUSTER_NETWORK_NODES, working)
            name, status = working["metadata"]["name"], {"status": working["status"]}
            await client.patch(CLUSTER_NETWORK_NODES, name, status, subresource="status")

        began = loop.time()
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(agent())
            admission = VlanAdmission(client, world(*seen), lambda _pod: "", coexisting=lambda: True)
            verdict = await admission.validate(request(NADS, network(cluster_network="bare")))
            reporting.cancel()
        await engine.close()
        return verdict.allowed, loop.time() - began

    found, waited = run(ask())
    assert found == allowed
    assert waited == pytest.approx(seconds, abs=0.01)


WAITS = 'nodes get addresses of this network when its cluster network "bare" is ready: no node has a working uplink'
STATIC = {"node1": "192.168.1.11/24"}


@pytest.mark.parametrize(
    ("seen", "body", "refused", "warned"),
    [
        ([], network(cluster_network="bare"), "", True),
        ([CONFIG], network(cluster_network="bare"), "", True),
        ([CONFIG, failing("UplinkMissing")], network(cluster_network="bare"), "", True),
        ([CONFIG, report("bare", "node1")], network(cluster_network="bare"), "", False),
        ([], network(cluster_network="bare", mode="static", addresses=STATIC), "", True),
        ([CONFIG], network(cluster_network="bare", mode="static", addresses=STATIC), "", True),
        (
            [CONFIG],
            network(cluster_network="bare", mode="static", addresses={"node9": "192.168.1.9/24"}),
            "does not cover",
            False,
        ),
        ([], network(cluster_network="nowhere"), "does not exist", False),
        ([], network(cluster_network="mgmt"), "is not ready", False),
    ],
    ids=[
        "before the VlanConfig",
        "right after it",
        "failing",
        "ready",
        "static before the VlanConfig",
        "static after it",
        "another node",
        "no cluster network",
        "mgmt",
    ],
)
def test_alone_the_addresses_wait(seen: list[Raw], body: Raw, refused: str, warned: bool) -> None:
    """Alone, a NAD may come before its uplinks, with a warning what it waits for; the rest is judged all the same."""
    verdict = check_request(request(NADS, body), world(*seen))
    assert refused in verdict.message and bool(refused) != verdict.allowed
    assert any(WAITS in warning for warning in verdict.warnings) == warned
