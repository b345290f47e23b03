"""What the kernel has of a LAN, as one look shows it."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from lanloom.node.links import KernelLink


class PodLink(Struct, frozen=True, kw_only=True):
    """The far end of a port: a pod's interface.

    `addresses` are CIDRs, and `destinations` the networks to which the pod has routes; both are read of a port that is
    to have addresses only. `cookie` is the kernel's number of the pod's namespace.
    """

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    lower: int
    addresses: frozenset[str] = frozenset()
    destinations: frozenset[str] = frozenset()
    cookie: int = 0


class StaticEntry(NamedTuple):
    """Where a MAC address is for good: behind a `port` of the bridge, and, if that is the VXLAN link, at a `peer`."""

    port: str
    peer: str = ""


class Traffic(NamedTuple):
    """What passed a link since it was made: frames, bytes and dropped frames, received by the link and sent by it.

    `refused` are frames that options of its spoke dropped, by reason, for the options that it has.
    """

    frames: tuple[int, int]
    bytes: tuple[int, int]
    dropped: tuple[int, int]
    refused: tuple[tuple[str, int], ...] = ()


class HostVxlan(NamedTuple):
    """A VXLAN link of the host, which is not Lanloom's, and the UDP port that it receives at, by these IP versions.

    It shares the port with links that send no marks of frames, or, if it is `exclusive`, with none.
    """

    name: str
    port: int
    versions: frozenset[int]
    exclusive: bool = False


class Underlay(Struct, frozen=True, kw_only=True):
    """A link of the host that may carry VXLAN.

    `addresses` are IP addresses: IPv4 first, link-local ones last. Among those, the ones that came first and stay are
    before others. `vxlans` are the VXLAN links of the host that share no port with links that send marks of frames,
    whatever they stand on.

    One that is `running` is up, and its operational state says that frames can pass.
    """

    name: str
    index: int
    mtu: int
    running: bool = True
    addresses: tuple[str, ...] = ()
    vxlans: tuple[HostVxlan, ...] = ()


class FarPort(Struct, frozen=True):
    """The host's end of what joins a LAN to a bridge of the host. `lower` is the index of the end in the LAN.

    `vlan` is the VLAN in which it is untagged, alone of all, and 0 for one that is not like that. `drift` names
    settings of the port that were changed.
    """

    index: int
    lower: int
    master: int = 0
    mtu: int = 0
    mac: str = ""
    up: bool = False
    vlan: int = 0
    drift: frozenset[str] = frozenset()


class SeenHost(Struct, frozen=True):
    """A bridge of the host to which a LAN is joined: its index, 0 for none that can be joined, and the port.

    `problem` says what it lacks. `mtu` in bytes is that of a port which leaves the bridge as it is, 0 where it was not
    looked for. The host takes routes from IPv6's routers on a bridge that `accepts_routers`.
    """

    bridge: int = 0
    port: FarPort | None = None
    problem: str = ""
    mtu: int = 0
    accepts_routers: bool = False


class SeenLan(Struct, frozen=True, kw_only=True):
    """A LAN's part of the kernel.

    `exists`: its namespace is there; `bound`: by its name, too. `foreign` says what stands under that name instead.
    `sealed`: the namespace takes part in no IP. `flood` are the addresses to which frames for many receivers are sent.
    `ends` are far ends by the port's name, as far as they were looked for; None is one that is not there. `absent` are
    the ports whose pod's namespace is gone. `static_entries` are MAC addresses that stay where they are, if they were
    looked for; `packet_filter` and `port_filter` are the digests of the filters, empty without one that is whole.
    `filters` is false where the kernel was found to filter no frames of bridges. `storm_filter` is the digest of storm
    control, `storm_fault` why the kernel refused it, `stormed` how many frames it has dropped of ports, by name.
    `host` is the bridge of the host that the LAN is joined to. `learned` is how many MAC addresses the VXLAN link has
    learned to be at peers.
    """

    exists: bool = False
    bound: bool = False
    foreign: str = ""
    sealed: bool = False
    links: Mapping[str, KernelLink] = {}
    flood: frozenset[str] = frozenset()
    ends: Mapping[str, PodLink | None] = {}
    absent: frozenset[str] = frozenset()
    static_entries: Mapping[str, StaticEntry] = {}
    packet_filter: str = ""
    port_filter: str = ""
    storm_filter: str = ""
    storm_fault: str = ""
    stormed: Mapping[str, int] = {}
    filters: bool = True
    host: SeenHost = SeenHost()
    learned: int = 0
