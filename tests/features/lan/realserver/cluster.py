"""What tests of LANs do with real nodes: agents, LANs with their NADs, and pods in them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lanloom.api.core import NODES
from lanloom.api.lan import IN_USE, LAN, LAN_NODES, LANS, LANSpec
from lanloom.api.lannads import spoke_of
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.features.lan.rules.nads import wanted_nads
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.errors import NotFound
from lanloom.kube.http import HttpClient
from tests.harness.nodes.enclosure import python
from tests.harness.nodes.node import (
    CNI_PLUGINS,
    DEVICE_PLUGINS,
    KUBECONFIG,
    PATIENCE,
    RealNode,
    wait_until,
)
from tests.harness.nodes.pods import Pods, Raw, container_of, node_ready
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer, free_ports

UNDERLAY = "eth0"


def lan(name: str, vni: int, *spokes: str) -> LAN:
    """A LAN with these spokes, on the cable between the nodes."""
    spec = LANSpec(
        ns=name,
        bridge="br0",
        vxlan="vx0",
        vni=vni,
        vxlan_grp=default_group(vni),
        default_vxlan_dev=UNDERLAY,
        spokes=spokes,
    )
    return LAN(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


@contextmanager
def managed(binaries: Path, server: RealServer, directory: Path) -> Iterator[None]:
    """Lanloom's kinds, rights and webhooks, and a running manager with all its features."""
    installer = Installer(binaries, server)
    installer.definitions()
    for namespace in (LANLOOM_NAMESPACE, BRIDGES_NAMESPACE):
        installer.kubectl("create", "namespace", namespace)
    installer.manifests("rbac.yaml", "webhooks.yaml")
    port, metrics = free_ports(2)
    words = [
        *python(),
        "-m",
        "lanloom",
        "manager",
        "--kubeconfig",
        str(server.kubeconfig),
        "--no-dummy-default",
    ]
    words += ["--user", "kubernetes-admin", "--webhook-address", "127.0.0.1", "--webhook-port", str(port)]
    words += ["--metrics-address", f"127.0.0.1:{metrics}"]
    with (directory / "manager.log").open("wb") as log:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


class LanNode:
    """A real node with an agent for LANs; `address` is that of its underlay link."""

    def __init__(self, node: RealNode, address: str) -> None:
        self.node = node
        self.name = node.name
        node.enclosure.run("ip", "address", "add", f"{address}/24", "dev", UNDERLAY)
        node.enclosure.run("ip", "link", "set", UNDERLAY, "up")
        node.write("/run/lanloom/profiles/.keep", "")
        self.start_agent()
        wait_until(self._has_programs, lambda: f"{node.name}: no CNI programs: {node.log('agent')}")

    def _has_programs(self) -> bool:
        return self.node.enclosure.root(f"{CNI_PLUGINS}/k8slanveth").exists()

    def start_agent(self) -> None:
        """Start `lanloom agent` with LANs alone."""
        options = {
            "feature": "lan",
            "kubeconfig": KUBECONFIG,
            "node": self.name,
            "profiles": "/run/lanloom/profiles",
            "state": "/var/lib/lanloom",
            "runtime": "/run/lanloom",
            "cni-bin": CNI_PLUGINS,
            "device-plugins": DEVICE_PLUGINS,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self.node.enclosure.start("agent", *python(), "-m", "lanloom", "agent", *words)

    def stop_agent(self) -> None:
        """End the agent."""
        self.node.enclosure.stop("agent")

    def in_pod(self, pod: Raw, *command: str) -> str:
        """Run a program of the node in a pod's network namespace."""
        return self.node.in_pod(container_of(pod), *command)

    def log(self) -> str:
        """The end of what the agent and kubelet have written."""
        return f"agent: …{self.node.log('agent')}\nkubelet: …{self.node.log('kubelet', 2000)}"


class LanCluster:
    """Two nodes and a client."""

    def __init__(self, client: HttpClient, one: LanNode, other: LanNode) -> None:
        self.client = client
        self.one, self.other = one, other
        self.pods = Pods(client)

    async def ready(self) -> None:
        """Wait until kubelet is ready on both."""
        for each in (self.one, self.other):
            await node_ready(self.client, each.node)

    async def create(self, wanted: LAN) -> None:
        """Create a LAN and wait for its NADs."""
        await self.client.create(LANS, wanted, wanted.metadata.namespace)
        for nad in wanted_nads(wanted):
            await eventually(partial(self.client.get, NADS, nad.key.name, nad.key.namespace), bool, PATIENCE)

    async def attach(self, name: str, on: LanNode, nad: str, resource: str) -> Raw:
        """Run a pod with an interface by a NAD and the device of a resource."""
        annotations = {MULTUS_NETWORKS: nad}
        return await self.pods.run(name, on.node, annotations=annotations, resources=[resource])

    async def delete(self, name: str, on: LanNode) -> None:
        """Delete a pod of a node."""
        await self.pods.delete(name, on.node)

    async def carried(self, on: LanNode) -> list[Raw]:
        """Return what a node's agent reports that it carries."""
        try:
            found = await self.client.request("GET", LAN_NODES.path("", on.name))
        except NotFound:
            return []
        return list(found["status"].get("lans", ()))

    async def until_in_use(self, name: str) -> None:
        """Wait until a LAN that is deleted says that users keep it."""

        def is_kept(found: LAN) -> bool:
            return any(item.type == IN_USE and item.status == "True" for item in found.status.conditions)

        await eventually(partial(self.client.get, LANS, name, "default"), is_kept, PATIENCE)

    async def gone(self, name: str) -> None:
        """Wait until a LAN and its NADs are gone."""

        async def names() -> list[str]:
            lans = await self.client.list(LANS, "default")
            nads = await self.client.list(NADS, "default")
            spokes = {spoke_of(nad.metadata.name) for nad in nads.items}
            return [lan.metadata.name for lan in lans.items] + [
                each for each in spokes if each.startswith(name)
            ]

        await eventually(names, lambda found: not [each for each in found if each.startswith(name)], PATIENCE)

    async def left(self, on: LanNode, name: str) -> None:
        """Wait until a node carries a LAN no more."""

        async def names() -> list[str]:
            return [entry["name"] for entry in await self.carried(on)]

        await eventually(names, lambda found: name not in found, PATIENCE)

    async def allocatable(self, on: LanNode, resource: str, count: str) -> None:
        """Wait until a node says that it has so many devices of a resource."""

        async def look() -> str:
            node = await self.client.request("GET", NODES.path("", on.name))
            return str(node["status"]["allocatable"].get(resource, ""))

        try:
            await eventually(look, lambda found: found == count, PATIENCE)
        except TimeoutError:
            found = await look()
            raise AssertionError(f"{on.name} has {found!r} of {resource}, not {count}: {on.log()}") from None

    async def forget_devices(self, on: LanNode, resource: str) -> None:
        """Write that a node has none of a resource, while its kubelet is away: what is there later is news."""
        none = {"capacity": {resource: "0"}, "allocatable": {resource: "0"}}
        await self.client.patch(NODES, on.name, {"status": none}, subresource="status")
