"""Networks address by address: the oracle of the operations, made of sets and nothing clever.

Addresses, networks and their order are those of the standard library's `ipaddress`. Everything is done as the
specification says it, at whatever cost.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IP = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network


class NoError(Exception):
    """The operation is not possible (an error that says no)."""


def demand(condition: object) -> None:
    """Raise NoError unless it holds."""
    if not condition:
        raise NoError


def runs(addresses: set[IP]) -> list[set[IP]]:
    """The addresses as sets of neighbours, in order."""
    found: list[list[IP]] = []
    for address in sorted(addresses, key=int):
        if found and int(address) == int(found[-1][-1]) + 1:
            found[-1].append(address)
        else:
            found.append([address])
    return [set(run) for run in found]


@cache
def members(cidr: IPNetwork) -> tuple[IP, ...]:
    """Every address of a network."""
    return tuple(cidr)


@dataclass
class NaivePool:
    """A pool: its addresses."""

    addresses: set[IP]
    name: str = ""
    disabled: bool = False

    @property
    def first(self) -> int:
        """For the order of pools."""
        return min(map(int, self.addresses))


@dataclass
class NaiveSubnet:
    """A subnet: its addresses, and those that the administrator reserved."""

    cidr: IPNetwork
    gateway: IP | None = None
    dhcp: bool = False
    name: str = ""
    pools: list[NaivePool] = field(default_factory=list)
    external: set[IP] = field(default_factory=set)

    def copy(self) -> "NaiveSubnet":
        """Another one alike."""
        pools = [replace(pool, addresses=set(pool.addresses)) for pool in self.pools]
        return replace(self, pools=pools, external=set(self.external))

    @property
    def addresses(self) -> set[IP]:
        """Every address."""
        return set(members(self.cidr))

    @property
    def edges(self) -> set[IP]:
        """Those that no host has."""
        if self.cidr.version == 4:
            return {self.cidr[0], self.cidr[-1]} if self.cidr.prefixlen <= 30 else set()
        return {self.cidr[0]} if self.cidr.prefixlen <= 126 else set()

    @property
    def automatic(self) -> set[IP]:
        """Those that are reserved of themselves."""
        return self.edges | ({self.gateway} if self.gateway else set())


@dataclass
class NaiveNetwork:
    """A network, and which addresses NICs own."""

    subnets: list[NaiveSubnet] = field(default_factory=list)
    owners: dict[IP, str] = field(default_factory=dict)

    def copy(self) -> "NaiveNetwork":
        """Another one alike."""
        return NaiveNetwork([one.copy() for one in self.subnets], dict(self.owners))

    def subnet(self, ident: str) -> NaiveSubnet:
        """By name or CIDR."""
        found = [one for one in self.subnets if one.name == ident or str(one.cidr) == ident]
        demand(found)
        return found[0]

    def pool(self, ident: str | set[IP]) -> NaivePool:
        """By name or addresses."""
        pools = [pool for one in self.subnets for pool in one.pools]
        found = [pool for pool in pools if ident in (pool.name, pool.addresses)]
        demand(len(found) == 1)
        return found[0]

    def check(self, subnet: NaiveSubnet) -> None:
        """What must hold of a subnet among the others."""
        for other in self.subnets:
            if other is not subnet:
                demand(not subnet.addresses & other.addresses)
                demand(not subnet.name or subnet.name != other.name)
                demand(not (subnet.dhcp and other.dhcp and subnet.cidr.version == other.cidr.version))
        if subnet.gateway:
            demand(subnet.gateway in subnet.addresses - subnet.edges)

    def add_subnet(self, cidr: IPNetwork, gateway: IP | None, dhcp: bool, name: str, pool: bool) -> None:
        """`--subnet add:`."""
        subnet = NaiveSubnet(cidr, gateway, dhcp, name)
        subnet.pools = [NaivePool(subnet.addresses)] if pool else []
        self.check(subnet)
        demand(gateway not in self.owners)
        self.subnets.append(subnet)

    def modify_subnet(self, ident: str, **changes: object) -> None:
        """`--subnet IDENT:modify`."""
        subnet = self.subnet(ident)
        before = subnet.copy()
        for key, value in changes.items():
            setattr(subnet, key, value)
        demand(subnet.cidr.version == before.cidr.version)
        self.check(subnet)
        cut = before.addresses - subnet.addresses
        demand(not cut & set(self.owners))
        demand(not cut & subnet.external - before.edges)
        if (subnet.cidr, subnet.gateway) != (before.cidr, before.gateway):
            demand(subnet.gateway not in self.owners)
        for pool in subnet.pools:
            pool.addresses &= subnet.addresses
        subnet.pools = [pool for pool in subnet.pools if pool.addresses]
        subnet.external &= subnet.addresses

    def remove_subnet(self, ident: str) -> None:
        """`--subnet IDENT:remove`."""
        subnet = self.subnet(ident)
        demand(not subnet.addresses & set(self.owners))
        self.subnets.remove(subnet)

    def add_pool(self, addresses: set[IP] | str, name: str, disabled: bool) -> None:
        """`--pool add:`."""
        wanted = self.subnet(addresses).addresses if isinstance(addresses, str) else addresses
        around = [one for one in self.subnets if wanted <= one.addresses]
        demand(around)
        demand(not any(wanted & pool.addresses for pool in around[0].pools))
        around[0].pools.append(NaivePool(wanted, name, disabled))
        around[0].pools.sort(key=lambda pool: pool.first)

    def modify_pool(self, ident: str | set[IP], **changes: object) -> None:
        """`--pool IDENT:modify`."""
        pool = self.pool(ident)
        for key, value in changes.items():
            setattr(pool, key, value)

    def remove_pool(self, ident: str | set[IP]) -> None:
        """`--pool remove:`."""
        cut = self.pool(ident).addresses if isinstance(ident, str) else ident
        demand(any(cut & pool.addresses for one in self.subnets for pool in one.pools))
        for subnet in self.subnets:
            subnet.pools = [
                NaivePool(run, pool.name, pool.disabled)
                for pool in subnet.pools
                for run in runs(pool.addresses - cut)
            ]

    def add_reserved(self, addresses: set[IP]) -> None:
        """`--add-reserved-ips`."""
        around = [one for one in self.subnets if addresses <= one.addresses]
        demand(around)
        around[0].external |= addresses

    def remove_reserved(self, addresses: set[IP]) -> None:
        """`--remove-reserved-ips`."""
        around = [one for one in self.subnets if addresses <= one.addresses]
        demand(around)
        demand(not addresses & around[0].automatic)
        around[0].external -= addresses

    def next_free(self, name: str = "", version: int | None = None) -> IP | None:
        """What `ip=pool`, `pool4`, `pool6` or the name of pools gets."""
        for subnet in self.subnets:
            for pool in subnet.pools if version in (None, subnet.cidr.version) else ():
                if pool.disabled or (name and pool.name != name):
                    continue
                if free := pool.addresses - subnet.external - subnet.automatic - set(self.owners):
                    return min(free, key=int)
        return None


Picture = list[tuple[object, ...]]


def picture(network: NaiveNetwork) -> Picture:
    """A network in a form that can be compared."""
    return [
        (
            str(one.cidr),
            str(one.gateway or ""),
            one.dhcp,
            one.name,
            [(sorted(map(int, pool.addresses)), pool.name, pool.disabled) for pool in one.pools],
            sorted(map(int, one.external)),
        )
        for one in network.subnets
    ]
