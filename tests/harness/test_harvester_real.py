"""The stand-in of Harvester says what its real webhook and manager say, where their binaries are named."""

import json
import os
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.api import names
from lanloom.api.core import CRDS, NODES, VALIDATING_WEBHOOKS
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.names import vlan_status_name
from lanloom.kube.errors import Forbidden, KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.certificates import issue
from lanloom_embedded.kubevirt import definitions as kubevirts
from lanloom_lab.harvester.definitions import install
from lanloom_lab.harvester.processes import register
from lanloom_lab.harvester.server import WebhookServer
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer, free_ports
from tests.harness.test_harvester import REFUSED

DIRECTORY = os.environ.get("HARVESTER_NETWORK_CONTROLLER", "")
CONTROLLER, WEBHOOK = "harvester-network-controller", "harvester-network-webhook"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.realserver,
    pytest.mark.skipif(
        not (Path(DIRECTORY) / WEBHOOK).exists() or not DIRECTORY,
        reason=f"set HARVESTER_NETWORK_CONTROLLER to a directory with Harvester's {CONTROLLER} and {WEBHOOK}",
    ),
]


@contextmanager
def programs(kubeconfig: Path, directory: Path, port: int) -> Iterator[None]:
    """Harvester's manager and its webhook, as its own service account."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] |= {"as": names.HARVESTER_CONTROLLER, "as-groups": ["system:masters"]}
    own = directory / "kubeconfig"
    own.write_text(json.dumps(config))
    environment = os.environ | {"KUBECONFIG": str(own)}
    commands = (
        (CONTROLLER, "manager", "--namespace", names.HARVESTER_NAMESPACE),
        (WEBHOOK, "--https-port", str(port)),
    )
    running = []
    for name, *words in commands:
        with (directory / f"{name}.log").open("wb") as log:
            command = [str(Path(DIRECTORY) / name), *words]
            running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def ask(port: int, path: str, review: dict[str, Any]) -> dict[str, Any]:
    """The answer of the real webhook, whose certificate is for the name of a Service."""
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", json.dumps(review).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as response:
        found: dict[str, Any] = json.load(response)
        return found


async def test_the_real_webhook_refuses_the_same(real_binaries: Path, tmp_path: Path) -> None:
    """Each refusal has the same words; its manager labels, annotates and puts finalizers as the stand-in does."""
    (port,) = free_ports(1)
    with RealServer(real_binaries) as real, programs(real.kubeconfig, tmp_path, port):
        async with HttpClient(load(str(real.kubeconfig))) as client:
            for definition in (manifest(NADS), *kubevirts()):
                await client.create(CRDS, definition)
            await install(client, played="none")
            for name in ("node1", "node2", "node3"):
                await client.create(NODES, node(name, ready=True))

            async def registered() -> bool:
                return bool((await client.list(VALIDATING_WEBHOOKS)).items)

            await eventually(registered, bool, 120)
            bundle = issue(["127.0.0.1"], time.time())
            server = WebhookServer(bundle, lambda path, review: ask(port, path, review))
            await register(client, await server.start(), bundle.ca)
            try:
                await compare(client)
            finally:
                server.close()


async def compare(client: HttpClient) -> None:
    """The cases of the stand-in, and what the manager makes of a NAD."""
    await eventually(lambda: client.create(CLUSTER_NETWORKS, cluster_network("cluster-1")), bool)
    await client.create(CLUSTER_NETWORKS, cluster_network("late"))
    await eventually(lambda: client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1")), bool)
    reports = [
        (vlan_status_name("cluster-1", f"node{n}"), "cluster-1", f"node{n}", "True") for n in (1, 2, 3)
    ]
    for name, network, on, status in (*reports, ("late-status", "late", "node1", "False")):
        labels = {
            names.CLUSTER_NETWORK_LABEL: network,
            names.VLAN_CONFIG_LABEL: "one",
            names.NODE_LABEL: on,
        }
        said = {"clusterNetwork": network, "vlanConfig": "one", "linkMonitor": network, "node": on}
        body: dict[str, Any] = {
            "metadata": {"name": name, "labels": labels},
            "status": {**said, "conditions": [{"type": "ready", "status": status}]},
        }
        await client.create(VLAN_STATUSES, body)

    async def labelled() -> bool:
        found = (await client.get(NADS, "net", "default")).metadata
        return names.READY_LABEL in found.labels and bool(found.finalizers)

    await eventually(
        lambda: client.create(NADS, nad("net", "cluster-1", 2012, config={"mtu": 9000}), "default"), bool
    )
    await eventually(labelled, bool)
    found = await client.get(NADS, "net", "default")
    assert json.loads(found.spec.config)["mtu"] == 1500
    assert found.metadata.finalizers == ("wrangler.cattle.io/harvester-network-manager-nad-controller",)
    for title, (kind, refused, words) in REFUSED.items():
        with pytest.raises(KubeError) as caught:
            await client.create(kind, refused, "default" if kind.namespaced else "")
        assert (type(caught.value), words in str(caught.value)) == (Forbidden, True), (
            f"{title}: {caught.value}"
        )
