"""What the kernel has of a LAN, as one look shows it."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct


class Vtep(NamedTuple):
    """What makes a VXLAN link: `device` is the index of its underlay link; `local` and `group` may be empty."""

    vni: int
    port: int
    device: int
    local: str
    group: str


class LanLink(Struct, frozen=True, kw_only=True):
    """A link in a LAN's namespace.

    `master` and `lower` are indices; `lower` is the other end of a veth, which is in another namespace if `away`.
    `forwarding` is the mask of reserved addresses whose frames a bridge port lets pass; `snooping`, of bridges, whether
    multicast is sent only to those who asked for it.
    """

    name: str
    index: int
    kind: str = ""
    mac: str = ""
    mtu: int = 1500
    up: bool = False
    alias: str = ""
    master: int = 0
    lower: int = 0
    away: bool = False
    vtep: Vtep | None = None
    forwarding: int = 0
    snooping: bool = False


class PodLink(Struct, frozen=True, kw_only=True):
    """The far end of a port: a pod's interface, or a macvtap that still waits in the host's namespace.

    `addresses` are CIDRs, and `destinations` the networks to which the pod has routes; both are read of a port that is
    to have addresses only.
    """

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    lower: int
    in_pod: bool
    addresses: frozenset[str] = frozenset()
    destinations: frozenset[str] = frozenset()


class Traffic(NamedTuple):
    """What passed a link since it was made: frames, bytes and dropped frames, received by the link and sent by it."""

    frames: tuple[int, int]
    bytes: tuple[int, int]
    dropped: tuple[int, int]


class Underlay(Struct, frozen=True, kw_only=True):
    """A link of the host that may carry VXLAN. `addresses` are IP addresses: IPv4 first, link-local ones last."""

    name: str
    index: int
    mtu: int
    addresses: tuple[str, ...] = ()


class SeenLan(Struct, frozen=True, kw_only=True):
    """A LAN's part of the kernel.

    `exists`: its namespace is there; `bound`: by its name, too. `foreign` says what stands under that name instead.
    `sealed`: the namespace takes part in no IP. `flood` are the addresses to which frames for many receivers are sent.
    `ends` are far ends by the port's name, as far as they were looked for; None is one that is not there. `absent` are
    the ports whose pod's namespace is gone.
    """

    exists: bool = False
    bound: bool = False
    foreign: str = ""
    sealed: bool = False
    links: Mapping[str, LanLink] = {}
    flood: frozenset[str] = frozenset()
    ends: Mapping[str, PodLink | None] = {}
    absent: frozenset[str] = frozenset()
