"""What `lanloom check` tries: objects, pods that look for each other, and what is to be said when they do not.

A feature plans its trials from facts about the cluster, without any I/O. The pods run the image of Lanloom and report
by their termination message. So the user who checks needs no right to run programs in pods, nor to read their logs.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, to_builtins

from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.api.resource import Resource

Raw = dict[str, Any]

NAMESPACE = "lanloom-check"
"""The namespace of all that is created; cluster-scoped objects have names that begin so."""

LABEL, LABEL_VALUE = "app.kubernetes.io/name", "lanloom-check"
"""On everything that is created: nothing without it is ever deleted."""

INTERFACE = "net1"
"""What Multus calls a pod's first interface in addition to that of the pod network."""

HOSTNAME = "kubernetes.io/hostname"


class TrialNode(Struct, frozen=True):
    """A node, and its label `kubernetes.io/hostname`, by which pods ask for it."""

    name: str
    hostname: str


class NodeAddress(Struct, frozen=True, kw_only=True):
    """An address of a node in a VLAN of a cluster network; `interface` is the link that has it."""

    cluster_network: str
    vlan: int
    node: str
    interface: str
    address: str


class Facts(Struct, frozen=True, kw_only=True):
    """What a plan depends on.

    `places` are nodes that take pods, `kinds` the full names of the kinds that the server serves, and `run` tells the
    frames of this check from those of another. `underlay` is a link between the nodes, empty where none is known, and
    `vni` one that no LAN has.
    """

    places: tuple[TrialNode, ...]
    kinds: frozenset[str]
    run: str
    image: str = "lanloom"
    pull_policy: str = "IfNotPresent"
    seconds: int = 120
    underlay: str = ""
    vni: int = 0
    addresses: tuple[NodeAddress, ...] = ()

    def serves(self, *resources: Resource[Any]) -> bool:
        """Return whether the server has all of these kinds."""
        return all(resource.full_name in self.kinds for resource in resources)


class Ping(Struct, frozen=True):
    """An address that a node is to reach by one of its links; `title` names it for people."""

    address: str
    interface: str
    title: str


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the program in a pod does: it looks for `peers` on an interface, or pings.

    It ends well when it has heard all peers, and they it, or when all pings were answered. It waits for that for
    `seconds`. It must not hear `strangers`, for which it listens for `quiet` seconds more. `routed` peers must answer
    at their IP addresses as well.
    """

    run: str
    name: str
    seconds: int
    interface: str = INTERFACE
    peers: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    quiet: int = 0
    routed: bool = False
    pings: tuple[Ping, ...] = ()


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pod found: the peers that it heard, and which of them heard it; its own addresses; what was answered.

    `error` says why it could not look at all.
    """

    heard: tuple[str, ...] = ()
    mutual: tuple[str, ...] = ()
    routed: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    error: str = ""


class Probe(Struct, frozen=True, kw_only=True):
    """A pod of a trial: its task, its node, and the NAD and the device that attach it.

    One in the `background` runs before the others are created and until they have ended; it ends only if it hears a
    stranger.
    """

    task: Task
    place: TrialNode
    nad: str = ""
    resource: str = ""
    background: bool = False


class Creation(Struct, frozen=True):
    """An object that a trial needs."""

    resource: Resource[Any]
    body: Raw

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty for a cluster-scoped kind."""
        return NAMESPACE if self.resource.namespaced else ""

    @property
    def title(self) -> str:
        """What a message calls the object."""
        return f"{self.resource.kind} {self.body['metadata']['name']}"


class Trial(Struct, frozen=True, kw_only=True):
    """One row of the result. `silence` is what to do where the pods run and do not hear each other.

    A trial that is not made has the reason in `skipped`.
    """

    name: str
    about: str
    creations: tuple[Creation, ...] = ()
    probes: tuple[Probe, ...] = ()
    silence: str = ""
    skipped: str = ""


def creation(resource: Resource[Any], name: str, spec: Raw) -> Creation:
    """Return an object that carries the mark of the check."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {LABEL: LABEL_VALUE}},
        "spec": spec,
    }
    return Creation(resource, body)


def pair(facts: Facts, names: Iterable[str], **options: Any) -> tuple[Task, ...]:
    """Return tasks of pods that are all to hear each other."""
    every = tuple(names)
    return tuple(
        Task(
            run=facts.run,
            name=name,
            seconds=facts.seconds,
            peers=tuple(other for other in every if other != name),
            **options,
        )
        for name in every
    )


def pod(facts: Facts, probe: Probe) -> Raw:
    """Return the pod of a probe. It has no right but to send frames and pings, and no account."""
    task = json.dumps(to_builtins(probe.task), separators=(",", ":"))
    metadata: Raw = {"name": probe.task.name, "labels": {LABEL: LABEL_VALUE}}
    if probe.nad:
        metadata["annotations"] = {MULTUS_NETWORKS: f"{probe.nad}@{INTERFACE}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "hostNetwork": bool(probe.task.pings),
            "nodeSelector": {HOSTNAME: probe.place.hostname},
            "tolerations": [{"operator": "Exists"}],
            "containers": [_container(facts, task, _limits(probe))],
        },
    }


def _limits(probe: Probe) -> Mapping[str, str]:
    return {probe.resource: "1"} if probe.resource else {}


def _container(facts: Facts, task: str, limits: Mapping[str, str]) -> Raw:
    return {
        "name": "probe",
        "image": facts.image,
        "imagePullPolicy": facts.pull_policy,
        "args": ["check", "--task", task],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi", **limits}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
