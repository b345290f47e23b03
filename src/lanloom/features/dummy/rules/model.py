"""The values of isolated networks, the names of their objects, and how to recognise these."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom.api.dummy import (
    NAME_ANNOTATION,
    UID_LABEL,
    DummyClusterNetwork,
    DummyResource,
    Gateway,
    Scope,
)
from lanloom.api.lan import UnderlayFamily
from lanloom.api.madenetworks import unique_name
from lanloom.api.meta import Key, Object, ObjectMeta
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.subnets import Subnet
from lanloom.api.workloads import DAEMON_SETS


class Isolated(Struct, frozen=True, kw_only=True):
    """A DummyClusterNetwork whose spec is valid. `created` is its creationTimestamp, RFC 3339 in UTC.

    `underlay`, `underlay_family` and `mtu` are those of the LAN on which a network with the scope cluster stands.
    `namespaces` are all that may use it, `*` for all, none where the spec does not say. `subnets` are at most one of
    each IP version, IPv4 first.
    """

    name: str
    uid: str
    created: str
    bridge: str
    nad: Key
    scope: Scope = "node"
    subnets: tuple[Subnet, ...] = ()
    gateway: Gateway = "none"
    underlay: str = ""
    underlay_family: UnderlayFamily = ""
    mtu: int = 0
    namespaces: tuple[str, ...] = ()


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the controller, and of the network that it creates at start unless `default` is off.

    `image` is that of the DaemonSets, with its digest, or with its tag if it was loaded onto the nodes; empty if it is
    unknown. `namespace` is where they run.
    `node_timeout` is after how many seconds a node that is not ready is not awaited any more. `service_cidrs` and
    `pod_cidrs` are ranges that the cluster does not report itself.
    """

    default: bool = True
    name: str = "br-dummy-cluster"
    bridge: str = "dummy-br"
    nad: str = "dummy-bridge-net"
    nad_namespace: str = "harvester-system"
    image: str = ""
    namespace: str = BRIDGES_NAMESPACE
    node_timeout: float = 300.0
    service_cidrs: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()


def resource_name(name: str, uid: str) -> str:
    """Return what the objects of a network are called, as `unique_name` says."""
    return unique_name(name, uid, "dcn")


def daemon_set_name(name: str, uid: str) -> str:
    """Return the name of the DaemonSet that maintains the bridge of a DummyClusterNetwork on every node."""
    return f"dummy-bridge-{resource_name(name, uid)}"


Raw = dict[str, Any]


def ownership(name: str, uid: str) -> Raw:
    """Return the label and the annotation, as members of an object's metadata."""
    return {"labels": {UID_LABEL: uid}, "annotations": {NAME_ANNOTATION: name}}


def owner_of(item: Object) -> str:
    """Return the uid of the DummyClusterNetwork that an object was created for; empty for other objects."""
    return item.metadata.labels.get(UID_LABEL, "")


def is_ours(metadata: ObjectMeta, uid: str) -> bool:
    """Return whether an object was created for the DummyClusterNetwork of that uid."""
    return bool(uid) and metadata.labels.get(UID_LABEL) == uid


def is_foreign(metadata: ObjectMeta, dcn: DummyClusterNetwork) -> bool:
    """Return whether an object has another owner: neither the network's mark nor a uid in its status.

    A client that removes the mark by force detaches the object from the network, but its users still exist.
    """
    made = {item.uid for item in dcn.status.resources}
    return not is_ours(metadata, dcn.metadata.uid) and metadata.uid not in made


def daemon_set_places(settings: Settings, recorded: Iterable[DummyResource]) -> frozenset[str]:
    """Return the namespaces of a network's DaemonSets: the present one, and those that the status records.

    In other namespaces, the label has no meaning. Otherwise, a user with the right to create DaemonSets in one
    namespace could block the deletion of a network, and acknowledge by pods for nodes that have not.
    """
    were = (item.namespace for item in recorded if item.kind == DAEMON_SETS.kind)
    return frozenset({LANLOOM_NAMESPACE, settings.namespace, *were})
