"""A link as one message of the kernel has it, in any network namespace: other links by index.

`lanloom.node.netlink.reader` reads it. The links of the host by name, with what several dumps show of them, are
`lanloom.node.ports.Link`.
"""

from typing import NamedTuple

from msgspec import Struct


class Vtep(NamedTuple):
    """What makes a VXLAN link: `device` is the index of its underlay link; `local` and `group` may be empty."""

    vni: int
    port: int
    device: int
    local: str
    group: str


class KernelLink(Struct, frozen=True, kw_only=True):
    """A link of one network namespace.

    `master` and `lower` are indices; `lower` is what it stands on, or the other end of a veth. `nsid` is the number of
    the namespace in which that is, None for the same one. One that is `running` is up, and frames can pass by its
    operational state. An `unfinished` one has a mark, which goes once all that belongs to it is made. `group` is the
    link's group.

    Of VXLAN links: `vtep`; `policy` (the mark of a frame goes along); `entry_limit`, how many forwarding entries it has
    at most, 0 for any number; one that is `external`, such as those of Open vSwitch and Cilium, takes the frames of all
    VNIs at its UDP port; `exclusive`: it shares its port with no link of a LAN.

    Of bridges: `snooping` (multicast is sent only to those who asked for it); `spanning` (the kernel runs a spanning
    tree); `filtering` by VLAN, with `default_pvid`; `learned_limit`, how many MAC addresses it learns, 0 for any
    number, None where the kernel knows no such limit; `learned`, how many it has, None where that is not known; whether
    it `accepts_routers`, by which the host takes routes of IPv6.

    Of ports of a bridge: `state` of spanning tree; `hairpin`; `group_forwarding`, the mask of reserved addresses whose
    frames pass; a `locked` port passes frames only from addresses that are known to be behind it, an `isolated` one
    none to other isolated ones.

    `drift` names other settings of a bridge, port or VXLAN link that were changed.
    """

    name: str
    index: int
    kind: str = ""
    mac: str = ""
    mtu: int = 1500
    up: bool = False
    running: bool = False
    unfinished: bool = False
    alias: str = ""
    master: int = 0
    lower: int = 0
    nsid: int | None = None
    group: int = 0
    vtep: Vtep | None = None
    policy: bool = False
    entry_limit: int = 0
    external: bool = False
    exclusive: bool = False
    snooping: bool = False
    spanning: bool = False
    filtering: bool = False
    default_pvid: int = 0
    learned_limit: int | None = None
    learned: int | None = None
    accepts_routers: bool = False
    state: int = 0
    hairpin: bool = False
    group_forwarding: int = 0
    locked: bool = False
    isolated: bool = False
    drift: frozenset[str] = frozenset()
