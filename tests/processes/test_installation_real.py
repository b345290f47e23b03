"""What `lanloom doctor` finds on a kube-apiserver whose controllers can't create the pods of an installation."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lanloom.api.core import NODES
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.processes.installation import check_installation
from lanloom.runtime.feature import Check
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

CONTROLLERS = ("daemonset", "deployment", "replicaset", "resourcequota")


@pytest.fixture
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver on which everything is installed, in a namespace that admits no pod."""
    with RealServer(real_binaries, CONTROLLERS) as running:
        installer = Installer(real_binaries, running)
        installer.definitions()
        metadata = {"name": "lanloom-system"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        installer.kubectl("apply", "-f", "-", given=yaml.safe_dump(namespace))
        installer.kubectl("-n", "lanloom-system", "create", "quota", "none", "--hard=pods=0")
        installer.manifests("manager.yaml", "agent.yaml", "lan.yaml")
        yield running


async def test_doctor_names_the_quota_that_keeps_pods_away(server: RealServer) -> None:
    """Managers and agents whose pods can't be created have failed, with the words of the API server."""
    async with HttpClient(load(str(server.kubeconfig))) as client:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await client.create(NODES, {"metadata": {"name": "node1"}})
        await client.patch(NODES, "node1", {"status": ready}, subresource="status")
        await client.patch(NODES, "node1", {"spec": {"taints": []}})

        async def found() -> dict[str, Check]:
            return {check.name: check for check in await check_installation(client, time.time())}

        def is_named(checks: dict[str, Check]) -> bool:
            names = ("manager", "lanloom-agent", "lanloom-lan")
            return all("exceeded quota: none" in checks[name].found for name in names)

        checks = await eventually(found, is_named)
    assert {checks[name].result for name in ("manager", "lanloom-agent", "lanloom-lan")} == {"failed"}
