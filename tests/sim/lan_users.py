"""What people do to LANs and to those who use them, from a seed."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import FORCE_DELETE, LANS, Mode, nad_name, resource_name
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.api.resource import Resource
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.errors import KubeError
from lanloom_embedded.engine.calls import SYSTEM
from lanloom_embedded.local import LocalClient
from tests.sim.faults import retrieve
from tests.sim.lan import NODE_NAMES, LanCluster
from tests.sim.lan_nodes import CLUSTER_NETWORK, HOST_BRIDGE, VLANS

Raw = dict[str, Any]
Act = Callable[[], Coroutine[Any, Any, None]]

Machine = tuple[str, str]
"""Name and uid of a VirtualMachineInstance."""

NO_MACHINE: Machine = ("", "")
PLACE = "nets"
SPOKES = {"red": ("red-a", "red-b"), "blue": ("blue-a", "blue-b"), "teal": ("teal-a", "blue-a")}
VNIS = {"red": 8, "blue": 7, "teal": 7, "iso": 9}
"""Two LANs claim what only one can have: a spoke, a VNI, a namespace."""

NAMESPACES = {"red": "red", "blue": "blue", "teal": "blue", "iso": "iso"}
ISOLATED = "iso"
_UPLINK, _OTHER = ({"clusterNetwork": CLUSTER_NETWORK, "vlan": vlan} for vlan in VLANS)
UPLINKS = {"red": (_UPLINK, _UPLINK, _OTHER), "blue": (None, _OTHER), "teal": (None,)}
"""VLANs to which LANs are joined, in schedules that have such; two LANs may claim one."""

MODES: tuple[Mode, ...] = ("veth", "macvtap")
PACES = (1.0, 1.0, 1.0, 5.0)
"""In some schedules there is time between two acts for notes of requests to lapse, which takes a minute."""


class LanUsers:
    """All who use LANs, make them or want them gone. Requests go their way while others are made."""

    def __init__(self, cluster: LanCluster, rng: Random) -> None:
        self._cluster = cluster
        self._client = cluster.users
        self._manager = LocalClient(cluster.engine, SYSTEM)
        self._rng = rng
        self._requests: set[asyncio.Task[None]] = set()
        self._pods = 0
        self._machines = 0
        self._pace = rng.choice(PACES)

    def begin(self) -> None:
        """The first LANs, if all goes well."""
        for name in ("red", "blue"):
            self._do(partial(self._create, name))

    async def act(self, times: int) -> None:
        """Does so many things, without waiting for what comes of them."""
        acts: dict[Act, int] = {
            self._add_pod: 14,
            self._remove_pod: 8,
            self._end_pod: 2,
            self._add_machine: 2,
            self._remove_machine: 2,
            self._add_lan: 5,
            self._delete_lan: 3,
            self._retire_lan: 3,
            self._force_lan: 1,
            self._change_spokes: 4,
            self._reconsider: 3,
            self._migrate: 3,
        }
        if self._cluster.uplinks:
            acts |= {self._change_uplink: 4, self._add_isolated: 2, self._remove_isolated: 1}
        happenings, weights = list(acts), list(acts.values())
        for _ in range(times):
            await asyncio.sleep(self._pace * self._rng.choice((0.05, 1.0, 6.0)) * self._rng.expovariate(1.0))
            self._do(self._rng.choices(happenings, weights)[0])

    async def settle(self) -> None:
        """Returns when every request has been answered."""
        while self._requests:
            await asyncio.wait(self._requests)

    async def leave(self) -> None:
        """Deletes everything."""
        await self.settle()
        kinds: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS, LANS)
        for resource in kinds:
            for item in (await self._client.list(resource)).items:
                client = self._manager if item.metadata.name == ISOLATED else self._client
                with suppress(KubeError):
                    await client.delete(resource, item.metadata.name, item.metadata.namespace)

    def _do(self, act: Act) -> None:
        task = asyncio.create_task(self._answered(act))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        task.add_done_callback(retrieve)

    async def _answered(self, act: Act) -> None:
        try:
            await act()
        except KubeError as error:
            self._cluster.note(f"users are told: {error}"[:250])

    async def _create(self, name: str) -> None:
        self._cluster.note(f"users: add LAN {name}")
        uplink = self._rng.choice(UPLINKS[name]) if self._cluster.uplinks else None
        await self._client.create(LANS, lan(name, uplink), PLACE)

    async def _add_lan(self) -> None:
        await self._create(self._rng.choice(("red", "blue", "teal")))

    async def _add_pod(self) -> None:
        node = self._rng.choice(NODE_NAMES)
        spoke, mode = self._rng.choice(SPOKES[self._rng.choice(tuple(SPOKES))]), self._rng.choice(MODES)
        if self._rng.random() < 0.9 and (free := self._cluster.kubelets[node].free()):
            spoke, mode = self._rng.choice(free)
        await self._start_pod(node, spoke, mode)

    async def _start_pod(self, node: str, spoke: str, mode: Mode, machine: Machine = NO_MACHINE) -> str:
        """A pod, of a machine if that is named; its name."""
        self._pods += 1
        name = f"p{self._pods}"
        self._cluster.note(
            f"users: add Pod {name} at {nad_name(spoke, mode)} on {node}"
            + f" for {machine[0]}" * bool(machine[0])
        )
        await self._client.create(PODS, pod(name, node, spoke, mode, machine), "default")
        return name

    async def _remove_pod(self) -> None:
        if item := await self._one(PODS):
            grace = 0 if self._rng.random() < 0.15 else None
            self._cluster.note(f"users: delete Pod {item.metadata.name}, grace {grace}")
            await self._client.delete(PODS, item.metadata.name, item.metadata.namespace, grace=grace)

    async def _end_pod(self) -> None:
        await self._cluster.kubelets[self._rng.choice(NODE_NAMES)].end_some()

    async def _add_machine(self) -> None:
        spoke = self._rng.choice(SPOKES["red"])
        networks = [{"name": "net", "multus": {"networkName": f"{PLACE}/{nad_name(spoke, 'macvtap')}"}}]
        body = {"metadata": {"name": "vm"}, "spec": {"template": {"spec": {"networks": networks}}}}
        self._cluster.note(f"users: add VirtualMachine at {spoke}")
        await self._client.create(VIRTUAL_MACHINES, body, "default")

    async def _remove_machine(self) -> None:
        await self._client.delete(VIRTUAL_MACHINES, "vm", "default")

    async def _delete_lan(self) -> None:
        if item := await self._one(LANS):
            self._cluster.note(f"users: delete LAN {item.metadata.name}")
            await self._client.delete(LANS, item.metadata.name, PLACE)

    async def _retire_lan(self) -> None:
        """Deletes a LAN with its users, and wants it back soon."""
        item = await self._one(LANS)
        if not item:
            return
        name = item.metadata.name
        self._cluster.note(f"users: retire LAN {name}")
        for user in (await self._client.list(PODS)).items:
            if f"{name}-" in user.metadata.annotations.get(MULTUS_NETWORKS, ""):
                with suppress(KubeError):
                    await self._client.delete(PODS, user.metadata.name, user.metadata.namespace)
        await self._client.delete(LANS, name, PLACE)
        await asyncio.sleep(self._rng.random() * 30)
        await self._create(name)

    async def _force_lan(self) -> None:
        if item := await self._one(LANS):
            name = item.metadata.name
            self._cluster.note(f"users: delete LAN {name} by force")
            await self._client.patch(LANS, name, {"metadata": {"annotations": {FORCE_DELETE: "true"}}}, PLACE)
            await self._client.delete(LANS, name, PLACE)

    async def _change_spokes(self) -> None:
        if item := await self._one(LANS):
            name = item.metadata.name
            spokes = self._rng.choice((SPOKES[name], SPOKES[name][:1], SPOKES[name][1:]))
            self._cluster.note(f"users: LAN {name} has the spokes {spokes}")
            await self._client.patch(LANS, name, {"spec": {"spokes": list(spokes)}}, PLACE)

    async def _reconsider(self) -> None:
        """Takes a spoke out, and wants it back with a pod; what was asked meanwhile may still be under way."""
        item = await self._one(LANS)
        if not item:
            return
        name, spoke = item.metadata.name, self._rng.choice(SPOKES[item.metadata.name])
        self._cluster.note(f"users: LAN {name} has {spoke} no more, for a while")
        rest = [other for other in SPOKES[name] if other != spoke]
        await self._client.patch(LANS, name, {"spec": {"spokes": rest}}, PLACE)
        await asyncio.sleep(self._pace * self._rng.random() * 20)
        await self._client.patch(LANS, name, {"spec": {"spokes": list(SPOKES[name])}}, PLACE)
        await asyncio.sleep(self._rng.random() * 10)
        await self._start_pod(self._rng.choice(NODE_NAMES), spoke, self._rng.choice(MODES))

    async def _migrate(self) -> None:
        """The pods of a machine have a spoke on two nodes at once for a while."""
        self._machines += 1
        spoke, name = self._rng.choice(SPOKES["red"]), f"machine-{self._machines}"
        made = await self._client.create(VIRTUAL_MACHINE_INSTANCES, {"metadata": {"name": name}}, "default")
        machine = (name, made.metadata.uid)
        source, target = self._rng.sample(NODE_NAMES, 2)
        first = await self._start_pod(source, spoke, "veth", machine)
        await asyncio.sleep(self._rng.random() * 20)
        await self._start_pod(target, spoke, "veth", machine)
        await asyncio.sleep(self._rng.random() * 20)
        await self._client.delete(PODS, first, "default")

    async def _change_uplink(self) -> None:
        if item := await self._one(LANS):
            name = item.metadata.name
            uplink = self._rng.choice((*UPLINKS[name], *UPLINKS["red"]))
            self._cluster.note(f"users: LAN {name} has the uplink {uplink}")
            await self._client.patch(LANS, name, {"spec": {"uplink": uplink}}, PLACE)

    async def _add_isolated(self) -> None:
        """A LAN at a bridge of the hosts, which only a manager makes."""
        self._cluster.note("an isolated network is added")
        await self._manager.create(LANS, lan(ISOLATED), PLACE)

    async def _remove_isolated(self) -> None:
        self._cluster.note("an isolated network is removed")
        await self._manager.delete(LANS, ISOLATED, PLACE)

    async def _one(self, resource: Any) -> Any:
        """One of the objects; LANs that only a manager may change are left alone."""
        items = [item for item in (await self._client.list(resource)).items if item.metadata.name != ISOLATED]
        return self._rng.choice(items) if items else None


def lan(name: str, uplink: Raw | None = None) -> Raw:
    """A LAN, as people write it, or a manager."""
    spec = {
        "ns": NAMESPACES[name],
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": VNIS[name],
        "vxlanGrp": default_group(VNIS[name]),
        "vxlanPort": 4789,
        "defaultVxlanDev": "u0",
        "spokes": list(SPOKES.get(name, ())),
    }
    if uplink is not None:
        spec["uplink"] = uplink
    if name == ISOLATED:
        spec["hostBridge"] = HOST_BRIDGE
    else:
        spec["namespaces"] = ["default"]  # that of the pods
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, node: str, spoke: str, mode: Mode, machine: Machine = NO_MACHINE) -> Raw:
    """A pod at a spoke, bound to a node; `machine` is what it runs."""
    meta: Raw = {"name": name, "annotations": {MULTUS_NETWORKS: f"{PLACE}/{nad_name(spoke, mode)}"}}
    if machine[0]:
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "controller": True}
        meta["ownerReferences"] = [owner | {"name": machine[0], "uid": machine[1]}]
    limits = {resource_name(spoke, mode): "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [container]}}
