"""References to the NADs of isolated networks: which references a request adds, and why one is rejected.

Between the moment at which a webhook allows an object and the moment at which the API server stores it, no list
contains the object. So the webhook writes a reservation with its uid to the NAD before it allows the object. That write
is rejected once the NAD is marked as draining: the controller that marked it knows every object that can still be
stored. A reservation is settled when its object was observed in a newer version than the request is based on, or when
the API server must have given the request up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.dummy import (
    ADMITTED,
    DRAINING,
    GUARDED,
    NAME_ANNOTATION,
    UID_LABEL,
)
from lanloom.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    nad_of,
)
from lanloom.api.liveupdate import NetworkSwap
from lanloom.api.meta import Key, Object, is_ahead, parse_rfc3339, rfc3339
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS, NetworkAttachmentDefinition
from lanloom.api.workloads import Maker
from lanloom.nads.references import (
    ANY,
    made_by,
    marks_of,
    references_of,
)
from lanloom.text import one_line

NetworkFields = tuple[str, Mapping[str, str], VirtualMachineInstanceSpec]
"""Where an object names networks: the path before it, the annotations, the spec of a machine."""


def new_references(new: Object, old: Object | None) -> tuple[Key, ...]:
    """Return the NADs to which an object refers and did not refer before, in order.

    Of a swap only the target is new: its machine is on the other network already, and leaving is no use of it.
    References that can't be read are left out. Multus does not attach a pod whose networks it can't read, and queries
    for the users of a network count such an object anyway. Its validation is the task of other components.
    """
    before = references_of(old).networks if old is not None else frozenset[Key]()
    networks = {new.spec.target} if isinstance(new, NetworkSwap) else references_of(new).networks
    return tuple(sorted(networks - before))


def meant(nad: Key, claimed: Iterable[Key]) -> tuple[Key, ...]:
    """Return the NADs that a reference may mean: itself, or claimed NADs if it leaves the namespace open."""
    if nad.namespace != ANY:
        return (nad,)
    return tuple(sorted({key for key in claimed if key.name == nad.name}))


def is_isolated(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD is that of an isolated network, or guarded for another feature in the same way."""
    return UID_LABEL in nad.metadata.labels or GUARDED in nad.metadata.annotations


def is_closed(nad: NetworkAttachmentDefinition, *, for_users: bool = False) -> bool:
    """Return whether a NAD accepts no new users because it is about to be deleted, or not even former users."""
    return nad.metadata.is_deleting or (not for_users and DRAINING in nad.metadata.annotations)


def closed_since(nad: NetworkAttachmentDefinition) -> float | None:
    """Return since when a NAD accepts no new users; None if it accepts them, or if the time can't be read.

    A deleted NAD that only a finalizer keeps accepts no users, either.
    """
    text = nad.metadata.annotations.get(DRAINING) or nad.metadata.deletion_timestamp or ""
    try:
        return parse_rfc3339(text) if text else None
    except ValueError:
        return None


def is_restart(owners: Sequence[Object], nad: NetworkAttachmentDefinition) -> bool:
    """Return whether an object on a closed NAD is no new user: one of its controllers (`owners`) uses the NAD already.

    Machines are reviewed, so a machine that refers to the NAD did so before. Workloads are not: the topmost controller
    must have been created in a second before that of the mark. A workload that received the network by an edit since
    then can't be distinguished. It only prolongs the deletion of the network.
    """
    uses = {mark for item in owners for mark in made_by(item).networks}
    if uses.isdisjoint(marks_of(nad.metadata.key)):
        return False
    created, since = owners[-1].metadata.creation_timestamp, closed_since(nad)
    if not isinstance(owners[-1], Maker):
        return True
    return created is not None and since is not None and parse_rfc3339(created) < since


def draining_text(item: Object, reference: Key, nad: NetworkAttachmentDefinition) -> str:
    """Return why an object may not refer to a NAD that is closed."""
    return (
        f"{title_of(item)}: {_field(item, reference)}: NetworkAttachmentDefinition {nad.metadata.key} does not "
        f"accept new users: {_reason(nad)}. Existing workloads can still restart; for a new one, name another "
        "network or none"
    )


def excluded(item: Object, reference: Key, why: str) -> str:
    """Return why an object may not refer to the NAD of a network that is not for its namespace."""
    return f"{title_of(item)}: {_field(item, reference)}: {why}"


def _reason(nad: NetworkAttachmentDefinition) -> str:
    annotations = nad.metadata.annotations
    if UID_LABEL not in nad.metadata.labels:
        return f"{one_line(annotations[GUARDED])} is being deleted or releases it"
    name = annotations.get(NAME_ANNOTATION, "")
    return (
        f"its DummyClusterNetwork {name} is being deleted"
        if name
        else "its DummyClusterNetwork is being deleted"
    )


def title_of(item: Object) -> str:
    """Return an object for a message: by the beginning of its name if the API server is yet to generate the name."""
    name = item.metadata.name or f"{item.metadata.generate_name}…"
    return f"{type(item).__name__} {Key(item.metadata.namespace, name)}"


def _field(item: Object, nad: Key) -> str:
    """Return the field in which an object names the NAD."""
    if isinstance(item, NetworkSwap):
        return "spec.to"
    prefix, annotations, spec = _fields(item)
    for index, network in enumerate(spec.networks):
        if network.multus is None:
            continue
        found = nad_of(network.multus, item.metadata.namespace)
        if found == nad or (nad.namespace == ANY and found.name == nad.name):
            return f"{prefix}spec.networks[{index}].multus.networkName"
    name = DEFAULT_NETWORK if nad.name in annotations.get(DEFAULT_NETWORK, "") else MULTUS_NETWORKS
    return f"{prefix}metadata.annotations[{name}]"


def _fields(item: Object) -> NetworkFields:
    match item:
        case VirtualMachine():
            template = item.spec.template
            if template is not None:
                return "spec.template.", template.metadata.annotations, template.spec
        case VirtualMachineInstance():
            return "", item.metadata.annotations, item.spec
        case Pod():
            return "", item.metadata.annotations, VirtualMachineInstanceSpec()
    return "", {}, VirtualMachineInstanceSpec()


REQUEST_SECONDS = 75.0
"""An API server gives up a request after 60 seconds (`--request-timeout`); clocks may differ a little."""

VersionOf = Callable[[str], int | None]
"""The newest known resourceVersion of an object by its uid, see `NadUse.seen`."""


NAMESPACE_MAX = 200
"""Requests of one namespace that may be open at once: one tenant that asks without end must not keep the others out."""


class Reservation(Struct, frozen=True, order=True):
    """A request: the object's uid, the resourceVersion that it is based on (0 for a creation), and its time limit.

    `until` is in seconds since the epoch. `title` is for messages: `VirtualMachine default/a`; `namespace` is that of
    the object.
    """

    uid: str
    version: int
    until: float
    title: str
    namespace: str = ""


_DECODER = msgspec.json.Decoder(tuple[Reservation, ...])


def reservations_of(nad: NetworkAttachmentDefinition) -> tuple[Reservation, ...]:
    """Return the reservations on a NAD. Raises ValueError if they can't be read: then any object may be stored."""
    text = nad.metadata.annotations.get(ADMITTED, "")
    return _DECODER.decode(text) if text else ()


def with_reservations(
    nad: NetworkAttachmentDefinition, more: Iterable[Reservation], seen: VersionOf, now: float
) -> str:
    """Return the new value of the annotation: without settled reservations, with new ones.

    Of two requests about one object, only the newer one can be stored: the object has the version that it is based on,
    so the other request was rejected. A part that can't be read is replaced by a reservation for an unknown object,
    with the longest time limit.
    """
    try:
        known = reservations_of(nad)
    except ValueError:
        known = (Reservation("", 0, now + REQUEST_SECONDS, "unknown request (its record could not be read)"),)
    every: dict[str, Reservation] = {}
    latest = now + REQUEST_SECONDS
    for item in (*unsettled(known, seen, now), *more):
        item = replace(item, until=min(item.until, latest)) if is_ahead(item.until, latest) else item
        every[item.uid] = max(item, every.get(item.uid, item))
    return msgspec.json.encode(tuple(sorted(every.values()))).decode()


def unsettled(requests: Iterable[Reservation], seen: VersionOf, now: float) -> tuple[Reservation, ...]:
    """Return the reservations whose objects may still be stored."""
    return tuple(item for item in requests if item.until > now and (seen(item.uid) or -1) <= item.version)


def pending(nad: NetworkAttachmentDefinition, seen: VersionOf, now: float) -> tuple[Reservation, ...]:
    """Return requests whose objects may still be stored; where they can't be read, that there may be some."""
    try:
        return unsettled(reservations_of(nad), seen, now)
    except ValueError:
        return (Reservation("", 0, now + REQUEST_SECONDS, "requests that can't be read"),)


def closing(nad: NetworkAttachmentDefinition, seen: VersionOf, now: float) -> dict[str, str]:
    """Return the annotations of a NAD that drains: the mark, and pending requests if the present ones are not valid."""
    missing = {}
    if not nad.metadata.is_deleting and closed_since(nad) is None:
        missing[DRAINING] = rfc3339(now)
    if not _are_valid(nad, now):
        missing[ADMITTED] = with_reservations(nad, (), seen, now)
    return missing


def _are_valid(nad: NetworkAttachmentDefinition, now: float) -> bool:
    """Return whether the reservations can be read, and end in time: those of a clock that was set back since do not."""
    try:
        return not any(is_ahead(item.until, now + REQUEST_SECONDS) for item in reservations_of(nad))
    except ValueError:
        return False


def is_crowded(
    nad: NetworkAttachmentDefinition, namespace: str, more: int, seen: VersionOf, now: float
) -> bool:
    """Return whether a namespace has so many open requests that it must wait; `more` are about to be recorded."""
    try:
        known = unsettled(reservations_of(nad), seen, now)
    except ValueError:
        known = ()
    return more + sum(item.namespace == namespace for item in known) >= NAMESPACE_MAX
