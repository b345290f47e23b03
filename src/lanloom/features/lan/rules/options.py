"""Options of a LAN and of its spokes: which values there are, what holds for one spoke, and how they are enforced.

Port security is enforced by the bridge: a locked port passes frames only from addresses that are known to be behind it.
Isolation is enforced by the bridge within a node and by a mark between nodes: the VXLAN link sends the mark of a frame
along (the group policy extension), and a packet filter gives it to frames of isolated spokes, and drops frames that
have it before isolated ports. The number of addresses is limited by the bridge for the LAN, and by the packet filter
for a spoke.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from lanloom.api.lan import STORM_DEFAULT, LANSpec, SpokeOptions, StormControl
from lanloom.node.links import KernelLink
from lanloom.text import listed, quote

LIMIT_MAX = 65_535
"""The largest number of MAC addresses that can be asked for."""

LEARNED_DEFAULT = LIMIT_MAX
"""How many MAC addresses a node learns of a LAN that asks for no number."""

STORM_MAX = 10_000_000
"""The largest number of frames in a second that storm control accepts."""

MTU_MIN, MTU_MAX = 68, 65_535

ISOLATED_GROUP = 0x1A41
"""The group of links that the ports of isolated spokes are in, by which the packet filter knows them."""

ISOLATED_MARK = 0x4C4C
"""The mark of frames from isolated spokes, within a node and in VXLAN's header."""

UNENFORCED = "not enforced here:"
"""What a node's message begins with where it can't do what an option says, and frames pass all the same."""


class PortOptions(Struct, frozen=True, kw_only=True):
    """What holds for the port of a spoke. `limit` is a number of MAC addresses, `mtu` in bytes; 0 for neither."""

    secured: bool = False
    isolated: bool = False
    limit: int = 0
    mtu: int = 0


class PortFlags(NamedTuple):
    """Flags of a bridge port: a locked one passes frames only from pinned addresses, an isolated one none to others."""

    locked: bool = False
    isolated: bool = False

    def are_set(self, port: KernelLink) -> bool:
        """Return whether a port has these flags; its group belongs to isolation."""
        grouped = port.group == ISOLATED_GROUP
        return (port.locked, port.isolated, grouped) == (self.locked, self.isolated, self.isolated)


UNFLAGGED = PortFlags()


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node records of a LAN's options."""

    port_security: bool = False
    max_learned_macs: int = 0
    mtu: int = 0
    storm_control: StormControl | None = None
    spokes: dict[str, SpokeOptions] = {}

    @property
    def storm_rate(self) -> int:
        """How many frames for many or unknown receivers pass from each port in a second, 0 for any number."""
        return self.storm_control.packets_per_second if self.storm_control is not None else STORM_DEFAULT

    @property
    def learned_limit(self) -> int:
        """How many MAC addresses each node learns."""
        return self.max_learned_macs or LEARNED_DEFAULT

    @property
    def isolates(self) -> bool:
        """Whether some spoke is isolated, on whatever node."""
        return any(each.isolated for each in self.spokes.values())

    @property
    def is_open(self) -> bool:
        """Whether some spoke may send from the addresses of others. Stations outside of the LAN always may."""
        return not self.port_security or any(each.port_security is False for each in self.spokes.values())

    def port(self, spoke: str) -> PortOptions:
        """Return what holds for a spoke."""
        own = self.spokes.get(spoke, _PLAIN)
        secured = self.port_security if own.port_security is None else own.port_security
        mtus = [mtu for mtu in (self.mtu, own.mtu) if mtu]
        return PortOptions(
            secured=secured,
            isolated=own.isolated,
            limit=0 if secured else own.max_learned_macs,
            mtu=min(mtus, default=0),
        )


_PLAIN = SpokeOptions()


def options_of(spec: LANSpec) -> Options:
    """Return what a node records."""
    return Options(
        port_security=spec.port_security,
        max_learned_macs=spec.max_learned_macs,
        mtu=spec.mtu,
        storm_control=spec.storm_control,
        spokes={name: each for name, each in spec.spoke_options.items() if each != _PLAIN},
    )


def entry_limit(options: Options, spokes: int) -> int:
    """Return how many forwarding entries the VXLAN link of a LAN with so many spokes has.

    Those that are learned, one for frames to many receivers, and one for each spoke, as port security may pin it.
    """
    return options.learned_limit + 1 + spokes


class PacketFilter(Struct, frozen=True, kw_only=True):
    """The packet filter of a LAN's namespace. `limits` are numbers of source addresses by port.


    With `isolates` frames are marked that come from isolated ports, and dropped before such ports if they have the
    mark; those from the link `vxlan` have it from their sender.
    """

    isolates: bool = False
    vxlan: str = ""
    limits: Mapping[str, int] = {}

    @property
    def digest(self) -> str:
        """What tells it from another one."""
        return _digest((self.isolates, self.vxlan, sorted(self.limits.items())))


class PortFilter(Struct, frozen=True, kw_only=True):
    """What is checked and counted at single ports. It has no state but counters, so it may be replaced at any time.

    `sources` are the only source addresses of ports. `guarded` are addresses of secured machines that migrate, with
    the port of this node that has the address, or none: nothing else of this node sends from them, but the link `vxlan`
    brings frames from them. `isolated` are ports whose frames from isolated spokes elsewhere are counted as they are
    dropped. It is `needed` where nothing else checks a source; otherwise a kernel without packet filters does without.
    """

    sources: Mapping[str, str] = {}
    guarded: Mapping[str, str] = {}
    isolated: tuple[str, ...] = ()
    vxlan: str = ""
    needed: bool = False

    @property
    def digest(self) -> str:
        """What tells it from another one."""
        guarded = sorted(self.guarded.items())
        return _digest((sorted(self.sources.items()), guarded, self.isolated, self.vxlan))


class StormFilter(Struct, frozen=True, kw_only=True):
    """The storm control of a LAN's namespace: so many frames in a second for many or unknown receivers pass from each
    port but the link `vxlan`, whose frames other nodes have let pass.

    It knows receivers by what they send, as the bridge does. It names no port, so it stays when pods come and go.
    """

    rate: int
    vxlan: str

    @property
    def digest(self) -> str:
        """What tells it from another one."""
        return _digest((self.rate, self.vxlan))


def _digest(found: object) -> str:
    return blake2b(f"2 {found}".encode(), digest_size=8).hexdigest()


PORT_SECURITY, MAC_LIMIT, ISOLATION, STORM_CONTROL = (
    "port-security",
    "mac-limit",
    "isolation",
    "storm-control",
)
"""Why a spoke's frames are dropped, or those for it: as metrics and comments of the packet filter say."""


def option_faults(spec: LANSpec) -> Iterator[str]:
    """Yield what is wrong with the options, each with its field and the remedy."""
    yield from _number_faults("spec", spec.max_learned_macs, spec.mtu)
    rate = spec.storm_control.packets_per_second if spec.storm_control is not None else 0
    if not 0 <= rate <= STORM_MAX:
        yield (
            f"spec.stormControl.packetsPerSecond is {rate}; it must be from 1 to {STORM_MAX}, or 0 for any number"
        )
    unknown = sorted(spec.spoke_options.keys() - frozenset(spec.spokes))
    if unknown:
        yield (
            f"spec.spokeOptions names {listed(map(quote, unknown))}, which spec.spokes does not have; add the spoke "
            "there, or leave its options out"
        )
    wrong = [
        fault
        for name, own in sorted(spec.spoke_options.items())
        for fault in _spoke_faults(f"spec.spokeOptions[{quote(name)}]", own, spec)
    ]
    if wrong:
        yield listed(wrong, 3)


def _spoke_faults(field: str, own: SpokeOptions, spec: LANSpec) -> Iterator[str]:
    yield from _number_faults(field, own.max_learned_macs, own.mtu)
    if spec.mtu and own.mtu > spec.mtu:
        yield f"{field}.mtu is {own.mtu}, and spec.mtu is {spec.mtu}; ask for at most that"
    secured = spec.port_security if own.port_security is None else own.port_security
    if secured and own.max_learned_macs:
        yield (
            f"{field}.maxLearnedMacs is {own.max_learned_macs}, but with port security the spoke has exactly one MAC "
            "address; leave one of them out"
        )


def _number_faults(field: str, limit: int, mtu: int) -> Iterator[str]:
    if not 0 <= limit <= LIMIT_MAX:
        yield (
            f"{field}.maxLearnedMacs is {limit}; it must be from 1 to {LIMIT_MAX}; leave it out for the default"
        )
    if mtu and not MTU_MIN <= mtu <= MTU_MAX:
        yield f"{field}.mtu is {mtu}; it must be from {MTU_MIN} to {MTU_MAX} bytes, or 0 for what fits"
