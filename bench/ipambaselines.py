"""What address management is measured against: other ways to find the lowest free address, in their plainest form."""

from ipaddress import IPv4Address, IPv4Network, ip_network

from bitarray import bitarray
from bitarray.util import ones, zeros


class StringPool:
    """An IPv4 pool as Ganeti keeps it: two bit strings, read and written as a whole for each change."""

    def __init__(self, cidr: str) -> None:
        self.network = IPv4Network(cidr)
        self.reservations = "0" * self.network.num_addresses
        self.external = "1" + "0" * (self.network.num_addresses - 2) + "1"

    def allocate(self) -> str:
        """Return the lowest free address: looked for at first, reserved when the operation is carried out."""
        taken = bitarray(self.reservations) | bitarray(self.external)
        address = str(self.network[taken.find(0)])
        self._reserve(address)
        return address

    def fill(self, count: int) -> None:
        """Reserves as many of the lowest addresses."""
        self.reservations = "1" * count + "0" * (self.network.num_addresses - count)

    def _reserve(self, address: str) -> None:
        reservations, external = bitarray(self.reservations), bitarray(self.external)
        index = int(IPv4Address(address)) - int(self.network.network_address)
        if reservations[index]:
            raise RuntimeError(f"{address} is already used")
        reservations[index] = 1
        self.reservations, self.external = reservations.to01(), external.to01()


class FlatBits:
    """One bit for each address, and a hint that nothing below it is free."""

    def __init__(self, size: int, *, full: bool = False) -> None:
        self.bits = ones(size) if full else zeros(size)
        self.hint = size if full else 0

    def take_lowest(self) -> int:
        """Return the lowest free number; there must be one."""
        found = self.bits.find(0, self.hint)
        self.bits[found] = 1
        self.hint = found + 1
        return found

    def free(self, number: int) -> None:
        """Give a number back."""
        self.bits[number] = 0
        self.hint = min(self.hint, number)


def plain_allocations(cidr: str, keys: list[str]) -> dict[int, tuple[str, str]]:
    """Return an address for each key, one after the other, with owner and text: a dict and `ipaddress`, and no more.

    Nothing is looked for, reserved or freed here, so an allocator in Python can hardly do with less.
    """
    network = ip_network(cidr)
    address, first = type(network.network_address), int(network.network_address)
    return {first + at: (key, str(address(first + at))) for at, key in enumerate(keys, 1)}


def scan(network: IPv4Network, used: set[IPv4Address]) -> IPv4Address:
    """Return the lowest address that is not used, by looking at one after the other."""
    return next(address for address in network if address not in used)
