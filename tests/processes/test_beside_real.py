"""A real kube-apiserver with Harvester's controller while no manager answers: that controller's writes pass."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.api.names import HARVESTER_CONTROLLER
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.errors import ApiError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.feature import webhooks_of
from lanloom.runtime.webhookconfig import Registration, webhook_configurations
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.installing import install_webhooks
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer
from tests.processes.test_deletion_real import As

pytestmark = [pytest.mark.slow, pytest.mark.realserver]

NOBODY = "https://127.0.0.1:9"
KINDS: tuple[Resource[Any], ...] = (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, NADS)


@pytest.fixture
def real(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver without any request so far."""
    with RealServer(real_binaries) as running:
        yield running


async def test_harvesters_controller_never_waits_for_a_manager(real: RealServer) -> None:
    """It creates, changes and deletes its kinds and changes NADs; a user's NAD is refused, because it is unjudged."""
    admin = HttpClient(load(str(real.kubeconfig)))
    controller, user = As(real, HARVESTER_CONTROLLER), As(real, "jane")
    try:
        for kind in KINDS:
            await admin.create(CRDS, manifest(kind))

        async def served() -> bool:
            for kind in KINDS:
                await admin.list(kind)
            return True

        await eventually(served, bool)
        await admin.create(NADS, nad("vlan31", "cluster-1", 31), "default")
        await install_webhooks(admin)
        wanted = webhook_configurations(
            webhooks_of(FEATURES), lambda path: {"url": f"{NOBODY}{path}"}, coexists=True
        )
        for resource, configuration in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), wanted, strict=True):
            await Registration(admin).apply(resource, configuration)

        async def is_refused() -> bool:
            try:
                await user.patch(NADS, "vlan31", {"metadata": {"annotations": {"user": "1"}}}, "default")
            except ApiError as error:
                return "shared.lanloom.io" in str(error)
            return False

        if not real.is_older_than("1.28"):  # an older one has no conditions, so that all fails open
            await eventually(is_refused, bool)
        await controller.patch(NADS, "vlan31", {"metadata": {"annotations": {"route": "1"}}}, "default")
        await controller.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await controller.patch(
            CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": {"vlan-id-set-str": "31"}}}
        )
        await controller.create(VLAN_CONFIGS, vlan_config("mgmt-vlanconfig-node1", "mgmt"))
        await controller.patch(
            VLAN_CONFIGS, "mgmt-vlanconfig-node1", {"metadata": {"annotations": {"a": "1"}}}
        )
        await controller.delete(VLAN_CONFIGS, "mgmt-vlanconfig-node1")
        status = {
            "clusterNetwork": "cluster-1",
            "vlanConfig": "one",
            "linkMonitor": "cluster-1",
            "node": "node1",
        }
        await controller.create(VLAN_STATUSES, {"metadata": {"name": "cluster-1-node1"}, "status": status})
        await controller.delete(VLAN_STATUSES, "cluster-1-node1")
    finally:
        for client in (admin, controller, user):
            await client.close()
