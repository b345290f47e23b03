"""The references of an object: the NADs that a machine, a pod, or a controller of pods uses, or will use.

By these rules networks are kept as long as they are in use. So a doubt counts as a use: an object that refers to
something that can't be read may use every network.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec, nad_of
from lanloom.api.liveupdate import NetworkSwap, swapped
from lanloom.api.meta import Key, Object
from lanloom.api.multus import (
    DEFAULT_NETWORK,
    MULTUS_NETWORKS,
    NETWORK_STATUS,
    NETWORKS_MAX,
    TOO_MANY,
    Selection,
    attachments,
    is_name,
    selections,
)
from lanloom.api.workloads import CronJob, Job, ReplicaSet, Workload
from lanloom.text import listed, quote

ANY = "*"
"""The namespace of a reference that leaves it open, see DEFAULT_NETWORK; no namespace can be called so."""

UNREADABLE = Key(ANY, ANY)
"""Stands for what an object refers to that can't be read: every network."""


class References(Struct, frozen=True):
    """The networks that an object refers to.

    `problem` is set where not all of them can be read, and says in words what can't. Ask `may_mean` whether a network
    is one of them; looking into `networks` misses what is left open.
    """

    networks: frozenset[Key] = frozenset()
    problem: str = ""

    def may_mean(self, nad: Key) -> bool:
        """Return whether the object uses that NAD, as far as its fields show."""
        return not self.marks.isdisjoint(marks_of(nad))

    @property
    def marks(self) -> frozenset[Key]:
        """All that an index needs: an object that may use a NAD has one of `marks_of` it."""
        return self.networks | {UNREADABLE} if self.problem else self.networks


NONE = References()

_PROBLEMS_SHOWN = 3


def marks_of(nad: Key) -> tuple[Key, ...]:
    """Return the marks under which the users of a NAD are found, see `References.marks`."""
    return nad, Key(ANY, nad.name), UNREADABLE


def references_of(item: Object) -> References:
    """Return the networks of an object; none for a kind without networks, and for one that has ended.

    A swap is between two networks until it has ended. A ReplicaSet that something controls counts through its pods
    only: those of a Deployment's former templates stay.
    """
    match item:
        case VirtualMachine():
            template = item.spec.template
            if template is None:
                return References(problem="spec.template can't be read")
            return _of_machine(template.spec, template.metadata.annotations, item)
        case VirtualMachineInstance():
            return NONE if item.has_ended else _of_machine(item.spec, item.metadata.annotations, item)
        case Pod():
            return NONE if item.has_ended else _of_pod(item)
        case NetworkSwap():
            return References(frozenset(nad for _, nad in swapped(item)))
        case ReplicaSet() if item.is_controlled:
            return NONE
        case Workload() | ReplicaSet():
            return _of_annotations(item.spec.template.metadata.annotations, item)
        case Job():
            return (
                NONE if item.is_finished else _of_annotations(item.spec.template.metadata.annotations, item)
            )
        case CronJob():
            return _of_annotations(item.spec.job_template.spec.template.metadata.annotations, item)
    return NONE


def made_by(item: Object) -> References:
    """Return the networks of the pods that an object makes; of every ReplicaSet those of its template."""
    if isinstance(item, ReplicaSet):
        return _of_annotations(item.spec.template.metadata.annotations, item)
    return references_of(item)


def _of_machine(
    spec: VirtualMachineInstanceSpec, annotations: Mapping[str, str], machine: Object
) -> References:
    """Merge both names: a network of the machine and an annotation for its pod are two ways to the same."""
    return _all((*_of_networks(spec, machine.metadata.namespace), _of_annotations(annotations, machine)))


def _of_networks(spec: VirtualMachineInstanceSpec, own: str) -> Iterator[References]:
    if len(spec.networks) > NETWORKS_MAX:
        yield References(problem=TOO_MANY)
        return
    for item in spec.networks:
        if item.multus is None:
            continue
        title, nad = item.multus.network_name, nad_of(item.multus, own)
        if not is_name(nad.name) or not is_name(nad.namespace):
            yield References(
                problem=f"network {quote(item.name)}: networkName {quote(title)} can't name a NAD"
            )
        elif item.multus.default and "/" not in title:  # KubeVirt hands it on in DEFAULT_NETWORK as it is
            yield References(frozenset({Key(ANY, nad.name)}))
        else:
            yield References(frozenset({nad}))


def _of_pod(pod: Pod) -> References:
    """Keep what is attached: a pod keeps its attachments, even if the annotation that asks for them is edited."""
    annotations = pod.metadata.annotations
    attached = _read(NETWORK_STATUS, annotations.get(NETWORK_STATUS, ""), attachments, pod.metadata.namespace)
    return _all((_of_annotations(annotations, pod), attached))


def _of_annotations(annotations: Mapping[str, str], item: Object) -> References:
    own = item.metadata.namespace
    places = ((MULTUS_NETWORKS, own), (DEFAULT_NETWORK, ANY))
    return _all(
        _read(name, annotations[name], selections, place) for name, place in places if name in annotations
    )


def _read(name: str, text: str, reader: Callable[[str], Iterable[Selection]], namespace: str) -> References:
    """Return the NADs that an annotation names; a name without a namespace is in the given one."""
    try:
        found = reader(text)
    except ValueError as error:
        return References(problem=f"annotation {name} can't be read: {error}")
    return References(frozenset(Key(item.namespace or namespace, item.name) for item in found if item.name))


def _all(parts: Iterable[References]) -> References:
    found = [item for item in parts if item != NONE]
    if len(found) < 2:
        return found[0] if found else NONE
    networks = frozenset[Key]().union(*(item.networks for item in found))
    problems = [item.problem for item in found if item.problem]
    more = f"; and {len(problems) - _PROBLEMS_SHOWN} more" if len(problems) > _PROBLEMS_SHOWN else ""
    return References(networks, "; ".join(problems[:_PROBLEMS_SHOWN]) + more)


class User(Struct, frozen=True, order=True):
    """A user of a network: the object that an operator must change or delete. `via` is what refers to it instead.

    `problem` is set if its networks can't be read, with the reason: then it counts as a user of each. `nodes` are those
    on which it runs with the network.
    """

    kind: str
    namespace: str
    name: str
    via: str = ""
    problem: str = ""
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = self.via or self.problem
        return f"{self.kind} {self.namespace}/{self.name}" + (f" ({more})" if more else "")

    @property
    def placed(self) -> str:
        """The user with its nodes, unless it says already where it runs."""
        where = [node for node in self.nodes if node not in self.via.split()]
        return f"{self} on {listed(where)}" if where else str(self)


class NadUse(Protocol):
    """The users of NADs at one moment: as the watches delivered them, or as read from the API server a moment ago."""

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Return everything that uses a NAD or may use it, each once, in order."""
        ...

    def user_of(self, pod: Key) -> User:
        """Return the user that a pod is, or is a part of."""
        ...

    def seen(self, uid: str) -> int | None:
        """Return the newest known resourceVersion of a swap, VM, VMI or pod of that uid; None if it is unknown.

        It is also known for an object that was deleted within the last minutes.
        """
        ...
