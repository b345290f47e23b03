"""A cluster with one machine, the controller of swaps, and an agent that moves ports in no time; in virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, ClassVar

from msgspec import to_builtins

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import EVENTS, PODS, Pod
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    pod_interface_name,
)
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import BACK, FORWARD, NETWORK_SWAPS, NetworkSwap, SwapPort
from lanloom.api.meta import Key
from lanloom.api.multus import MULTUS_NETWORKS, NADS, NETWORK_STATUS
from lanloom.api.multusconfig import NO_ISOLATION
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.manager.informers import swap_informers
from lanloom.features.liveupdate.manager.swapreader import SwapReader, named_in
from lanloom.features.liveupdate.manager.swaps import SwapManager, Swaps
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.runtime.ports import MachineAddresses
from lanloom_embedded.local import LocalClient
from tests.harness import cluster

Raw = dict[str, Any]
PLACE, MACHINE, NODE, NIC = "default", "db", "node1", "lan0"
FROM, TO = f"{PLACE}/vlan10", f"{PLACE}/vlan20"
INTERFACE = pod_interface_name(NIC)


def nad_body(name: str, **config: Any) -> Raw:
    """A NAD of CNI's `bridge` plugin, unless given otherwise."""
    return {
        "metadata": {"name": name, "namespace": PLACE},
        "spec": {"config": json.dumps({"type": "bridge", "bridge": "cluster-1-br"} | config)},
    }


def spec_body(nad: str) -> Raw:
    """A machine with one NIC, as users write it, with fields that Lanloom does not know."""
    return {
        "networks": [{"name": "default", "pod": {}}, {"name": NIC, "multus": {"networkName": nad}}],
        "domain": {
            "devices": {
                "interfaces": [{"name": "default", "masquerade": {}}, {"name": NIC, "bridge": {}}],
            }
        },
    }


def status_text(nad: str) -> str:
    """Multus's report about the launcher pod."""
    own = {"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.7"], "default": True, "dns": {}}
    return json.dumps([own, {"name": nad, "interface": INTERFACE, "mac": "02:00:00:00:00:07", "dns": {}}])


class SwapCluster(cluster.Cluster):
    """The machine `db` runs on `node1`; its NIC `lan0` is on `default/vlan10`."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (
        NETWORK_SWAPS,
        VIRTUAL_MACHINES,
        VIRTUAL_MACHINE_INSTANCES,
        MIGRATIONS,
        NADS,
        LANS,
        CLUSTER_NETWORK_NODES,
        CLUSTER_NETWORKS,
        NETWORKS,
        NICS,
    )

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.port = FROM
        self.instance_uid = ""
        self.addresses: MachineAddresses | None = None
        self.isolation = NO_ISOLATION
        self.moves: list[str] = []
        self.guest_links = ["up"]

    async def furnish(self) -> None:
        """The machine runs, with everything around it."""
        await self.keep(NADS, nad_body("vlan10", vlan=10))
        await self.keep(NADS, nad_body("vlan20", vlan=20))
        template = {"spec": spec_body("vlan10")}
        uid = await self.keep(
            VIRTUAL_MACHINES, {"metadata": self.meta(MACHINE), "spec": {"template": template}}
        )
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": MACHINE, "uid": uid}
        await self.run_machine({"ownerReferences": [owner | {"controller": True}]})

    async def run_machine(self, metadata: Raw | None = None, *, node: str = NODE, nad: str = FROM) -> None:
        """An instance of the machine with its launcher pod."""
        self.instance_uid = await self.keep(
            VIRTUAL_MACHINE_INSTANCES,
            {"metadata": self.meta(MACHINE) | (metadata or {}), "spec": spec_body(nad)},
        )
        await self.instance_is(phase="Running", nodeName=node)
        await self.add_launcher("virt-launcher-db", node, nad)

    async def add_launcher(self, name: str, node: str, nad: str) -> None:
        """A launcher pod of the machine, attached to a NAD."""
        owner = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "name": MACHINE,
            "uid": self.instance_uid,
            "controller": True,
        }
        asked = json.dumps([{"name": nad.split("/")[1], "namespace": PLACE, "interface": INTERFACE}])
        annotations = {MULTUS_NETWORKS: asked, NETWORK_STATUS: status_text(nad), "other": "kept"}
        meta = self.meta(name) | {"ownerReferences": [owner], "annotations": annotations}
        meta |= {"labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": self.instance_uid}}
        spec = {"nodeName": node, "containers": [{"name": "compute", "image": "x"}]}
        await self.client.create(PODS, {"metadata": meta, "spec": spec}, PLACE)
        await self.client.patch(PODS, name, {"status": {"phase": "Running"}}, PLACE, subresource="status")

    async def instance_is(self, **status: Any) -> None:
        """KubeVirt writes the instance's status."""
        await self.client.patch(VIRTUAL_MACHINE_INSTANCES, MACHINE, {"status": status}, PLACE)

    async def stop_machine(self) -> None:
        """The machine stops, and its pod with it."""
        await self.client.delete(VIRTUAL_MACHINE_INSTANCES, MACHINE, PLACE)
        await self.client.delete(PODS, "virt-launcher-db", PLACE, grace=0)

    async def make_again(self, nad: str, **interface: str) -> None:
        """The machine is deleted, and another one made of its name, on a NAD and with what its file has of the NIC."""
        await self.stop_machine()
        await self.client.delete(VIRTUAL_MACHINES, MACHINE, PLACE)
        await asyncio.sleep(2.0)
        spec = spec_body(nad)
        spec["domain"]["devices"]["interfaces"][1] |= interface
        body = {"metadata": self.meta(MACHINE), "spec": {"template": {"spec": spec}}}
        await self.keep(VIRTUAL_MACHINES, body)

    async def written(self) -> tuple[str, str]:
        """The NAD and the state of the NIC in the machine's template."""
        machine = await self.client.get(VIRTUAL_MACHINES, MACHINE, PLACE)
        return str(named_in(machine, NIC)), await self.state()

    def meta(self, name: str) -> Raw:
        """The metadata of something in the namespace."""
        return {"name": name, "namespace": PLACE}

    def follow(self, *, deaf: bool = False) -> None:
        """Start KubeVirt, which sets the guest's link as the machine says, unless it is `deaf`."""
        self.begin("kubevirt", self._kubevirt(deaf))

    async def _kubevirt(self, deaf: bool) -> None:
        while True:
            machine = await self.client.get(VIRTUAL_MACHINES, MACHINE, PLACE)
            template = machine.spec.template
            assert template is not None
            state = template.spec.interfaces[1].state
            if not deaf and (state or "up") != self.guest_links[-1]:
                self.guest_links.append(state or "up")
                status = {"interfaces": [{"name": NIC, "linkState": state or "up"}]}
                await self.instance_is(**status)
            await asyncio.sleep(0.3)

    async def state(self) -> str:
        """The state of the NIC in the machine's template."""
        machine = await self.client.get(VIRTUAL_MACHINES, MACHINE, PLACE)
        template = machine.spec.template
        assert template is not None
        return template.spec.interfaces[1].state

    def lead(self, name: str = "manager", client: Client | None = None) -> None:
        """Start a manager that believes to lead."""
        self.begin(name, self._manage(name, client or LocalClient(self.engine)))

    async def _manage(self, name: str, client: Client) -> None:
        rng = Random(name)
        informers = swap_informers(Informers(client, rng))
        reader = SwapReader(client, informers, now=self.now, isolation=self.isolation)
        recorder = self.recorder("lanloom-manager", name, client, rng)
        swaps = Swaps(client, reader, recorder, now=self.now, addresses=self.addresses)
        manager = SwapManager(informers, reader, swaps, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            group.create_task(manager.run())

    def serve(self, name: str = "agent", **options: Any) -> None:
        """Start an agent of the machine's node. `fails` are NADs to which it can't move the port."""
        self.begin(name, self._agent(**options))

    async def _agent(self, fails: frozenset[str] = frozenset(), final: bool = True) -> None:
        while True:
            for swap in (await self.client.list(NETWORK_SWAPS)).items:
                if swap.status.node == NODE and swap.status.phase in FORWARD | BACK:
                    await self._bring(swap, fails, final)
            await asyncio.sleep(0.05)

    async def _bring(self, swap: NetworkSwap, fails: frozenset[str], final: bool) -> None:
        wanted = swap.spec.to if swap.status.phase in FORWARD else swap.spec.from_
        error = f"the bridge of {wanted} is not there" if wanted in fails and self.port != wanted else ""
        if not error and self.port != wanted:
            self.moves.append(wanted)
            self.port = wanted
        port = SwapPort(
            node=NODE,
            phase=swap.status.phase,
            link="veth7",
            nad=self.port,
            error=error,
            final=final and bool(error),
            gap_milliseconds=7.0,
        )
        if port != swap.status.port:
            await self.client.patch(
                NETWORK_SWAPS,
                swap.metadata.name,
                {"status": {"port": {"error": "", "final": False} | to_builtins(port)}},
                PLACE,
                subresource="status",
            )

    async def move(self, name: str = "move", **spec: Any) -> None:
        """A user asks for a swap."""
        wanted = {
            "machine": MACHINE,
            "uid": self.instance_uid,
            "network": NIC,
            "from": FROM,
            "to": TO,
            "record": True,
        }
        await self.client.create(NETWORK_SWAPS, {"metadata": self.meta(name), "spec": wanted | spec}, PLACE)

    async def swap(self, name: str = "move") -> NetworkSwap:
        """A swap as it is."""
        return await self.client.get(NETWORK_SWAPS, name, PLACE)

    async def until(self, phase: str, name: str = "move", seconds: float = 900.0) -> NetworkSwap:
        """Wait for a swap's phase."""
        end = self.now() + seconds
        pause = 0.02
        while self.now() < end:
            found = await self.swap(name)
            if found.status.phase == phase:
                return found
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, 5.0)
        raise AssertionError(f"the swap is {found.status.phase} and not {phase}: {found.status.message}")

    async def pod(self) -> Pod:
        """The launcher pod."""
        return await self.client.get(PODS, "virt-launcher-db", PLACE)

    async def places(self) -> tuple[str, str, str]:
        """The NAD in the machine's template, in network-status, and where the port is."""
        machine = await self.client.get(VIRTUAL_MACHINES, MACHINE, PLACE)
        template = machine.spec.template
        assert template is not None
        named = template.spec.networks[1].multus
        assert named is not None
        status = json.loads((await self.pod()).metadata.annotations[NETWORK_STATUS])
        title = named.network_name
        return title if "/" in title else str(Key(PLACE, title)), status[1]["name"], self.port

    async def events(self, name: str = "move") -> list[str]:
        """The reasons of what was reported of an object, oldest first."""
        found = (await self.client.list(EVENTS)).items
        return [item.reason for item in found if item.involved_object.name == name]


Story = Callable[[SwapCluster], Awaitable[None]]


def story(test: Story) -> Callable[[], None]:
    """Make a test of a coroutine that gets a cluster in which the machine runs, and a manager leads."""

    async def told(each: SwapCluster) -> None:
        await each.furnish()
        each.lead()
        await asyncio.sleep(1.0)
        await test(each)

    play = partial(cluster.play, told, SwapCluster)

    def run() -> None:
        play()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
