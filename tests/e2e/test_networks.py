"""Networks of pods on the installed cluster, through all that happens to nodes and servers."""

import json
import re
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LAN, LANS, resource_name
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.features.ipam.manager.owners import LEAK_SECONDS
from lanloom.kube.http import HttpClient
from tests.e2e.cluster import ChartNode, RealCluster
from tests.e2e.networks import SPOKES, addressed, addresses, attached, lan, offered, office
from tests.harness.nodes.node import PATIENCE
from tests.harness.nodes.pods import Pods, Raw
from tests.harness.nodes.programs import BUSYBOX_IMAGE, FOREVER
from tests.harness.servers.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]


@asynccontextmanager
async def pinging(real: RealCluster, client: HttpClient) -> AsyncIterator[None]:
    """Ping from one pod to the other meanwhile, ten times a second, and lose none."""
    pod = await Pods(client).get("left")
    (target,) = await addresses(client, "right")
    enclosure = real.one.node.enclosure
    network = f"--net=/proc/{real.one.node.pid(pod['status']['containerStatuses'][0]['containerID'])}/ns/net"
    log = enclosure.log_file("ping")
    log.unlink(missing_ok=True)
    enclosure.start("ping", "nsenter", network, "ping", "-i", "0.1", "-W", "5", target.partition("/")[0])

    async def answered() -> list[int]:
        return [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl=", log.read_text())]

    await eventually(answered, bool, PATIENCE)
    yield
    known = len(await answered())
    # What is on its way when it ends counts as lost for ping itself: each before the last answer has come back.
    found = await eventually(answered, lambda numbers: len(numbers) > known, PATIENCE)
    enclosure.stop("ping", signal.SIGINT)
    assert sorted(set(found)) == list(range(1, max(found) + 1)), log.read_text()[-1000:]


async def test_pods_at_a_lan_reach_each_other(real: RealCluster, client: HttpClient) -> None:
    """Pods on two nodes get addresses of a pool by the NADs of their spokes, and ping each other over VXLAN."""
    real.apply(office("10.50.0.0/24", "10.50.0.10", "10.50.0.20"), lan("office", 70, *SPOKES))
    real.apply(*map(addressed, SPOKES))
    found = [
        await attached(client, spoke, on) for spoke, on in zip(SPOKES, (real.one, real.other), strict=True)
    ]
    assert sorted(found) == ["10.50.0.10", "10.50.0.11"]
    pod = await Pods(client).get("left")
    assert " 0% packet loss" in real.one.in_pod(pod, "ping", "-c", "3", "-W", "10", found[1])


async def test_an_isolated_network_is_on_each_node(real: RealCluster, client: HttpClient) -> None:
    """Pods that keep its bridge run from the loaded image; two pods of a node have addresses and hear each other."""
    body = {"apiVersion": "network.harvester.io/v1alpha1", "kind": "DummyClusterNetwork"}
    spec = {"bridgeName": "lab-br", "nadName": "lab", "nadNamespace": "default", "subnet": "10.51.0.0/24"}
    real.apply(body | {"metadata": {"name": "lab"}, "spec": spec})
    real.kubectl("wait", "--for=condition=Ready", "dcn/lab", f"--timeout={PATIENCE:.0f}s")
    pods = Pods(client)
    made = [
        await pods.run(name, real.one.node, annotations={MULTUS_NETWORKS: "lab@net1"}) for name in ("a", "b")
    ]
    (target,) = await addresses(client, "b")
    assert " 0% packet loss" in real.one.in_pod(
        made[0], "ping", "-c", "2", "-W", "10", "-I", "net1", target.partition("/")[0]
    )
    for name in ("a", "b"):
        await pods.delete(name, real.one.node)


async def test_pods_ping_through_a_rolling_restart(real: RealCluster, client: HttpClient) -> None:
    """No echo is lost while managers and agents are replaced, one node after the other."""
    async with pinging(real, client):
        real.restarted()


async def test_pods_ping_while_the_api_server_and_etcd_restart(real: RealCluster, client: HttpClient) -> None:
    """No echo is lost, and afterwards, with etcd compacted, a new pod is attached and a LAN is made."""
    restarts = await restart_counts(client)
    async with pinging(real, client):
        for program in ("kube-apiserver", "etcd"):
            real.server.kill(program)
        for program in ("etcd", "kube-apiserver"):
            real.server.start(program)
        real.server.wait_until_ready()
        compact(real.server.etcd_url)

        async def made() -> bool:
            try:
                real.apply(lan("later", 71, "later"))
            except AssertionError:
                return False
            return True

        await eventually(made, bool, PATIENCE)
        await eventually(lambda: client.get(NADS, "k8slan-veth-later", "default"), bool, PATIENCE)
    assert await restart_counts(client) == restarts
    real.kubectl("delete", "lan", "later", f"--timeout={PATIENCE:.0f}s")


async def restart_counts(client: HttpClient) -> dict[str, int]:
    """How often the containers of Lanloom were restarted, without pods that a restart before has just replaced."""
    pods = (await client.request("GET", PODS.path("lanloom-system")))["items"]
    return {
        pod["metadata"]["name"]: status["restartCount"]
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        for status in pod["status"].get("containerStatuses", ())
    }


def compact(etcd: str) -> None:
    """Compact etcd to its newest revision, so that old watches can't be resumed."""

    def call(path: str, body: Raw) -> Raw:
        request = urllib.request.Request(f"{etcd}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    revision = call("kv/range", {"key": "AA=="})["header"]["revision"]
    call("kv/compaction", {"revision": revision, "physical": True})


DEPLOYED = "deployed"


def deployment(node: str) -> Raw:
    """A Deployment whose pod is at a spoke, on a node."""
    labels = {"app": DEPLOYED}
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", FOREVER],
        "resources": {"limits": {resource_name(DEPLOYED, "veth"): "1"}},
    }
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    metadata = {"labels": labels, "annotations": {MULTUS_NETWORKS: f"{DEPLOYED}@net1"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYED, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


async def running(client: HttpClient) -> Raw:
    """Wait until the Deployment has a pod that runs and is not being deleted, and return it."""

    async def look() -> list[Raw]:
        listing = await client.request(
            "GET", PODS.path("default"), query={"labelSelector": f"app={DEPLOYED}"}
        )
        return [
            pod
            for pod in listing["items"]
            if pod["status"]["phase"] == "Running"
            and not pod["metadata"].get("deletionTimestamp")
            and all("running" in each["state"] for each in pod["status"]["containerStatuses"])
        ]

    return (await eventually(look, lambda found: len(found) == 1, PATIENCE))[0]


async def test_a_node_comes_back(real: RealCluster, client: HttpClient) -> None:
    """After a loss of power a node has its LANs again, and a Deployment has a pod at its spoke with an address.

    A bare pod at a spoke comes back, or has failed, if the kubelet saw it before it saw the devices. A pod that has
    failed keeps no address.
    """
    real.apply(lan("rebooted", 72, DEPLOYED), addressed(DEPLOYED), deployment(real.other.name))
    await running(client)
    real.other.reboot()
    await told(real.other, client)
    real.rolled_out()
    pod = await running(client)
    assert "net1" in real.other.in_pod(pod, "ip", "link", "show", "net1")
    assert len(await addresses(client, pod["metadata"]["name"])) == 1
    # The kubelet of 1.20 takes away their sandboxes at once, that of 1.36 with the pod: the manager frees them first.
    await eventually(lambda: failed_with_addresses(client), lambda found: not found, LEAK_SECONDS + PATIENCE)
    right = await Pods(client).get("right")
    if right["status"]["phase"] == "Failed":
        await client.delete(PODS, "right", "default", grace=0)
        await attached(client, "right", real.other)
    (target,) = await addresses(client, "right")
    left = await Pods(client).get("left")
    said = real.one.in_pod(left, "ping", "-c", "3", "-W", "10", target.partition("/")[0])
    assert " 0% packet loss" in said


async def told(on: ChartNode, client: HttpClient) -> None:
    """Wait until the API server has heard of a node that was rebooted: each of its pods has failed, or runs there."""

    async def stale() -> list[str]:
        there = on.node.running()
        pods = (await client.request("GET", PODS.path("")))["items"]
        return [
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName") == on.name
            and pod["status"]["phase"] not in ("Failed", "Succeeded")
            and not {each.get("containerID") for each in pod["status"].get("containerStatuses", [{}])}
            <= there.keys()
        ]

    await eventually(stale, lambda found: not found, PATIENCE)


async def failed_with_addresses(client: HttpClient) -> list[str]:
    """The pods that have ended and still have addresses."""
    pods = (await client.request("GET", PODS.path("default")))["items"]
    ended = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Failed", "Succeeded")]
    return [name for name in ended if await addresses(client, name)]


async def test_a_namespace_goes_with_its_lan_and_its_pod(real: RealCluster, client: HttpClient) -> None:
    """Nothing in a namespace that is deleted waits for anything else in it."""
    real.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}})
    real.apply(lan("rented", 73, "rented", namespace="tenant"))
    await eventually(lambda: client.get(NADS, "k8slan-veth-rented", "tenant"), bool, PATIENCE)
    resource = await offered(client, "rented", real.one)
    annotations = {MULTUS_NETWORKS: "k8slan-veth-rented"}
    await Pods(client, "tenant").run("guest", real.one.node, annotations=annotations, resources=[resource])
    real.kubectl("delete", "namespace", "tenant", f"--timeout={PATIENCE:.0f}s")


async def test_a_quota_that_forbids_nads_is_named(real: RealCluster, client: HttpClient) -> None:
    """A LAN whose NADs a ResourceQuota forbids says so, and goes."""
    quota = {"hard": {"count/network-attachment-definitions.k8s.cni.cncf.io": "0"}}
    real.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "poor"}},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": "poor"},
            "spec": quota,
        },
    )

    async def counted() -> bool:
        path = "/api/v1/namespaces/poor/resourcequotas/none"
        return "hard" in (await client.request("GET", path)).get("status", {})

    await eventually(counted, bool, PATIENCE)
    real.apply(lan("refused", 74, "refused", namespace="poor"))

    def is_refused(found: LAN) -> bool:
        return any(item.status == "False" and "quota" in item.message for item in found.status.conditions)

    await eventually(lambda: client.get(LANS, "refused", "poor"), is_refused, PATIENCE)
    real.kubectl("delete", "namespace", "poor", f"--timeout={PATIENCE:.0f}s")
