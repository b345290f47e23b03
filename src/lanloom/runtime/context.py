"""The contexts that processes give to features, and the parts that features return."""

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.inflight import InFlight
from lanloom.kube.informers import Informers
from lanloom.kube.invalid import InvalidObjects
from lanloom.kube.ports import Client
from lanloom.node.ports import Host
from lanloom.runtime.cni.programs import CniSettings
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.ports import Port
from lanloom.runtime.webhooktable import TableAdmission

T = TypeVar("T")


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
    username, empty if it is unknown. `in_flight` is what the webhooks of all features have allowed a moment ago.
    `invalid` reports objects that came past them.
    """

    def __init__(self, *, identity: str, user: str, **options: Any) -> None:
        super().__init__(**options)
        self.identity = identity
        self.user = user
        self.in_flight = InFlight()
        self.invalid = InvalidObjects(self.recorder, rng=self.rng, observe=self.observe)


async def idle() -> None:
    """Do not run anything."""


class ManagerPart(Struct, frozen=True, kw_only=True):
    """A feature in a manager. `run` is for the leader; `admission` answers the feature's webhooks."""

    run: Callable[[], Coroutine[Any, Any, None]] = idle
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


class AgentPart(Struct, frozen=True, kw_only=True):
    """A feature in an agent. `cni` answers the feature's CNI programs, which are installed only then.

    `attaching` are the kinds whose objects' pods the programs attach: without any they are needed no more.
    """

    run: Callable[[], Coroutine[Any, Any, None]] = idle
    controllers: tuple[Controller[Any], ...] = ()
    cni: CniService | None = None
    attaching: tuple[Resource[Any], ...] = ()
