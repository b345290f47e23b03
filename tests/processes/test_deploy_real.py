"""The manifests in deploy/ on a real kube-apiserver: manager and agent do their work with these rights and no more."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE, READY_LABEL
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.dummy.rules.model import daemon_set_name, resource_name
from lanloom.features.ipam.agent.service import IpamService
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Client, WatchEvent
from lanloom.processes.agent import CniCleanup, run_agent
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.runtime.cni.calls import Call, CniError
from tests.fakes import FakeHost, FakeSwitch
from tests.harness.interceptor import Interceptor
from tests.harness.servers.eventually import PatientClient, eventually, reviewed
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer
from tests.processes.deployed import pod

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

ROOT = Path(__file__).parents[2]

T = TypeVar("T", bound=Object)


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver to which everything in deploy/ was applied, as docs and README say."""
    with RealServer(real_binaries) as running:
        installer = Installer(real_binaries, running)
        installer.definitions_with_kubectl()
        installer.manifests("manager.yaml", "rbac.yaml", "webhooks.yaml", "agent.yaml")
        text = (ROOT / "deploy/disruption.yaml").read_text()
        if running.is_older_than("1.21"):
            # It has no policy/v1 yet, and the same fields in v1beta1.
            text = text.replace("policy/v1", "policy/v1beta1")
        installer.kubectl("apply", "-f", "-", given=text)
        yield running


class Cluster:
    """The server as its administrator, and as the accounts of the manager and of agents."""

    def __init__(self, server: RealServer, stack: AsyncExitStack) -> None:
        self._config = load(str(server.kubeconfig))
        self._stack = stack
        self.admin = PatientClient(self._config)

    async def account(self, name: str, pod: str = "") -> HttpClient:
        """A client with a token of a service account, bound to a pod if one is named."""
        spec: dict[str, Any] = {"expirationSeconds": 600}
        if pod:
            uid = (await self.admin.get(PODS, pod, LANLOOM_NAMESPACE)).metadata.uid
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        path = f"/api/v1/namespaces/{LANLOOM_NAMESPACE}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.admin.request("POST", path, body)
        config = ClusterConfig(
            server=self._config.server, ca=self._config.ca, token=answer["status"]["token"]
        )
        return await self._stack.enter_async_context(PatientClient(config))

    async def agent(self, node: str) -> HttpClient:
        """A client with the token of the agent that runs on a node, once the manager knows that it does."""
        pod = f"lanloom-agent-{node}"
        container = {"name": "agent", "image": "lanloom"}
        spec = {"nodeName": node, "serviceAccountName": "lanloom-agent", "containers": [container]}
        try:
            await self.admin.get(PODS, pod, LANLOOM_NAMESPACE)
        except NotFound:
            await self.admin.create(PODS, {"metadata": {"name": pod}, "spec": spec}, LANLOOM_NAMESPACE)
        client = await self.account("lanloom-agent", pod)
        name = report_name("cn8", node)
        own = {"metadata": {"name": name, "labels": report_labels("cn8", node)}}
        body = own | {"apiVersion": CLUSTER_NETWORK_NODES.api_version, "kind": CLUSTER_NETWORK_NODES.kind}
        path = CLUSTER_NETWORK_NODES.path("")
        # A report of another node's is refused, and so is any from a pod that the manager has not seen yet.
        await eventually(lambda: client.request("POST", path, body, query={"dryRun": "All"}), lambda _: True)
        return client

    def start(self, work: Awaitable[None]) -> None:
        """Runs something until the end of the test."""
        task = asyncio.ensure_future(work)

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(stop)


@asynccontextmanager
async def cluster(server: RealServer) -> AsyncIterator[Cluster]:
    """The cluster with node1 and node2, and with a manager that leads under its own account."""
    async with AsyncExitStack() as stack:
        made = Cluster(server, stack)
        await stack.enter_async_context(made.admin)
        for node in ("node1", "node2"):
            with suppress(Exception):
                await made.admin.create(NODES, {"metadata": {"name": node}})
        dummy = Flags(default=False, image=f"lanloom@sha256:{'0' * 64}", node_timeout=1.0)
        settings = ManagerSettings(
            identity="test", host="127.0.0.1", port=0, local=True, features={"dummy": dummy}
        )
        client = await made.account("lanloom-manager")
        manager = Manager(client, settings, now=time.time, rng=random.Random(1))
        made.start(manager.run())
        await asyncio.wait_for(manager.ready.wait(), 60)
        await reviewed(made.admin)
        yield made


def report_labels(network: str, node: str) -> dict[str, str]:
    """The labels of a node's report of a cluster network."""
    return {"network.harvesterhci.io/node": node, "network.harvesterhci.io/clusternetwork": network}


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of an example."""
    return list(yaml.safe_load_all((ROOT / "examples" / name).read_text()))


async def test_the_rights_suffice_for_the_main_job(server: RealServer) -> None:
    """With the accounts of deploy/, a NAD becomes an address on a node and a report of it."""
    async with cluster(server) as made:
        host = FakeHost("node1", ("eth1",), switch=FakeSwitch({2012: "192.168.1.0/24"}), now=time.time)
        client = await made.agent("node1")
        made.start(run_agent(client, host.host, cluster="test", now=time.time, rng=random.Random(2)))
        network, config = documents("cluster-1.yaml")
        await made.admin.create(CLUSTER_NETWORKS, network)
        await made.admin.create(VLAN_CONFIGS, config)
        (nad,) = documents("vlan2012-dhcp.yaml")
        await eventually(lambda: made.admin.create(NADS, nad, "default"), lambda _: True)

        def addressed(report: ClusterNetworkNode) -> bool:
            return any(item.address.startswith("192.168.1.") for item in report.status.interfaces)

        name = report_name("cluster-1", "node1")
        await eventually(lambda: made.admin.get(CLUSTER_NETWORK_NODES, name), addressed)
        title = nad["metadata"]["name"]
        labelled = await eventually(
            lambda: made.admin.get(NADS, title, "default"), lambda item: READY_LABEL in item.metadata.labels
        )
        assert labelled.metadata.labels[READY_LABEL] in ("true", "false")


async def test_an_agent_writes_only_its_own_node_s_reports(server: RealServer) -> None:
    """The agent of one node can neither make, change nor delete the report of another."""
    async with cluster(server) as made:
        first, second = await made.agent("node1"), await made.agent("node2")
        theirs = report_name("cn9", "node2")
        body = {"metadata": {"name": theirs, "labels": report_labels("cn9", "node2")}}
        with pytest.raises(Forbidden, match='the agent of node "node1" may only write its own node'):
            await first.create(CLUSTER_NETWORK_NODES, body)
        await second.create(CLUSTER_NETWORK_NODES, body)
        with pytest.raises(Forbidden, match="may only write its own node's"):
            await first.patch(
                CLUSTER_NETWORK_NODES, theirs, {"status": {"node": "node1"}}, subresource="status"
            )
        with pytest.raises(Forbidden, match="may only delete its own node's"):
            await first.delete(CLUSTER_NETWORK_NODES, theirs)
        await second.delete(CLUSTER_NETWORK_NODES, theirs)


async def test_the_rights_suffice_for_addresses(server: RealServer) -> None:
    """With the accounts of deploy/, a CNI call gets a pod an address, the same one again, and DEL deletes the NIC."""
    async with cluster(server) as made:
        await eventually(lambda: made.admin.create(NETWORKS, ADDRESSES), lambda _: True)
        agent = await made.agent("node1")
        spec = {"nodeName": "node1", "serviceAccountName": "lanloom-agent", "containers": [CONTAINER]}
        body = {"metadata": {"name": "addressed"}, "spec": spec}
        pod = await made.admin.create(PODS, body, LANLOOM_NAMESPACE)
        recorder = Recorder(agent, "lanloom-agent", "node1", now=time.time, rng=random.Random(3))
        service = IpamService(agent, "node1", recorder, rng=random.Random(3))
        for _ in range(2):
            result = await service.answer(cni_call("ADD", pod.metadata.uid))
            assert result == {"ips": [{"address": "192.0.2.10/24", "gateway": "192.0.2.1"}]}
        assert await service.answer(cni_call("STATUS", "")) == {}
        with pytest.raises(CniError, match="nobody does not exist"):
            await service.answer(cni_call("ADD", "", pod="nobody"))
        await made.admin.delete(PODS, "addressed", LANLOOM_NAMESPACE)
        await service.answer(cni_call("DEL", pod.metadata.uid))
        await eventually(
            lambda: made.admin.list(NICS),
            lambda found: [nic.metadata.is_deleting for nic in found.items] == [True],
        )


async def test_the_rights_suffice_for_isolated_networks(server: RealServer) -> None:
    """With the manager's account of deploy/, all that an isolated network is made of comes, is repaired, and goes."""
    async with cluster(server) as made:
        spec = {"bridgeName": "iso-br", "nadName": "iso", "nadNamespace": "default"}
        spec |= {"subnet": "10.115.0.0/24", "gateway": "node"}
        body = {"metadata": {"name": "iso"}, "spec": spec}
        dcn = await eventually(lambda: made.admin.create(DUMMY_CLUSTER_NETWORKS, body), lambda _: True)
        name = daemon_set_name("iso", dcn.metadata.uid)
        kept = await eventually(
            lambda: made.admin.get(DAEMON_SETS, name, BRIDGES_NAMESPACE),
            lambda found: bool(found.spec.template),
        )
        harm = {"spec": {"template": {"spec": {"hostPID": True}}}}
        await made.admin.patch(DAEMON_SETS, name, harm, BRIDGES_NAMESPACE)
        await eventually(
            lambda: made.admin.get(DAEMON_SETS, name, BRIDGES_NAMESPACE),
            lambda found: found.spec.template == kept.spec.template,
        )
        nad = await eventually(lambda: made.admin.get(NADS, "iso", "default"), lambda _: True)
        assert nad.metadata.labels[UID_LABEL] == dcn.metadata.uid
        network = resource_name("iso", dcn.metadata.uid)
        addresses = await eventually(lambda: made.admin.get(NETWORKS, network), lambda _: True)
        assert addresses.spec.subnets[0].gateway == "10.115.0.1"
        await eventually(lambda: made.admin.get(CLUSTER_NETWORKS, "iso"), lambda _: True)
        await made.admin.delete(DUMMY_CLUSTER_NETWORKS, "iso")
        left = (
            (DUMMY_CLUSTER_NETWORKS, "iso", ""),
            (NADS, "iso", "default"),
            (DAEMON_SETS, name, BRIDGES_NAMESPACE),
            (NETWORKS, network, ""),
            (CLUSTER_NETWORKS, "iso", ""),
        )
        for resource, title, namespace in left:
            await eventually(partial(gone, made.admin, resource, title, namespace), bool)


async def gone(client: HttpClient, resource: Resource[Any], name: str, namespace: str) -> bool:
    """Whether there is no such object any more."""
    with suppress(NotFound):
        await client.get(resource, name, namespace)
        return False
    return True


CONTAINER = {"name": "main", "image": "main"}
SUBNET = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pools": [{"range": "192.0.2.10-192.0.2.20"}]}
ADDRESSES = {"metadata": {"name": "net1"}, "spec": {"subnets": [SUBNET]}}


def cni_call(command: str, uid: str, pod: str = "addressed") -> Call:
    """A runtime's call for a pod in Lanloom's namespace."""
    config = {"cniVersion": "1.1.0", "name": "lan", "ipam": {"type": "lanloom-ipam", "network": "net1"}}
    names = f"K8S_POD_NAMESPACE={LANLOOM_NAMESPACE};K8S_POD_NAME={pod};K8S_POD_UID={uid}"
    return Call(
        program="lanloom-ipam", command=command, config=config, container="c1", interface="net1", args=names
    )


async def test_an_agent_can_read_no_secret_and_change_no_network(server: RealServer) -> None:
    """An agent's rights end at the kinds that it needs."""
    async with cluster(server) as made:
        client = await made.agent("node1")
        with pytest.raises(Forbidden, match="cannot list resource"):
            await client.request("GET", f"/api/v1/namespaces/{LANLOOM_NAMESPACE}/secrets")
        with pytest.raises(Forbidden, match="cannot patch resource"):
            await client.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"labels": {"a": "b"}}})


@pytest.mark.parametrize("process", ["manager", "agent"])
async def test_pods_are_accepted_as_their_templates_say(server: RealServer, process: str) -> None:
    """A pod made of a process's template is admitted, with its probes and its priority, in Lanloom's namespace."""
    async with HttpClient(load(str(server.kubeconfig))) as admin:
        template = pod(process)
        metadata = {"name": f"trial-{process}", **template["metadata"]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        path = f"/api/v1/namespaces/{LANLOOM_NAMESPACE}/pods"
        made = await admin.request("POST", path, body)
        assert made["spec"]["priority"] >= 2_000_000_000
        (only,) = made["spec"]["containers"]
        assert only["livenessProbe"]["httpGet"]["path"] == "/healthz"
        await admin.delete(PODS, f"trial-{process}", LANLOOM_NAMESPACE)


class Watching(Interceptor):
    """A client that tells when it has opened a watch."""

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.opened = asyncio.Event()

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        self.opened.set()
        async for event in super()._hear(resource, begin):
            yield event


async def test_the_rights_suffice_to_leave(server: RealServer, tmp_path: Path) -> None:
    """An agent learns that its DaemonSet was deleted, and takes its programs with it."""
    program, socket = tmp_path / "lanloom-ipam", Path("/run/lanloom/cni.sock")
    program.write_bytes(b"lanloom-cni-shim 1 %s\0" % bytes(socket))
    async with cluster(server) as made:
        for pod in (await made.admin.list(PODS, LANLOOM_NAMESPACE)).items:  # no kubelet lets them go
            await made.admin.delete(PODS, pod.metadata.name, LANLOOM_NAMESPACE, grace=0)
        for network in (await made.admin.list(NETWORKS)).items:
            await made.admin.delete(NETWORKS, network.metadata.name)
        await eventually(lambda: made.admin.list(NETWORKS), lambda found: not found.items)
        client = Watching(await made.agent("node1"))
        cleanup = CniCleanup(client, "lanloom-agent", (NETWORKS, LANS), random.Random(1))
        made.start(cleanup.run())
        await asyncio.wait_for(client.opened.wait(), 60)
        await cleanup.end(tmp_path, [program.name], socket)
        assert program.exists()
        await made.admin.delete(DAEMON_SETS, "lanloom-agent", LANLOOM_NAMESPACE)
        await eventually(
            lambda: cleanup.end(tmp_path, [program.name], socket), lambda _: not program.exists()
        )
