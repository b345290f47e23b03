"""The demo's part about LANs: pods of two nodes on one, whose frames have whatever source MAC address they like."""

import json
from collections.abc import Awaitable
from typing import Any

from lanloom.api.core import NAMESPACES, PODS
from lanloom.api.lan import LANS, Mode, nad_name, resource_name
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.kube.errors import Forbidden
from lanloom.kube.lookup import get_or_none
from lanloom_lab import examples
from lanloom_lab.demo import Story
from lanloom_lab.errors import DemoFailed

EXAMPLE = "lan.yaml"
LAN = Key("default", "blue")
NAMESPACE = "blue"
NODES = {"web": "node1", "db": "node2"}
ADDRESSES = {"web": "10.20.0.1", "db": "10.20.0.2"}
FOREIGN_MAC, FOREIGN_ADDRESS = "02:00:00:00:be:ef", "10.20.0.77"
TENANT = "tenant-b"
OTHER_VNI = 4811
_VETH: Mode = "veth"


class LanStory(Story):
    """The LAN comes, carries frames between nodes, is of its tenant alone, is kept by its pods, and goes with them."""

    show = f"lan show {LAN}"

    async def run(self) -> None:
        """All of it, in order."""
        await self._make()
        self.progress("pods of two nodes on it, which ping each other over VXLAN")
        for name, node in NODES.items():
            await self._start(name, node)
        await self._reaches("web", ADDRESSES["db"])
        self.ask(self.show)
        await self._send_as_another()
        await self._keep_out()
        self.progress("deleting the LAN while both pods use it: it stays, and goes on carrying")
        await self.client.delete(LANS, LAN.name, LAN.namespace)
        await self.until("the users of the LAN in its status", self._names_users)
        self.ask(f"why-not-deleted lan/{LAN}")
        self.progress("moving it to another VNI while it is being deleted, perhaps to that of another tenant")
        await self._refused(self.client.patch(LANS, LAN.name, {"spec": {"vni": OTHER_VNI}}, LAN.namespace))
        await self._reaches("web", ADDRESSES["db"])
        await self._end()

    async def state(self) -> str:
        """Return what the LAN's status says."""
        found = await get_or_none(self.client, LANS, LAN)
        return "; ".join(item.message for item in found.status.conditions) if found is not None else ""

    async def _make(self) -> None:
        self.progress("a LAN across the nodes: on each a bridge in a namespace of its own, joined by VXLAN")
        body = dict(examples.objects(EXAMPLE))[LANS]
        await self.client.create(LANS, body, LAN.namespace)

    async def _start(self, name: str, node: str) -> None:
        """Start a pod on a node, and give it its address on the LAN."""
        await self.client.create(PODS, pod(name, node), LAN.namespace)
        await self.started(Key(LAN.namespace, name))
        await self._inside(name, "address", "add", f"{ADDRESSES[name]}/24", "dev", "net1")

    async def _send_as_another(self) -> None:
        """Let a pod send from a second MAC address, as a router or a nested machine in it does."""
        self.progress(f"a pod sends from another MAC address, {FOREIGN_MAC}: the LAN carries it")
        link = ("link", "add", "link", "net1", "name", "nested", "address", FOREIGN_MAC)
        await self._inside("db", *link, "type", "macvlan", "mode", "bridge")
        await self._inside("db", "link", "set", "nested", "up")
        await self._inside("db", "address", "add", f"{FOREIGN_ADDRESS}/32", "dev", "nested")
        await self._inside("db", "neighbour", "flush", "all")
        await self._inside("web", "neighbour", "add", FOREIGN_ADDRESS, "lladdr", FOREIGN_MAC, "dev", "net1")
        await self._reaches("web", FOREIGN_ADDRESS)

    async def _keep_out(self) -> None:
        """Try to get at the LAN from the namespace of another tenant."""
        self.progress(f"another tenant, in namespace {TENANT}, writes a NAD that names a spoke of the LAN")
        await self.client.create(NAMESPACES, {"metadata": {"name": TENANT}})
        config = {"cniVersion": "0.3.1", "name": "steal", "type": "k8slanveth", "veth": "vm"}
        body = {"metadata": {"name": "steal"}, "spec": {"config": json.dumps(config)}}
        await self._refused(self.client.create(NADS, body, TENANT))
        await self.client.delete(NAMESPACES, TENANT)

    async def _refused(self, request: Awaitable[object]) -> None:
        try:
            await request
        except Forbidden as error:
            self.progress(f"refused: {error.message}")
        else:
            raise DemoFailed(
                "the request was not refused", "Look at the log of the API server in the lab's state."
            )

    async def _end(self) -> None:
        self.progress("deleting the pods: now the LAN goes by itself")
        for name in NODES:
            await self.client.delete(PODS, name, LAN.namespace)
        await self.until("the end of the LAN", self._is_gone)
        for node in NODES.values():
            await self.verifier.lacks(node, "the LAN's namespace", "ip netns list", NAMESPACE)
        self.progress("all is gone: the LAN, its NADs, and its namespace on every node")

    async def _inside(self, name: str, *words: str) -> None:
        await self.verifier.run(NODES[name], "ip", "-netns", f"{LAN.namespace}.{name}", *words)

    async def _reaches(self, name: str, address: str) -> None:
        await self.verifier.pod_reaches(NODES[name], f"{LAN.namespace}.{name}", address)

    async def _names_users(self) -> bool:
        found = await get_or_none(self.client, LANS, LAN)
        return found is not None and len(found.status.users) == len(NODES)

    async def _is_gone(self) -> bool:
        return await get_or_none(self.client, LANS, LAN) is None


def pod(spoke: str, node: str) -> dict[str, Any]:
    """Return a pod of a spoke's name on that spoke."""
    networks = [{"name": nad_name(spoke, _VETH), "interface": "net1"}]
    limits = {resource_name(spoke, _VETH): "1"}
    return {
        "metadata": {"name": spoke, "annotations": {"k8s.v1.cni.cncf.io/networks": json.dumps(networks)}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "any", "resources": {"limits": limits}}],
        },
    }
