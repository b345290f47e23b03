"""Node addresses wait in the webhook for uplinks that are being built, so that one manifest may hold both."""

import asyncio
from random import Random

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import UPLINK_SECONDS, VlanAdmission
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
def test_waiting(seen: list[Raw], comes_after: float, allowed: bool, seconds: float) -> None:
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
            admission = VlanAdmission(client, world(*seen), lambda _pod: "")
            verdict = await admission.validate(request(NADS, network(cluster_network="bare")))
            reporting.cancel()
        await engine.close()
        return verdict.allowed, loop.time() - began

    found, waited = run(ask())
    assert found == allowed
    assert waited == pytest.approx(seconds, abs=0.01)
