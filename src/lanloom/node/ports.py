"""The ports of a host: what features may ask of links, of profile files and of NetworkManager.

`lanloom.node.netlink`, `lanloom.node.profiles` and `lanloom.node.networkmanager` are the adapters for a real host,
`tests.fakes` has a host in memory. One suite of contract tests runs on both.
"""

import errno
import os
from abc import ABCMeta, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import ClassVar, Literal, NamedTuple, Protocol

from msgspec import Struct, StructMeta

from lanloom.api.bonds import UNTUNED, BondSettings
from lanloom.node.errors import KernelUnsupported, LinkError
from lanloom.node.marks import MARK, is_unfinished_name, owner_of
from lanloom.node.vlanids import VlanIds

LOCAL_TABLE, MAIN_TABLE = 255, 254
"""The routing tables that every kernel has: of the host's own addresses, and of where everything else goes."""

BURST = 0.05
"""Seconds in which changes of links, or of profiles, are taken together: making one bridge is a dozen."""


class Route(NamedTuple):
    """An IP route: packets to `to`, a CIDR, go to the router `via`, or to neighbours on the link where it is empty.

    A route of `LOCAL_TABLE` makes the host take packets to an address of its own.
    """

    to: str
    table: int
    via: str = ""

    @property
    def version(self) -> int:
        """The IP version, 4 or 6."""
        return 6 if ":" in self.to else 4


class Link(Struct, frozen=True, kw_only=True):
    """A link of the host as one dump shows it.

    `kind` is the kernel's (bridge, bond, vlan, veth, …; empty for a plain NIC). `vlan_id` is that of a VLAN link of
    802.1Q, 0 for any other. `mtu` in bytes. `addresses` are CIDRs, IPv4 only. `vlans` are the ids that the link
    carries as a bridge port, `self_vlans` those of a bridge itself; id 1
    with PVID is included where the kernel has it. `operstate` is the kernel's word in capitals (UP, DOWN, …).
    `tx_queue_length` in packets. `tables` are the routing tables besides the main one whose default route of IPv4 goes
    out of it; `routes`, all routes out of a VLAN link, and empty for any other. Those of IPv6 are left out where it has
    no `addresses6`, and those of its link-local addresses always. `spanning_tree` and `ignores_routers` are of
    bridges: the latter takes no routes from IPv6's routers (accept_ra is 0, or there is no IPv6). `leads_away` is of a
    veth whose other end is in another network namespace.
    `follows_routers` is of bridges by which the host would take IPv6 routes and addresses now, and `link_local` of
    those that the kernel gives a link-local address by itself.
    `ipv4_strict` is of bridges on which the host takes part in IPv4 with the own addresses alone (rp_filter and
    arp_ignore are set, or there is no IPv4); `forwarding`, of those whose IPv4 packets it passes on to other links.
    `addresses6` are IPv6 CIDRs: of VLAN links, without those of the link itself, as far as no other host has the
    address; of other links those of them that were given for good; and of the bridge that a step is about, if it is
    isolated or has no mark, all. `tentative6` are those of VLAN links that wait for the answer of another host which
    may have them, too. `given` are the addresses of such a bridge that Lanloom gave it, of both IP versions; a kernel
    before 5.18 does not know which these are. A bridge or VLAN link that `promotes` keeps the other IPv4 addresses of a
    subnet when the first is removed. A VLAN link without `ipv6` takes no address of it: the kernel has none, it is
    disabled there, or the MTU is too small.
    `onlink` are the subnets of all IPv6 addresses, also of those that end some time, and, where an address is of no
    subnet (a lease of DHCPv6, a /32 of a cloud), those that a route without a router leads to.
    """

    name: str
    index: int
    kind: str = ""
    mac: str = ""
    mtu: int = 1500
    up: bool = False
    operstate: str = "UNKNOWN"
    master: str = ""
    parent: str = ""
    vlan_id: int = 0
    alias: str = ""
    addresses: tuple[str, ...] = ()
    vlan_filtering: bool = False
    bond_mode: str = ""
    bond_miimon: int = 0
    bond_settings: BondSettings = UNTUNED
    tx_queue_length: int = 0
    vlans: VlanIds = ()
    self_vlans: VlanIds = ()
    tables: tuple[int, ...] = ()
    routes: frozenset[Route] = frozenset()
    spanning_tree: bool = False
    ignores_routers: bool = False
    follows_routers: bool = False
    link_local: bool = False
    leads_away: bool = False
    ipv4_strict: bool = False
    forwarding: bool = False
    addresses6: tuple[str, ...] = ()
    tentative6: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    promotes: bool = False
    ipv6: bool = True
    onlink: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        """Whether Lanloom made this link for VLAN networks."""
        return self.alias == MARK

    @property
    def owner_uid(self) -> str:
        """The uid of the object that Lanloom made this bridge for; empty if there is none."""
        return owner_of(self.alias) if self.kind == "bridge" else ""

    @property
    def unfinished(self) -> bool:
        """Whether this is a bridge for an owner that was begun and has no mark yet; it can't be in use."""
        made = self.kind == "bridge" and not (self.alias or self.master or self.up)
        return made and is_unfinished_name(self.name)


class Rule(NamedTuple):
    """A routing rule: what is sent from `source` (a CIDR; empty for all) is looked up in `table`."""

    priority: int
    source: str
    table: int

    @property
    def version(self) -> int:
        """The IP version of the source, 4 or 6."""
        return 6 if ":" in self.source else 4


class IngressRule(NamedTuple):
    """A routing rule of IPv6 for packets that come in by `link` and are for others than the host.

    Those from `source` (a CIDR) are routed as the host's own; without a source, all that no other rule passes are
    dropped.
    """

    link: str
    source: str = ""


Lack6 = Literal["", "rules", "all"]
"""What a kernel lacks of IPv6: nothing, routing rules with the tables that they lead to, or all of it."""


class LinkState(Struct, frozen=True):
    """Every link of the host, by name, and its routing as far as links matter to it.

    `default_route_links` are the names of those that a default route of the main table goes out of; without any, the
    one that IPv6's goes out of. `rules` are all routing rules, of both IP versions. `forwards` are the IP versions, 4
    and 6, that the host forwards between all links, and `ingress` its rules of Lanloom's, None where the kernel has
    none of IPv6; both are known where the dump is of bridges alone. `lack6` is what the kernel lacks of IPv6.
    """

    links: Mapping[str, Link]
    default_route_links: frozenset[str] = frozenset()
    rules: frozenset[Rule] = frozenset()
    forwards: frozenset[int] = frozenset()
    ingress: frozenset[IngressRule] | None = None
    lack6: Lack6 = ""


class AbstractStructMeta(StructMeta, ABCMeta):
    """The metaclass of Structs with abstract methods: a type that lacks one can't be instantiated."""


class KernelStep(Struct, metaclass=AbstractStructMeta, frozen=True, kw_only=True):
    """A change of the kernel, in its own words. A subclass has its guard, which refuses before the kernel is asked.

    `unsupported` tells what a kernel lacks that has no such operation, with the way out; `rights`, what it needs.
    """

    unsupported: ClassVar[str] = ""
    rights: ClassVar[str] = "the right NET_ADMIN"

    @property
    @abstractmethod
    def title(self) -> str:
        """The action that failed, as the beginning of an error's message."""

    def remedy(self, code: int) -> str:
        """Return the end of an error's message for a number of the kernel's; empty where the reason says it all."""
        if code in (errno.EPERM, errno.EACCES):
            return f"; the agent needs {self.rights}"
        if code == errno.EOPNOTSUPP and self.unsupported:
            return f"; {self.unsupported}"
        return ""

    def refusal(self, error: OSError) -> LinkError:
        """Return the error for this step that the kernel refused, in the kernel's own words where it gave any."""
        code = error.errno or 0
        message = f"{self.title}: {error.strerror or os.strerror(code)}{self.remedy(code)}"
        unsupported = code == errno.EOPNOTSUPP and self.unsupported
        return KernelUnsupported(message) if unsupported else LinkError(message)


class LinkStep(KernelStep, frozen=True, kw_only=True):
    """A change of links of the host."""

    @property
    def inspects(self) -> str:
        """The bridge whose addresses the guard needs, if any."""
        return ""

    @abstractmethod
    def guard(self, links: Mapping[str, Link]) -> None:
        """Refuse what can't or must not be done to these links.

        Raises LinkMissing, LinkInUse, NotOurs or LinkError; the adapter and the fake refuse alike.
        """


class Links(Protocol):
    """The host's links, through one short-lived netlink socket per call."""

    async def dump(self) -> LinkState:
        """Return the state of the kernel, in as few dumps as it takes."""
        ...

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """Apply the steps in order; the first that fails raises LinkError and the rest is not tried."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield after links, VLAN ids, addresses, routes or rules changed, by whomever; a burst may be one.

        Also where the kernel could not deliver a change. Raises LinkError where changes can't be watched.
        """
        ...


class Profiles(Protocol):
    """The directory of NetworkManager's keyfile profiles, as far as Lanloom's own files in it go."""

    async def read(self) -> Mapping[str, bytes]:
        """Return file name → content of every profile file that carries Lanloom's mark; foreign files are not read."""
        ...

    async def write(self, name: str, content: bytes) -> None:
        """Write atomically with mode 0600: a hidden temporary name, fsync, rename, fsync of the directory.

        Raises ProfileError; the old content is whole then. A `name` with a slash, a leading dot or a suffix other than
        `.nmconnection` is refused, and so is the replacement of a file without Lanloom's mark.
        """
        ...

    async def remove(self, name: str) -> None:
        """Remove a file that carries Lanloom's mark; a missing file is no error."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield after a profile was written, renamed or removed in the directory, by whomever; a burst may be one.

        Raises ProfileError where the directory can't be watched, also when it goes away.
        """
        ...


class Records(Protocol):
    """Small files of the agent's own, which no one else reads or writes: what it must know after it died.

    A `name` is made of lower-case letters, digits and dashes.
    """

    async def read(self, name: str) -> bytes | None:
        """Return the content, or None for a record that is not there. Raises RecordError."""
        ...

    async def write(self, name: str, content: bytes) -> None:
        """Write a record atomically and durably, mode 0600. Raises RecordError; the old content is whole then."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a record; a missing one is no error. Raises RecordError."""
        ...

    async def names(self) -> tuple[str, ...]:
        """Return the names of all records, in order. Raises RecordError."""
        ...


class Lease(Struct, frozen=True, kw_only=True):
    """A DHCP lease: `address` is a CIDR, `expiry` in seconds since the epoch, 0 when unknown."""

    address: str = ""
    server: str = ""
    expiry: int = 0


ConnectionPhase = Literal["absent", "inactive", "activating", "active", "failed"]


class Connection(Struct, frozen=True, kw_only=True):
    """A connection profile as NetworkManager knows it.

    `phase` is absent where it did not load the file, inactive where it knows the profile but has no device for it.
    `addresses` are all of its device, those that other programs put there, too. `applied` says whether the active
    device runs the profile's present content (False: `reapply` is due).
    `leased6` is an address that a DHCPv6 server gave, without prefix length.
    `reason` is NetworkManager's word for why it failed last since it was activated on request (for example
    ip-config-unavailable).
    """

    uuid: str
    id: str = ""
    filename: str = ""
    phase: ConnectionPhase = "absent"
    device: str = ""
    addresses: tuple[str, ...] = ()
    method: str = ""
    lease: Lease | None = None
    reason: str = ""
    applied: bool = True
    leased6: str = ""


class NetworkManager(Protocol):
    """NetworkManager on the host. Every method raises NetworkManagerMissing when it can't be reached."""

    async def version(self) -> str:
        """Return NetworkManager's version, for example `1.42.4`."""
        ...

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """Return NetworkManager's state of each of these profiles; one entry per uuid."""
        ...

    async def load(self, names: tuple[str, ...]) -> None:
        """Make it read these files of the profile directory again, or forget those that are gone.

        A profile whose device was deleted activates by itself then, also if the file is unchanged. An invalid
        file is skipped without an error, as NetworkManager does: look at `connections` afterwards.
        """
        ...

    async def activate(self, uuid: str) -> None:
        """Bring the profile up, again if it is up; returns when activation began, not when it ended."""
        ...

    async def deactivate(self, uuid: str) -> None:
        """Take the profile down with the device that NetworkManager made for it; it stays so until `activate`.

        Returns when it began. A profile that is not active is no error.
        """
        ...

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """Apply the profile's present content to its active device in place. Addresses that others added stay.

        They go if the profile has addresses of IPv6, which NetworkManager gives again at each change of either family.

        With `restore`, what was removed of the applied content is put back too, and the addresses of others go:
        NetworkManager does either.

        Raises NetworkManagerError where the change can't be applied in place (`activate` then): a change of the VLAN,
        or a route of a table of its own that was changed or removed, which NetworkManager would leave behind.
        A device that is down stays down.
        """
        ...

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        """Make NetworkManager manage these links no more until the host reboots, and return when it has let go of them.

        Else it takes a link out of its bond at each attempt to activate a profile of others on it. Links that it does
        not know or manage are no error.
        """
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield after something about connections or devices changed; bursts may be one. Ends when it went away."""
        ...


class Host(Struct, frozen=True):
    """The ports of one host together. `state` survives a reboot of the host, `runtime` does not."""

    name: str
    links: Links
    profiles: Profiles
    network_manager: NetworkManager
    state: Records
    runtime: Records
