"""A node of simulated machines: the agent's view of its kernel, and the agent itself for one life."""

import asyncio
from random import Random

from msgspec.structs import replace

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.features.liveupdate.agent.kernel import FoundPort
from lanloom.features.liveupdate.agent.mover import Mover
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.features.liveupdate.agent.swaps import SwapAgent
from lanloom.features.liveupdate.rules.port import Bridge, PodIdentity, PortBinding, PortConflict
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.node.ports import Records
from tests.sim.faults import Faults, faulty_records
from tests.sim.processes import Life
from tests.sim.vm_state import BRIDGE, Port, State


class PortsOfNode:
    """`PortKernel` on the ports of one node. A move may fail, or the agent die, with the port on no bridge."""

    def __init__(self, node: str, state: State, faults: Faults, life: Life, rng: Random) -> None:
        self._node = node
        self._state = state
        self._faults = faults
        self._life = life
        self._rng = rng

    async def find(self, identity: PodIdentity, hint: str = "") -> FoundPort:
        """As the port says."""
        self._life.check()
        self._port(identity.uid, identity.interface)
        return FoundPort(netns=f"{identity.uid}/{identity.interface}", nic=7)

    async def inspect(self, found: FoundPort) -> PortBinding:
        """As the port says."""
        self._life.check()
        return self._at(found).binding

    async def bridge(self, name: str) -> Bridge | None:
        """As the port says."""
        return BRIDGE if name == BRIDGE.name else None

    async def guards(self, link: str) -> bool:
        """As the port says."""
        return False

    async def move(self, found: FoundPort, goal: PortBinding) -> float:
        """As the port says."""
        self._life.check()
        port = self._at(found)
        if self._faults.strikes(0.1):
            raise LinkError("Device or resource busy")
        port.binding = replace(goal, up=False)
        await asyncio.sleep(self._rng.random() * 0.02)
        self._life.check()
        if self._faults.strikes(0.1):
            raise LinkError("Cannot allocate memory")
        port.binding = replace(goal, up=True)
        return 1 + self._rng.random() * 40

    async def send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        """As the port says."""
        self._life.check()
        self._at(found)

    def _at(self, found: FoundPort) -> Port:
        return self._port(*found.netns.split("/"))

    def _port(self, uid: str, interface: str) -> Port:
        port = self._state.ports.get((uid, interface))
        if port is None or port.node != self._node:
            raise PortConflict(f"no namespace of {uid} has {interface}", final=False)
        return port


async def serve(
    node: str, client: Client, state: State, records: Records, faults: Faults, life: Life, rng: Random
) -> None:
    """The life of the agent of a node."""
    kernel = PortsOfNode(node, state, faults, life, rng)
    kept = MoveRecords(faulty_records(records, life))
    swaps = Informer(client, NETWORK_SWAPS, rng=rng, optional=True)
    now = asyncio.get_running_loop().time
    agent = SwapAgent(client, swaps, Mover(kernel, kept, lambda: None), kept, node=node, now=now, rng=rng)
    async with asyncio.TaskGroup() as group:
        group.create_task(swaps.run())
        group.create_task(agent.run())
