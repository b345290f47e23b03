"""The ports between features: names for what one provides and another needs, and their types.

Features know the ports, and not each other; a context connects them.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.l3 import PoolSource
from lanloom.api.lan import Mode, MultusReport
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.runtime.cni.server import CniService

T = TypeVar("T")


class Port(Generic[T]):
    """The name of what one feature provides and another needs."""

    def __init__(self, name: str) -> None:
        self.name = name


class NodeClaim(Struct, frozen=True):
    """The nodes that need an address on the VLAN of one NAD, from where, and the NAD with which they are released."""

    source: PoolSource
    nodes: frozenset[str]
    owner: OwnerReference


class NodeLeases(NamedTuple):
    """The leases of one NAD: a CIDR by node, and by node the problem that prevents one.

    Where nodes get one of each IP version, `addresses6` has those of IPv6: for each node of `addresses`, empty for one
    that has none yet.
    """

    addresses: dict[str, str]
    problems: dict[str, str]
    addresses6: dict[str, str] = {}


NO_LEASES = NodeLeases({}, {}, {})


class NodePools(Protocol):
    """Give addresses to nodes. A node keeps what it has for as long as it is claimed for."""

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """Claim addresses for the nodes of a NAD, or, with None, give the claim up. Cheap where that is known."""
        ...

    def leases(self, nad: Key) -> NodeLeases:
        """Return the present leases of the nodes of a NAD."""
        ...

    def are_complete(self, nad: Key) -> bool:
        """Return whether each node that a NAD claims for has an address. Cheap while addresses come one by one."""
        ...

    def on_change(self, handler: Callable[[Key], None]) -> None:
        """Call `handler` with the NAD whenever its leases may have changed."""
        ...


class NadClaims(Protocol):
    """The NADs that a feature's networks claim, whether these exist or not, and the namespaces that may use them."""

    def claimed(self) -> Collection[Key]:
        """Return every claimed NAD once, as far as the watches have brought them."""
        ...

    def is_limited(self, nad: Key) -> bool:
        """Return whether a NAD attaches to a network that is not for all namespaces, as far as the watches know."""
        ...

    async def exclusion(self, nad: Key, namespace: str) -> str:
        """Return why objects of a namespace may not refer to a NAD; empty if they may.

        A watch that lags behind excludes none. Raises KubeError.
        """
        ...


class ClaimedAddresses(NamedTuple):
    """What a machine's NIC has of a network. Not `ready` and without a `problem`, they are on their way."""

    ready: bool
    addresses: tuple[str, ...] = ()
    problem: str = ""


class MachineAddresses(Protocol):
    """Give addresses to NICs of machines that move to another network."""

    async def claim(
        self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: NetworkAttachmentDefinition
    ) -> ClaimedAddresses:
        """Claim what the instance's network of that name gets of a NAD; ready at once for a NAD without addresses.

        It may be called again and again. Raises KubeError.
        """
        ...

    async def release(
        self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: Key, stays: Key
    ) -> None:
        """Give back what the instance's network of that name has of a NAD, once nothing uses it.

        What it has of the NAD on which it `stays` as well is kept. Raises KubeError.
        """
        ...


class LanPlace(NamedTuple):
    """A place at a LAN for a port: the path of the LAN's namespace, its bridge, the port's name there, the MTU."""

    ns: str
    bridge: str
    link: str
    mtu: int


class PodNic(NamedTuple):
    """A NIC of a machine as its launcher pod has it: the pod (`namespace/name`), its uid, its namespace's path.

    `mac` is the machine's own hardware address.
    """

    pod: str
    uid: str
    netns: str
    interface: str
    mac: str = ""


class LanPlaces(Protocol):
    """Places at the LANs of a node, for ports that another feature brings and takes.

    All raise NodeError: of a spoke that no LAN has, that another pod has, or of a LAN that can't be built.
    """

    def find(self, spoke: str) -> LanPlace:
        """Return the place of a spoke, whether its LAN is built or not."""
        ...

    def pod_at(self, spoke: str, mode: Mode) -> str:
        """Return the pod (`namespace/name`) that a spoke was attached for; empty for none, or one that is not known."""
        ...

    async def relocate(
        self, nic: PodNic, leave: str, enter: str, move: Callable[[LanPlace | None], Awaitable[T]]
    ) -> T:
        """Return what `move` returns, which brings a port from one spoke to another; either may be empty for none.

        It is called with the place to enter once that LAN is built, and nothing else changes the LANs until it ends.
        If it fails, both spokes are kept for the port, and the same call may be repeated, or its reverse.
        """
        ...


LanUplinks = Callable[[str, str, int], Awaitable[None]]
"""Called with a namespace, a cluster network and a VLAN id.

Raises Denied where LANs of the namespace may not be joined to the VLAN, and KubeError where that can't be known.
"""

IPAM_PROGRAMS: Port[Mapping[str, CniService]] = Port("IPAM programs that this process answers")
LAN_PLACES: Port[LanPlaces] = Port("places at LANs for ports of machines")
LAN_UPLINKS: Port[LanUplinks] = Port("namespaces whose LANs may be joined to VLANs")
MACHINE_ADDRESSES: Port[MachineAddresses] = Port("addresses for NICs that move")
MULTUS: Port[Callable[[], Awaitable[MultusReport | None]]] = Port("Multus' configuration on the node")
NAD_CLAIMS: Port[NadClaims] = Port("NADs that networks claim")
NODE_POOLS: Port[NodePools] = Port("addresses for nodes")
HARVESTER_RUNS: Port[Callable[[], bool]] = Port("whether Harvester's network controller runs")
