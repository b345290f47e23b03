"""What a NIC's requests are judged by: from the manager's stores, or read anew.

The stores lag behind the API server by the length of a watch. What they allow may be allowed, because the allocator
judges again; before a user is refused, or told that there is no network, the network and the NIC that is in the way are
read anew.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.api.meta import Key
from lanloom.ipam.manager import IpamInformers
from lanloom.ipam.rules.addresses import Address, find_address, find_addresses
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client


class Surroundings(Struct, frozen=True):
    """A network, None where there is none, and who holds addresses of it: those that were asked about."""

    network: Network | None = None
    holders: Mapping[Address, Key] = {}


class World(Protocol):
    """The cluster as far as it is known without asking."""

    def around(self, network: str, addresses: Collection[Address]) -> Surroundings:
        """A network, and who holds these addresses of it."""
        ...


class StoreWorld:
    """The cluster as the manager's informers see it. Who holds an address is kept up as NICs change."""

    def __init__(self, informers: IpamInformers) -> None:
        self._networks = informers.networks.store
        self._holders: defaultdict[str, dict[Address, Key]] = defaultdict(dict)
        informers.nics.on_change(self._nic_changed)

    def around(self, network: str, addresses: Collection[Address]) -> Surroundings:
        """A network, and who holds these addresses of it."""
        found, known = self._networks.get(Key("", network)), self._holders.get(network, {})
        held = {address: known[address] for address in addresses if address in known}
        return Surroundings(found, _granted(found, addresses) | held)

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        if old is not None and new is not None and _held(old) == _held(new):
            return
        for item in (old, new):
            if item is None:
                continue
            key, holders = item.metadata.key, self._holders[item.status.network]
            for address in find_addresses(item.status.ips):
                if item is new:
                    holders[address] = key
                elif holders.get(address) == key:
                    del holders[address]
            if not holders:
                del self._holders[item.status.network]


async def look_around(client: Client, network: str, known: Mapping[Address, Key]) -> Surroundings:
    """The network as the API server has it, and which of the known holders really hold their addresses.

    Raises KubeError.
    """
    found = await look_up(client, NETWORKS, Key("", network))
    held: dict[Address, Key] = {}
    for key in dict.fromkeys(known.values()):
        nic = await look_up(client, NICS, key)
        if nic is not None and nic.status.network == network:
            held |= {address: key for address in find_addresses(nic.status.ips) if known.get(address) == key}
    return Surroundings(found, _granted(found, known) | held)


def _granted(network: Network | None, addresses: Collection[Address]) -> dict[Address, Key]:
    """Which of the addresses are given to NICs whose statuses do not show them yet."""
    grants = network.status.grants if network is not None else ()
    every = ((find_address(text), Key(*grant.nic.split("/", 1))) for grant in grants for text in grant.ips)
    return {address: key for address, key in every if address is not None and address in addresses}


def _held(nic: Nic) -> tuple[str, tuple[str, ...]]:
    return nic.status.network, nic.status.ips
