"""The values that the rules of isolated networks speak of, and what they want to know of users."""

from ipaddress import IPv4Network
from typing import Protocol

from msgspec import Struct

from lanloom.api.dummy import Gateway, Scope
from lanloom.api.meta import Key


class Isolated(Struct, frozen=True, kw_only=True):
    """A DummyClusterNetwork whose spec is valid. `created` is its creationTimestamp, RFC 3339 in UTC."""

    name: str
    uid: str
    created: str
    bridge: str
    nad: Key
    scope: Scope = "node"
    subnet: IPv4Network | None = None
    gateway: Gateway = "none"


class Settings(Struct, frozen=True, kw_only=True):
    """How the controller works, and what the network is like that it makes at start unless `default` is off.

    `image` is that of the bridges' DaemonSets, with its digest; empty if it is not known. `namespace` is where they
    live. `node_timeout` are the seconds after which a node that is not ready is not waited for any more.
    `service_cidrs` and `pod_cidrs` are ranges that the cluster does not tell by itself.
    """

    default: bool = True
    name: str = "br-dummy-cluster"
    bridge: str = "dummy-br"
    nad: str = "dummy-bridge-net"
    nad_namespace: str = "harvester-system"
    image: str = ""
    namespace: str = "lanloom-system"
    node_timeout: float = 300.0
    service_cidrs: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()


class User(Struct, frozen=True, order=True):
    """Somebody who uses a network: what an operator has to change or delete. `via` says through what, if not by itself.

    `problem` is set where it can't be read which networks it uses, and why: then it counts as a user of each.
    """

    kind: str
    namespace: str
    name: str
    via: str = ""
    problem: str = ""

    def __str__(self) -> str:
        more = self.via or self.problem
        return f"{self.kind} {self.namespace}/{self.name}" + (f" ({more})" if more else "")


class UserView(Protocol):
    """Who uses which network: as the watches have brought it, or as it was read from the API server a moment ago."""

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        ...

    def seen(self, uid: str) -> int | None:
        """The newest known resourceVersion of a VM, VMI or pod of that uid; None for one that is not known.

        Also of one that was deleted within the last minutes.
        """
        ...
