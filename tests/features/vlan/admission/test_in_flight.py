"""What must be unique is so for requests that follow each other faster than a watch."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.core import CRDS
from lanloom.api.harvester import CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.reader import ClusterReader
from lanloom.kube.inflight import SECONDS
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import Raw, network, renamed, world
from tests.features.vlan.cluster import cluster_network, host_network, vlan_config
from tests.harness.admission import request
from tests.harness.virtual import run


class Webhook:
    """A replica whose watches bring nothing, on a server that has two cluster networks."""

    def __init__(self, client: LocalClient, seen: ClusterReader) -> None:
        self.client = client
        self._admission = VlanAdmission(client, seen, lambda _pod: "")

    async def ask(self, asked: AdmissionRequest) -> Verdict:
        """Its verdict."""
        return await self._admission.validate(asked)

    async def message(self, asked: AdmissionRequest) -> str:
        """Why it refuses."""
        return (await self.ask(asked)).message


def with_a_webhook(test: Callable[[Webhook], Awaitable[None]], *more: Raw) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a webhook."""

    async def main() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        for crd in manifests():
            await client.create(CRDS, crd)
        for name in ("cluster-1", "bare"):
            await client.create(CLUSTER_NETWORKS, cluster_network(name))
        await test(Webhook(client, world(*more)))
        await engine.close()

    def run_it() -> None:
        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it


FIRST = request(NADS, renamed(network(), "first"))
SECOND = request(NADS, renamed(network(), "second"))
TAKEN = (
    "can't create NetworkAttachmentDefinition default/second because spec.config.vlan is 2012 and "
    "NetworkAttachmentDefinition default/first "
    "already has node addresses on that VLAN of cluster-1; only one network per VLAN can have node addresses"
)


@with_a_webhook
async def test_a_vlan_has_one_owner_at_once(webhook: Webhook) -> None:
    """A second network with node addresses on a VLAN is refused although no watch has brought the first."""
    assert (await webhook.ask(FIRST)).allowed
    assert await webhook.message(SECOND) == TAKEN
    assert (await webhook.ask(FIRST)).allowed


@with_a_webhook
async def test_of_many_at_once_one_is_allowed(webhook: Webhook) -> None:
    """However many ask at once for the same VLAN, one gets it."""
    many = [request(NADS, renamed(network(), f"network-{number}")) for number in range(20)]
    verdicts = await asyncio.gather(*map(webhook.ask, many))
    assert sum(verdict.allowed for verdict in verdicts) == 1


@with_a_webhook
async def test_what_was_switched_on_counts(webhook: Webhook) -> None:
    """Node addresses that an edit switched on stand against others at once."""
    off, on = renamed(network(mode=""), "first"), renamed(network(), "first")
    for version, body in (("5", off), ("5", on)):
        body["metadata"]["resourceVersion"] = version
    assert (await webhook.ask(request(NADS, on, off))).allowed
    assert await webhook.message(SECOND) == TAKEN


@with_a_webhook
async def test_a_dry_run_leaves_nothing_behind(webhook: Webhook) -> None:
    """What was only tried stands against no request."""
    assert (await webhook.ask(replace(FIRST, dry_run=True))).allowed
    assert (await webhook.ask(SECOND)).allowed


@with_a_webhook
async def test_what_was_refused_leaves_nothing_behind(webhook: Webhook) -> None:
    """A network that was refused stands against no request."""
    assert not (await webhook.ask(request(NADS, renamed(network(mode="never"), "first")))).allowed
    assert (await webhook.ask(SECOND)).allowed


@with_a_webhook
async def test_what_never_comes_is_forgotten(webhook: Webhook) -> None:
    """A network that another webhook refused stands against others for some seconds and no longer."""
    assert (await webhook.ask(FIRST)).allowed
    await asyncio.sleep(SECONDS + 1)
    assert (await webhook.ask(SECOND)).allowed


@with_a_webhook
async def test_a_node_has_one_vlan_config_at_once(webhook: Webhook) -> None:
    """A second VlanConfig for a node is refused although no watch has brought the first."""
    assert (await webhook.ask(request(VLAN_CONFIGS, vlan_config("a", "bare", nics=["eth7"])))).allowed
    assert await webhook.message(request(VLAN_CONFIGS, vlan_config("b", "bare"))) == (
        "can't create VlanConfig b because spec.nodeSelector matches node1, node2, which VlanConfig a already covers"
    )


@with_a_webhook
async def test_a_cluster_network_with_a_vlan_config_under_way_stays(webhook: Webhook) -> None:
    """A ClusterNetwork is not deleted while its first VlanConfig is being created."""
    assert (await webhook.ask(request(VLAN_CONFIGS, vlan_config("a", "bare", nics=["eth7"])))).allowed
    assert await webhook.message(request(CLUSTER_NETWORKS, None, cluster_network("bare"))) == (
        "can't delete ClusterNetwork bare because the VlanConfigs a belong to it; delete them first"
    )


@with_a_webhook
async def test_a_cluster_network_that_is_about_to_go_takes_nothing_new(webhook: Webhook) -> None:
    """No VlanConfig and no network is made on a ClusterNetwork whose deletion was just allowed."""
    assert (await webhook.ask(request(CLUSTER_NETWORKS, None, cluster_network("bare")))).allowed
    assert await webhook.message(request(VLAN_CONFIGS, vlan_config("a", "bare", nics=["eth7"]))) == (
        'can\'t create VlanConfig a because spec.clusterNetwork "bare" does not exist; create the ClusterNetwork first'
    )
    assert "does not exist" in await webhook.message(request(NADS, network(cluster_network="bare", mode="")))
    await asyncio.sleep(SECONDS + 1)
    assert (await webhook.ask(request(VLAN_CONFIGS, vlan_config("a", "bare", nics=["eth7"])))).allowed


@with_a_webhook
async def test_harvester_s_addresses_count_at_once(webhook: Webhook) -> None:
    """A VLAN that a HostNetworkConfig was just given is not given to a network, too."""
    assert (await webhook.ask(request(HOST_NETWORK_CONFIGS, host_network("storage")))).allowed
    assert "HostNetworkConfig storage already gives" in await webhook.message(FIRST)
