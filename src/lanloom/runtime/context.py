"""What a process gives to the features that run in it, what they give back, and what they give each other."""

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from lanloom.api.l3 import PoolSource
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.runtime.cni import CniSettings, PartObserver
from lanloom.runtime.webhooktable import TableAdmission

T = TypeVar("T")


class Port(Generic[T]):
    """What one feature provides and another may need. Features know the port, and not each other."""

    def __init__(self, name: str) -> None:
        self.name = name


class Context:
    """What every process gives. `now` gives seconds since the epoch; `observe` is told of each reconcile.

    `settings` and `metrics` hold what belongs to a feature, by its name.
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
        """What was said at start for a feature."""
        found: T = self._settings.get(feature, default)
        return found

    def provide(self, port: Port[T], value: T) -> None:
        """Give other features something. Raises ValueError if another feature has."""
        if port.name in self._provided:
            raise ValueError(f"two features provide {port.name}")
        self._provided[port.name] = value

    def find(self, port: Port[T]) -> T | None:
        """What a feature provides that was built before; None if none does."""
        return self._provided.get(port.name)

    def need(self, port: Port[T]) -> T:
        """What a feature provides that was built before. Raises LookupError if none does."""
        found = self.find(port)
        if found is None:
            raise LookupError(f"no feature provides {port.name}; name one that does in Feature.after")
        return found


class ManagerContext(Context):
    """What a manager gives.

    `identity` tells replicas apart: the name of the manager's own pod, where it runs in one. `user` is the name under
    which it writes, empty if that is not known.
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
    """What an agent gives.

    `cluster` tells its profiles from another cluster's; `cni` is None for an agent that answers no CNI program.
    `on_cni_part` is told whether the socket is there.
    """

    def __init__(
        self, *, host: Host, cluster: str, cni: CniSettings | None, on_cni_part: PartObserver, **options: Any
    ) -> None:
        super().__init__(**options)
        self.host = host
        self.cluster = cluster
        self.cni = cni
        self.on_cni_part = on_cni_part


class AgentPart(Struct, frozen=True, kw_only=True):
    """A feature in an agent."""

    run: Callable[[], Coroutine[Any, Any, None]]
    controllers: tuple[Controller[Any], ...] = ()


class NodeClaim(Struct, frozen=True):
    """The nodes that need an address on the VLAN of one NAD, from where, and the NAD with which they are released."""

    source: PoolSource
    nodes: frozenset[str]
    owner: OwnerReference


class NodeLeases(NamedTuple):
    """What the nodes of one NAD have: a CIDR by node, and by node what is in the way of one."""

    addresses: dict[str, str]
    problems: dict[str, str]


NO_LEASES = NodeLeases({}, {})


class NodePools(Protocol):
    """Gives addresses to nodes. A node keeps what it has for as long as it is claimed for."""

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """The nodes of a NAD need addresses, or, with None, none do any more. Cheap where that is known."""
        ...

    def leases(self, nad: Key) -> NodeLeases:
        """What the nodes of a NAD have now."""
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

    def users_of(self, nad: Key) -> tuple[str, ...]:
        """Everything that uses a NAD or may use it, each once, for messages."""
        ...

    def requests_of(self, nad: NetworkAttachmentDefinition) -> tuple[NadRequest, ...]:
        """Requests that were allowed to refer to a guarded NAD (`api.nadguard`) and may not be stored yet."""
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


NAD_USERS: Port[NadUsers] = Port("users of NADs")
NODE_POOLS: Port[NodePools] = Port("addresses for nodes")
HARVESTER_RUNS: Port[Callable[[], bool]] = Port("whether Harvester's network controller runs")
