"""The values of isolated networks, what their objects are called, and how these are told from others' objects."""

import hashlib
import re
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any, Protocol

from msgspec import Struct

from lanloom.api.dummy import (
    NAME_ANNOTATION,
    UID_LABEL,
    DummyClusterNetwork,
    DummyResource,
    Gateway,
    Scope,
)
from lanloom.api.meta import Key, Object, ObjectMeta
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS


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
    namespace: str = BRIDGES_NAMESPACE
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


SLUG_MAX = 40


def resource_name(name: str, uid: str) -> str:
    """`<slug of the name, at most 40 characters>-<8 hexadecimal digits of the SHA-256 of the uid>`, a DNS-1123 label.

    Two networks never share one, whatever they are called; a network of the same name made anew gets another one.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:SLUG_MAX].strip("-") or "dcn"
    return f"{slug}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def daemon_set_name(name: str, uid: str) -> str:
    """The DaemonSet that keeps the bridge of a DummyClusterNetwork on every node."""
    return f"dummy-bridge-{resource_name(name, uid)}"


Raw = dict[str, Any]


def ownership(name: str, uid: str) -> Raw:
    """The label and the annotation, as members of an object's metadata."""
    return {"labels": {UID_LABEL: uid}, "annotations": {NAME_ANNOTATION: name}}


def owner_of(item: Object) -> str:
    """The uid of the DummyClusterNetwork that an object was made for; empty for anything else."""
    return item.metadata.labels.get(UID_LABEL, "")


def is_ours(metadata: ObjectMeta, uid: str) -> bool:
    """Whether an object was made for the DummyClusterNetwork of that uid. Everything else is somebody else's."""
    return bool(uid) and metadata.labels.get(UID_LABEL) == uid


def is_foreign(metadata: ObjectMeta, dcn: DummyClusterNetwork) -> bool:
    """Whether an object is somebody else's: neither marked as the network's nor known to its status by the uid.

    Whoever takes the mark off by force takes the object off the network, but its users are still there.
    """
    made = {item.uid for item in dcn.status.resources}
    return not is_ours(metadata, dcn.metadata.uid) and metadata.uid not in made


def daemon_set_places(settings: Settings, recorded: Iterable[DummyResource]) -> frozenset[str]:
    """The namespaces of a network's DaemonSets: where they are made, and where they were made as the status says.

    Elsewhere the label means nothing. Whoever may make DaemonSets in a namespace of his own could else keep a network
    from going by one, and acknowledge by its pods in the name of nodes that have not.
    """
    were = (item.namespace for item in recorded if item.kind == DAEMON_SETS.kind)
    return frozenset({LANLOOM_NAMESPACE, settings.namespace, *were})
