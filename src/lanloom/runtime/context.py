"""The contexts that processes give to features, the parts that features return, and the ports between features."""

import random
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.l3 import PoolSource
from lanloom.api.lan import MultusReport
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informers
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.webhooktable import TableAdmission

T = TypeVar("T")


class Port(Generic[T]):
    """A name for what one feature provides and another needs. Features know the port, and not each other."""

    def __init__(self, name: str) -> None:
        self.name = name


class Context:
    """The context of every process. `now` gives seconds since the epoch; `observe` is called for each reconcile.

    `settings` and `metrics` are by the names of the features.
    """

    def __init__(
        self,
        *,
        client: Client,
        recorder: Recorder,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str],
        settings: Mapping[str, Any],
        metrics: Mapping[str, Any],
    ) -> None:
        self.client = client
        self.recorder = recorder
        self.now = now
        self.rng = rng
        self.observe = observe
        self.informers = Informers(client, rng)
        self.metrics = metrics
        self._settings = settings
        self._provided: dict[str, Any] = {}

    def setting(self, feature: str, default: T) -> T:
        """Return the setting of a feature from the start of the process."""
        found: T = self._settings.get(feature, default)
        return found

    def provide(self, port: Port[T], value: T) -> None:
        """Give other features something. Raises ValueError if another feature has."""
        if port.name in self._provided:
            raise ValueError(f"two features provide {port.name}")
        self._provided[port.name] = value

    def find(self, port: Port[T]) -> T | None:
        """Return what an earlier feature provides; None if none does."""
        return self._provided.get(port.name)

    def need(self, port: Port[T]) -> T:
        """Return what an earlier feature provides. Raises LookupError if none does."""
        found = self.find(port)
        if found is None:
            raise LookupError(f"no feature provides {port.name}; name one that does in Feature.after")
        return found


class ManagerContext(Context):
    """The context of a manager.

    `identity` is unique to a replica: the name of the manager's own pod, where it runs in one. `user` is the manager's
    username, empty if it is unknown.
    """

    def __init__(self, *, identity: str, user: str, **options: Any) -> None:
        super().__init__(**options)
        self.identity = identity
        self.user = user


class ManagerPart(Struct, frozen=True, kw_only=True):
    """A feature in a manager. `run` is for the leader; `admission` answers the feature's webhooks."""

    run: Callable[[], Coroutine[Any, Any, None]]
    controllers: tuple[Controller[Any], ...] = ()
    admission: TableAdmission | None = None


class AgentContext(Context):
    """The context of an agent.

    `cluster` distinguishes its profiles from another cluster's; `cni` is None for an agent that serves no CNI program.
    """

    def __init__(self, *, host: Host, cluster: str, cni: CniSettings | None, **options: Any) -> None:
        super().__init__(**options)
        self.host = host
        self.cluster = cluster
        self.cni = cni


async def idle() -> None:
    """Do not run anything."""


class AgentPart(Struct, frozen=True, kw_only=True):
    """A feature in an agent. `cni` answers the feature's CNI programs, which are installed only then.

    `attaching` are the kinds whose objects' pods the programs attach: without any they are needed no more.
    """

    run: Callable[[], Coroutine[Any, Any, None]] = idle
    controllers: tuple[Controller[Any], ...] = ()
    cni: CniService | None = None
    attaching: tuple[Resource[Any], ...] = ()


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
    """Gives addresses to nodes. A node keeps what it has for as long as it is claimed for."""

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """Claim addresses for the nodes of a NAD, or, with None, give the claim up. Cheap where that is known."""
        ...

    def leases(self, nad: Key) -> NodeLeases:
        """Return the present leases of the nodes of a NAD."""
        ...

    def on_change(self, handler: Callable[[Key], None]) -> None:
        """Call `handler` with the NAD whenever its leases may have changed."""
        ...


class NadRequest(NamedTuple):
    """A request that may still bring a user of a NAD. `until` is in seconds since the epoch."""

    title: str
    until: float


class NadUse(Protocol):
    """Which machines, pods and workloads use NADs, at one moment."""

    def users_of(self, nad: Key, of: Callable[[str], bool] = lambda _namespace: True) -> tuple[str, ...]:
        """Everything that uses a NAD or may use it, each once, for messages; `of` tells which namespaces count."""
        ...

    def users_on(self, nad: Key, nodes: Container[str]) -> tuple[str, ...]:
        """Return those of the users that run on one of these nodes, for messages."""
        ...

    def user_of(self, pod: Key) -> str:
        """Return the user that a pod is, or is a part of: what `users_of` has for it, up to a remark in brackets."""
        ...

    def requests_of(self, nad: NetworkAttachmentDefinition) -> tuple[NadRequest, ...]:
        """Return requests that were allowed to refer to a guarded NAD (`api.nadguard`) and may not be stored yet."""
        ...


class NadUsers(NadUse, Protocol):
    """The users of all NADs as the watches have brought them, whole once all informers of the process are synced."""

    def is_used(self, nad: Key) -> bool:
        """Return whether a NAD has users, which takes as long for many as for few."""
        ...

    def on_change(self, handler: Callable[[frozenset[Key] | None], None]) -> None:
        """Call `handler` with the NADs whose users may have changed; None for those of any NAD."""
        ...

    def closing(self, nad: NetworkAttachmentDefinition) -> dict[str, str]:
        """Return the annotations by which a guarded NAD gets no new users, as far as it does not have them."""
        ...

    async def live(self) -> NadUse:
        """Return the users as the API server has them now. Raises KubeError where that can't be known."""
        ...


class ClaimedAddresses(NamedTuple):
    """What a machine's NIC has of a network. Not `ready` and without a `problem`, they are on their way."""

    ready: bool
    addresses: tuple[str, ...] = ()
    problem: str = ""


class MachineAddresses(Protocol):
    """Gives addresses to NICs of machines that move to another network."""

    async def claim(
        self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: NetworkAttachmentDefinition
    ) -> ClaimedAddresses:
        """Claim what the instance's network of that name gets of a NAD; ready at once for a NAD without addresses.

        It may be called again and again. Raises KubeError.
        """
        ...

    async def release(self, instance: VirtualMachineInstance, pod: Pod, network: str, nad: Key) -> None:
        """Give back what the instance's network of that name has of a NAD, once nothing uses it. Raises KubeError."""
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

    Both raise NodeError: of a spoke that no LAN has, that another pod has, or of a LAN that can't be built.
    """

    def find(self, spoke: str) -> LanPlace:
        """Return the place of a spoke, whether its LAN is built or not."""
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
NAD_USERS: Port[NadUsers] = Port("users of NADs")
NODE_POOLS: Port[NodePools] = Port("addresses for nodes")
HARVESTER_RUNS: Port[Callable[[], bool]] = Port("whether Harvester's network controller runs")
