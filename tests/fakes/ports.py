"""A node's kernel in memory, as far as ports of machines go: one machine's port, bridges, and namespaces of LANs.

It outlives the agents that use it. `dies` counts down at each change: at 0 the process that makes it dies half-way.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from lanloom.features.liveupdate.agent.kernel import FoundPort
from lanloom.features.liveupdate.rules.port import Bridge, PodIdentity, PortBinding, PortConflict
from lanloom.node.errors import LinkError


class Died(BaseException):
    """The agent was killed."""


class PortWorld(Struct):
    """What there is: the port's `binding`, bridges by namespace and name, and everything that went through the port.

    `broken` are names of bridges that the kernel refuses a port for, `guarded` of ports with rules of
    macspoofchk. `visited` are all bridges that the port was on. `nic` is the index of the machine's end.
    """

    binding: PortBinding = PortBinding(link="veth7", bridge="one-br")
    bridges: dict[tuple[str, str], Bridge] = field(
        default_factory=lambda: {
            ("", name): Bridge(name=name, mtu=1500, filtering=True, default_pvid=1)
            for name in ("one-br", "two-br")
        }
    )
    broken: set[str] = field(default_factory=set)
    ambiguous: bool = False
    guarded: set[str] = field(default_factory=set)
    dies: int = -1
    sent: list[bytes] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)
    moves: int = 0
    nic: int = 2


class FakePorts:
    """One agent's port on a `PortWorld`."""

    def __init__(self, world: PortWorld) -> None:
        self._world = world

    async def find(self, identity: PodIdentity, hint: str = "") -> FoundPort:
        """As the port says."""
        if self._world.ambiguous:
            raise PortConflict(f"Pod {identity.title}: 2 namespaces can be its own")
        return FoundPort(netns=hint or "/run/netns/pod", nic=self._world.nic)

    async def inspect(self, found: FoundPort) -> PortBinding:
        """As the port says."""
        return self._world.binding

    async def bridge(self, name: str) -> Bridge | None:
        """As the port says."""
        return self._world.bridges.get(("", name))

    async def guards(self, link: str) -> bool:
        """As the port says."""
        return link in self._world.guarded

    async def move(self, found: FoundPort, goal: PortBinding) -> float:
        """As the port says."""
        world = self._world
        if (goal.ns, goal.bridge) not in world.bridges:
            raise LinkError(f"can't move {world.binding.link} to {goal.title}: No such device")
        world.moves += 1
        self._become(PortBinding(link=world.binding.link, ns=world.binding.ns, up=False))
        if goal.ns != world.binding.ns:
            self._become(PortBinding(link=goal.link, ns=goal.ns, up=False))
        if goal.bridge in world.broken:
            raise LinkError(f"can't move {world.binding.link} to {goal.title}: Device or resource busy")
        self._become(replace(goal, up=False))
        self._become(goal)
        world.visited.append(goal.bridge)
        return 1.5

    async def send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        """As the port says."""
        self._world.sent.extend(frames)

    def _become(self, binding: PortBinding) -> None:
        if self._world.dies == 0:
            self._world.dies = -1
            raise Died
        self._world.dies -= 1 if self._world.dies > 0 else 0
        self._world.binding = binding
