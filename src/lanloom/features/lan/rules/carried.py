"""What a node carries of a LAN, as its agent records it before it changes the kernel.

The record outlives the API server's absence, the agent's death and a reboot. What makes a link is taken from it and
not from the LAN: a namespace or a bridge keeps the name under which it was made.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import DEFAULT_PORT, LAN, Mode, Replication, device_id
from lanloom.features.lan.rules.addressing import PodRoute

ALLOCATION_SECONDS = 600.0
"""How long a device that kubelet allocated is kept ready for a pod that has not come."""


class Place(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spoke in one mode on this node.

    `index` is that of the macvtap, kept for as long as the LAN is carried, because it names the device `/dev/tapN`; 0
    for veth. `allocated` is when kubelet allocated the device (seconds since the epoch), 0 if it did not or a pod came.
    The other fields are those of the attachment; `container` is empty without one. `addresses` and `routes` are what
    the interface gets whenever it is made.
    """

    spoke: str
    mode: Mode
    index: int = 0
    allocated: float = 0.0
    container: str = ""
    netns: str = ""
    interface: str = ""
    pod: str = ""
    network: str = ""
    mac: str = ""
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()

    @property
    def id(self) -> str:
        """The device's id, which is the name of the bridge port."""
        return device_id(self.spoke, self.mode)

    @property
    def attached(self) -> bool:
        """Whether a pod has it."""
        return bool(self.container)

    def is_used(self, now: float) -> bool:
        """Whether the LAN must be there for it."""
        # A clock that was set back must not keep an allocation for ever.
        return self.attached or (self.allocated > 0 and abs(now - self.allocated) < ALLOCATION_SECONDS)

    def free(self) -> "Place":
        """The place without its pod."""
        return Place(spoke=self.spoke, mode=self.mode, index=self.index, allocated=self.allocated)


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A LAN on this node: of its spec what links are made of, and the places that were ever used here.

    `device` is the underlay link; `group` the multicast group. `built` says that the kernel may have something of it.
    """

    uid: str
    namespace: str
    name: str
    ns: str
    bridge: str
    vxlan: str
    vni: int
    port: int = DEFAULT_PORT
    device: str = ""
    group: str = ""
    replication: Replication = "head-end"
    places: tuple[Place, ...] = ()
    built: bool = False

    @property
    def title(self) -> str:
        """The LAN, for messages."""
        return f"LAN {self.namespace}/{self.name}"

    def place(self, device: str) -> Place | None:
        """The place of a device's id."""
        return next((each for each in self.places if each.id == device), None)

    def used(self, now: float) -> tuple[Place, ...]:
        """The places for which the LAN must be there."""
        return tuple(each for each in self.places if each.is_used(now))

    def with_place(self, place: Place) -> "Carried":
        """The record with this place in the stead of what it had for the device; ordered."""
        others = [each for each in self.places if each.id != place.id]
        return replace(self, places=tuple(sorted([*others, place], key=lambda each: each.id)))


def carried(lan: LAN, node: str) -> Carried:
    """A LAN that this node begins to carry."""
    spec = lan.spec
    return Carried(
        uid=lan.metadata.uid,
        namespace=lan.metadata.namespace,
        name=lan.metadata.name,
        ns=spec.ns,
        bridge=spec.bridge,
        vxlan=spec.vxlan,
        vni=spec.vni,
        port=spec.vxlan_port,
        device=spec.underlay(node),
        group=spec.vxlan_grp,
        replication=spec.replication,
    )


def followed(record: Carried, lan: LAN, node: str) -> Carried:
    """The record after a look at its LAN.

    Names that links of pods depend on stay while anything is built; the VXLAN's own settings follow the LAN.
    """
    fresh = carried(lan, node)
    if not record.built:
        return replace(fresh, places=record.places)
    return replace(
        record,
        vni=fresh.vni,
        port=fresh.port,
        device=fresh.device,
        group=fresh.group,
        replication=fresh.replication,
    )


FIRST_INDEX, LAST_INDEX = 1 << 28, (1 << 31) - 2
"""Indices of macvtaps: far above those that the kernel gives, so that no `/dev/tapN` of others is met by chance."""


def choose_index(device: str, taken: Iterable[int]) -> int:
    """An index for a device that nothing on the node has.

    The search begins at a place that follows from the device, so that a lost record mostly leads to the same index.
    """
    occupied = set(taken)
    count = LAST_INDEX - FIRST_INDEX + 1
    start = _checksum(device) % count
    for offset in range(len(occupied) + 1):
        index = FIRST_INDEX + (start + offset) % count
        if index not in occupied:
            return index
    raise AssertionError("more indices are taken than there are")


def conflict(candidate: Carried, others: Iterable[Carried]) -> str:
    """Why a LAN can't be built beside those that this node carries; empty if it can."""
    for other in others:
        if other.uid == candidate.uid:
            continue
        if other.ns == candidate.ns:
            return (
                f"spec.ns {candidate.ns} is the network namespace of {other.title} on this node; give each LAN a "
                "name of its own"
            )
        if (other.vni, other.port) == (candidate.vni, candidate.port):
            return (
                f"spec.vni {candidate.vni} on port {candidate.port} is that of {other.title} on this node; give each "
                "LAN a VNI of its own"
            )
    return ""


def _checksum(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (value * 16777619 ^ byte) & 0xFFFFFFFF
    return value
