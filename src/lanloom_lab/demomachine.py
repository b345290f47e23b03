"""The demo's part about live update: a guest answers a peer while its network changes under it, in both ways."""

from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.cli.query import Field, Query
from lanloom.kube.lookup import get_or_none
from lanloom_lab import examples
from lanloom_lab.demo import Story
from lanloom_lab.errors import DemoFailed
from lanloom_lab.guests.prober import Findings

EXAMPLE = "vm.yaml"
MACHINE, PEER = Key("default", "vm1"), Key("default", "peer")
NIC, RED, BLUE = "lan", "red", "blue"
PEER_NODE = "node3"
ADDRESS = "192.168.20.10"
PROBER = ("python3", "-m", "lanloom_lab.guests.prober")


class Stage(Struct, frozen=True, kw_only=True):
    """The guest after a change of its network: where it is, and what it has kept. `gap` is in milliseconds."""

    how: str
    nad: str
    node: str
    mac: str
    uptime: int
    boot_id: str
    carrier_changes: int
    gap: float | None = None


FIELDS: Query[Stage] = Query(
    (
        Field("how", "Change", "text", "How the network changed", lambda stage: stage.how),
        Field("nad", "NAD", "text", "The network", lambda stage: stage.nad),
        Field("node", "Node", "text", "Node of the guest", lambda stage: stage.node),
        Field(
            "gap",
            "Gap",
            "number",
            "Silence of the guest towards a peer",
            lambda stage: None if stage.gap is None else f"{stage.gap:.0f} ms",
        ),
        Field("mac", "MAC", "text", "MAC address in the guest", lambda stage: stage.mac),
        Field("uptime", "Uptime", "number", "Uptime of the guest", lambda stage: f"{stage.uptime} s"),
        Field(
            "carrier",
            "Link changes",
            "number",
            "How often the guest's link went up or down since its boot",
            lambda stage: stage.carrier_changes,
        ),
    ),
    ("how", "nad", "node", "gap", "mac", "uptime", "carrier"),
    ruled=True,
)


class MachineStory(Story):
    """A guest boots, changes its network by migration and in place, and notices nothing."""

    show = f"vm show {MACHINE}"

    async def run(self) -> None:
        """All of it, in order."""
        self.progress("a virtual machine on VLAN 2015; a real guest boots")
        await examples.apply(self.client, EXAMPLE)
        await self.client.create(PODS, peer(), PEER.namespace)
        await self.started(PEER)
        await self.until("a guest that has booted", self._has_booted)
        stages = [await self._stage("", RED, None)]
        self.ask("vm list")
        for how, nad, policy in (("live migration", BLUE, "migrate"), ("in place", RED, "in-place")):
            self.progress(f"its network changes to {nad}: {how}, while a peer asks for the guest every 5 ms")
            gap = await self._move(nad, policy)
            stages.append(await self._stage(how, nad, gap))
        self._check(stages)
        self.present("A guest whose network changed while it ran", FIELDS, stages)
        await self._end()

    async def _has_booted(self) -> bool:
        machine = await get_or_none(self.client, VIRTUAL_MACHINE_INSTANCES, MACHINE)
        return (
            machine is not None and machine.status.phase == "Running" and await self.verifier.boots(MACHINE)
        )

    async def _stage(self, how: str, nad: str, gap: float | None) -> Stage:
        question = "boot_id; hardware_address; carrier_changes; cut -d. -f1 /proc/uptime"
        boot_id, mac, changes, uptime = (await self.verifier.guest(MACHINE, question)).split()
        machine = await self.client.get(VIRTUAL_MACHINE_INSTANCES, MACHINE.name, MACHINE.namespace)
        return Stage(
            how=how,
            nad=nad,
            node=machine.status.node_name,
            mac=mac,
            uptime=int(uptime),
            boot_id=boot_id,
            carrier_changes=int(changes),
            gap=gap,
        )

    async def _move(self, nad: str, policy: str) -> float:
        """Move the NIC, and return how long the guest was silent between the last answer and the first elsewhere."""
        mac = (await self.verifier.guest(MACHINE, "hardware_address")).strip()
        words = (
            "ip",
            "netns",
            "exec",
            f"{PEER.namespace}.{PEER.name}",
            *PROBER,
            mac,
            ADDRESS,
            "net1",
            "net2",
        )
        async with self.verifier.running(PEER_NODE, *words) as peer:
            await peer.line()
            self.ask(f"vm move {MACHINE.name} {NIC} --to {nad} --policy {policy} --wait")
            await peer.line()
            found = msgspec.json.decode(await peer.finish(), type=Findings)
        return found.moved

    def _check(self, stages: list[Stage]) -> None:
        kept = {(stage.boot_id, stage.mac, stage.carrier_changes) for stage in stages}
        nodes = [stage.node for stage in stages]
        if len(kept) > 1 or nodes[0] == nodes[1] or nodes[1] != nodes[2]:
            raise DemoFailed(
                f"the guest was not left alone, or not where it should be: {stages}",
                f"See `lanloom {self.show}`.",
            )

    async def _end(self) -> None:
        self.progress("deleting the machine and its networks")
        await self.client.delete(PODS, PEER.name, PEER.namespace)
        await self.client.delete(VIRTUAL_MACHINES, MACHINE.name, MACHINE.namespace)
        await self.until("the end of the machine", self._is_gone)
        await examples.delete(self.client, EXAMPLE)

    async def _is_gone(self) -> bool:
        return await get_or_none(self.client, VIRTUAL_MACHINE_INSTANCES, MACHINE) is None


def peer() -> dict[str, Any]:
    """Return a pod that is on both networks."""
    metadata = {"name": PEER.name, "annotations": {"k8s.v1.cni.cncf.io/networks": f"{RED},{BLUE}"}}
    spec = {"nodeName": PEER_NODE, "containers": [{"name": "main", "image": "any"}]}
    return {"metadata": metadata, "spec": spec}
