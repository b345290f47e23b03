"""What `lanloom doctor` finds on a kube-apiserver whose controllers can't create the pods of an installation."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lanloom.api.core import NODES, PODS
from lanloom.kube.errors import Forbidden
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
def cluster(real_binaries: Path) -> Iterator[tuple[RealServer, Installer]]:
    """A kube-apiserver with the kinds, and a namespace that admits no pod."""
    with RealServer(real_binaries, CONTROLLERS) as running:
        installer = Installer(real_binaries, running)
        installer.definitions()
        metadata = {"name": "lanloom-system"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        installer.kubectl("apply", "-f", "-", given=yaml.safe_dump(namespace))
        installer.kubectl("-n", "lanloom-system", "create", "quota", "none", "--hard=pods=0")
        installer.kubectl("-n", "lanloom-system", "create", "serviceaccount", "default")
        yield running, installer


async def admits_none(client: HttpClient) -> bool:
    """Whether the quota is known to what admits pods."""
    pod = {"metadata": {"name": "tried"}, "spec": {"containers": [{"name": "tried", "image": "lanloom"}]}}
    try:
        await client.request("POST", PODS.path("lanloom-system"), pod, query={"dryRun": "All"})
    except Forbidden as error:
        return "exceeded quota" in str(error)
    return False


async def test_doctor_names_the_quota_that_keeps_pods_away(cluster: tuple[RealServer, Installer]) -> None:
    """Pods that can't be created are named with the words of the API server, until it lets them be created."""
    server, installer = cluster
    async with HttpClient(load(str(server.kubeconfig))) as client:
        await eventually(lambda: admits_none(client), bool)
        installer.manifests("manager.yaml", "agent.yaml", "lan.yaml")
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

        installer.kubectl("-n", "lanloom-system", "delete", "quota", "none")
        workloads = ("deployment/lanloom-manager", "daemonset/lanloom-agent", "daemonset/lanloom-lan")
        installer.kubectl("-n", "lanloom-system", "rollout", "restart", *workloads)

        def is_over(checks: dict[str, Check]) -> bool:
            # There is no scheduler.
            names = ("manager", "lanloom-agent", "lanloom-lan")
            return all("scheduled" in checks[name].found for name in names)

        checks = await eventually(found, is_over)
        assert not [each for each in checks.values() if "quota" in each.found]
