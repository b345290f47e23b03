"""Networks and NICs as values: what an administrator configured, without who owns what (`ledger`).

Which subnets of two networks are the same is decided here, too (`pairs_of`).

Values are made by the operations of this folder, which check them (`change`), or of objects, which webhooks check
(`validate`); what must hold of each is in `invariants`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Address, Cidr, IPRange, Version, format_address, merge


class Pool(Struct, frozen=True, kw_only=True):
    """Addresses that NICs get automatically. The name is a label that several pools may share.

    A `disabled` pool hands out nothing; what it has given stays given.
    """

    range: IPRange
    name: str = ""
    disabled: bool = False


class Subnet(Struct, frozen=True, kw_only=True):
    """The L3 side of a network: a CIDR with its pools.

    `pools` are ordered by address. `external` are the administrator's own reserved ranges, ordered and merged; what is
    reserved of itself (edges and gateway) is not among them but in `automatic`. `dhcp` and
    `lease_seconds` mean nothing to the allocator.
    """

    uuid: str
    cidr: Cidr
    gateway: Address | None = None
    dhcp: bool = False
    lease_seconds: int = 0
    name: str = ""
    pools: tuple[Pool, ...] = ()
    external: tuple[IPRange, ...] = ()

    @property
    def edges(self) -> tuple[Address, ...]:
        """The addresses that no host has.

        Network and broadcast (IPv4 up to /30), or the subnet-router anycast address (IPv6 up to /126, RFC 4291).
        """
        every = self.cidr.range
        if self.cidr.length > self.cidr.bits - 2:
            return ()
        return (every.first, every.last) if self.cidr.version == 4 else (every.first,)

    @property
    def automatic(self) -> tuple[Address, ...]:
        """The addresses that are externally reserved of themselves: the edges and the gateway, in order."""
        gateway = () if self.gateway is None else (self.gateway,)
        return tuple(sorted({*self.edges, *gateway}))

    @property
    def reserved(self) -> tuple[IPRange, ...]:
        """Every externally reserved address: the administrator's and the automatic ones."""
        return merge((*self.external, *(IPRange(address, address) for address in self.automatic)))

    def title(self) -> str:
        """Return the subnet in a message."""
        return f"subnet {self.cidr}" + (f" ({self.name})" if self.name else "")


class Connection(Struct, frozen=True, kw_only=True):
    """The L2 side of a network for a node group: how its NICs are connected there, inherited by each of them.

    `mode` is bridged, routed or openvswitch; `link` is what they are connected to; `vlan` is empty, a VLAN id,
    or trunks as Open vSwitch has them (`general.check_vlan`).
    """

    group: str
    mode: str
    link: str
    vlan: str = ""


class Network(Struct, frozen=True, kw_only=True):
    """A network: a name, and as many subnets as wanted, none for one that is L2 only.

    `id` is what NICs refer to, and never changes; `name` is what users call it. `namespaces` and `quota` say who may
    take addresses, and how many; `force_namespaces`, who may take reserved ones by force; `sticky_for`, whose are kept
    for their names.
    """

    id: str
    name: str
    uuid: str = ""
    mac_prefix: str = ""
    tags: tuple[str, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    connections: tuple[Connection, ...] = ()
    namespaces: tuple[str, ...] = ()
    quota: Mapping[str, int] = {}
    force_namespaces: tuple[str, ...] = ()
    sticky_for: Mapping[str, str] = {}

    def subnet_of(self, address: Address) -> Subnet | None:
        """Return the subnet that contains an address."""
        return next((subnet for subnet in self.subnets if address in subnet.cidr.range), None)

    def first_subnet(self, version: Version) -> Subnet | None:
        """Return the first subnet of an IP version: the only one that Ganeti's networks could have."""
        return next((subnet for subnet in self.subnets if subnet.cidr.version == version), None)

    def pools(self, name: str = "", version: Version | None = None) -> Iterator[Pool]:
        """Yield the pools in the order in which they are tried.

        The order is that in which subnets were added, and in each that of addresses.
        """
        for subnet in self.subnets:
            if version is None or subnet.cidr.version == version:
                yield from (pool for pool in subnet.pools if not name or pool.name == name)


Pair = tuple[Subnet | None, Subnet | None]


def with_uuids(known: Iterable[Subnet], new: Network, derive: Callable[[Subnet, int], str]) -> Network:
    """Return the network with a UUID for each subnet that has none.

    It is that of the known subnet with the same CIDR, else with the same name, else a derived one: so a manifest
    without UUIDs can be applied again and again, and can resize a subnet that has a name. `derive` makes the UUID of a
    subnet at an attempt from 0; another attempt is made where it is taken.
    """
    if all(subnet.uuid for subnet in new.subnets):
        return new
    kept = {id(after): before.uuid for before, after in pairs_of(known, new.subnets) if before}
    held = {subnet.uuid or kept.get(id(subnet), "") for subnet in new.subnets}
    filled = []
    for subnet in new.subnets:
        uuid = subnet.uuid or kept.get(id(subnet), "")
        if not uuid:
            uuid = next(one for attempt in count() if (one := derive(subnet, attempt)) not in held)
            held.add(uuid)
        filled.append(replace(subnet, uuid=uuid))
    return replace(new, subnets=tuple(filled))


def pairs_of(old: Iterable[Subnet], new: Iterable[Subnet]) -> list[Pair]:
    """Return each subnet of both networks once, with the same one of the other network, if there is one."""
    before, after, pairs = list(old), list(new), list[Pair]()
    for key in (_uuid, _cidr, _name):
        known = {key(one): one for one in before if key(one)}
        for subnet in after:
            found = known.get(key(subnet))
            if found and (key is _uuid or not (found.uuid and subnet.uuid)):
                pairs.append((known.pop(key(subnet)), subnet))
        paired = {id(subnet) for pair in pairs for subnet in pair}
        before = [subnet for subnet in before if id(subnet) not in paired]
        after = [subnet for subnet in after if id(subnet) not in paired]
    return [*pairs, *((subnet, None) for subnet in before), *((None, subnet) for subnet in after)]


def _uuid(subnet: Subnet) -> str:
    return subnet.uuid.lower()


def _cidr(subnet: Subnet) -> Cidr:
    return subnet.cidr


def _name(subnet: Subnet) -> str:
    return subnet.name


class Owner(Struct, frozen=True, kw_only=True, order=True):
    """The owner of a NIC: an instance, a virtual machine, a pod or a node. `namespace` is empty for a node."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


class Nic(Struct, frozen=True, kw_only=True):
    """A NIC and the addresses that it owns, all of them in one network.

    `key` tells NICs apart (`namespace/name` of the object). `network` is a network's `id`, empty for none.
    """

    key: str
    owner: Owner
    index: int = 0
    name: str = ""
    uuid: str = ""
    network: str = ""
    ips: tuple[Address, ...] = ()
    mac: str = ""
    mode: str = ""
    link: str = ""
    vlan: str = ""

    @property
    def ip(self) -> str:
        """The first address as text, empty for none: what Ganeti's NICs had."""
        return format_address(self.ips[0]) if self.ips else ""


NEARLY_FULL = 80
"""Per cent of a pool from which on it is nearly full."""


class Usage(Struct, frozen=True, kw_only=True):
    """How full a pool is. `used` are owned by NICs; `reserved` are externally reserved and not used."""

    size: int
    used: int
    reserved: int

    @property
    def taken(self) -> int:
        """Addresses that are not available."""
        return self.used + self.reserved

    @property
    def free(self) -> int:
        """Addresses that are available."""
        return self.size - self.taken

    @property
    def percent(self) -> int:
        """The share that can't be given away any more, rounded down; 0 where there is nothing at all."""
        return self.taken * 100 // self.size if self.size else 0


def total(each: Iterable[Usage]) -> Usage:
    """Return how full several pools are together."""
    known = tuple(each)
    return Usage(
        size=sum(item.size for item in known),
        used=sum(item.used for item in known),
        reserved=sum(item.reserved for item in known),
    )
