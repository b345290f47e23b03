"""The networks and NICs of a cluster as the manager and its webhooks read them: shared informers, and live reads.

The stores lag behind the API server by the length of a watch. An admission that they allow is allowed, because the
allocator decides again. Before a refusal, or a warning about a missing network, the network and the conflicting NIC are
read live.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, NICS, Grant, Network, Nic
from lanloom.api.meta import Key
from lanloom.features.ipam.rules.addresses import Address, find_address, find_addresses
from lanloom.features.ipam.state import is_open, owner_of
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client

BY_NETWORK = "network"
"""The index of the store of NICs: the network that they ask for, and the one that their addresses are of.

Empty for a NIC that has neither.
"""

BY_OWNER = "owner"
"""The index of the store of NICs: their owner as text (`Owner.__str__`)."""

BY_MAC = "mac"
"""The index of the store of NICs: the MAC address of those that state one, in lower case."""

BY_GRANT = "grant"
"""The index of the store of networks: the NICs (`namespace/name`) that they have granted addresses to."""


class IpamInformers(InformerView, frozen=True):
    """The informers of address management."""

    networks: Informer[Network]
    nics: Informer[Nic]


def ipam_informers(informers: Informers) -> IpamInformers:
    """Return the informers, with their indexes."""
    return IpamInformers(
        networks=informers.get(
            NETWORKS,
            indexes={BY_GRANT: lambda item: {grant.nic for grant in item.status.grants}},
        ),
        nics=informers.get(
            NICS,
            indexes={BY_NETWORK: networks_of, BY_OWNER: lambda item: (str(owner_of(item)),), BY_MAC: _mac_of},
        ),
    )


def networks_of(item: Nic) -> tuple[str, ...]:
    """Return the networks that have to do with a NIC: the one that it asks for, and the one of its addresses."""
    return networks_among(item.spec.network, item.status.network)


def networks_among(asked: str, owned: str) -> tuple[str, ...]:
    """Return the networks that have to do with a NIC that asks for the one and has addresses of the other."""
    if owned in ("", asked):
        return (asked,)
    return (asked, owned) if asked else (owned,)


class NetworkContext(Struct, frozen=True):
    """A network, None where there is none, and the NICs that hold the addresses that were asked about.

    `other_holders` are NICs of other networks on its wires that hold some of them, with the network. `used` is how many
    addresses of it the NICs of one namespace have; it counts where the network has a quota. `same_mac` are the NICs on
    it with the MAC address that was asked about.
    """

    network: Network | None = None
    holders: Mapping[Address, Key] = {}
    used: int = 0
    other_holders: Mapping[Address, tuple[str, Key]] = {}
    same_mac: tuple[Key, ...] = ()


CachedContext = Callable[[str, str, Collection[Address], str], NetworkContext]
"""Gives the context of a network, a namespace, some addresses and a MAC address, as far as it is known without asking.
"""


class AddressReader:
    """Read contexts from the manager's informers; keep up the holders of addresses as NICs change."""

    def __init__(self, informers: IpamInformers) -> None:
        self._networks = informers.networks.store
        self._nics = informers.nics.store
        self._holders: defaultdict[str, dict[Address, Key]] = defaultdict(dict)
        self._used: Counter[tuple[str, str]] = Counter()
        informers.nics.on_change(self._nic_changed)

    def context(
        self, network: str, namespace: str, addresses: Collection[Address], mac: str = ""
    ) -> NetworkContext:
        """Return a network, the NICs that hold these addresses or the MAC address, and how many the namespace has."""
        found, known = self._networks.get(Key("", network)), self._holders.get(network, {})
        held = {address: known[address] for address in addresses if address in known}
        other_holders = {
            address: (peer, theirs[address])
            for peer in (found.status.shared_with if found is not None else ())
            if (theirs := self._holders.get(peer))
            for address in addresses
            if address in theirs
        }
        used = self._used[network, namespace]
        macs = self._nics.by(BY_MAC, mac.lower()) if mac else ()
        same_mac = tuple(item.metadata.key for item in macs if item.spec.network == network)
        return NetworkContext(found, _granted(found, addresses) | held, used, other_holders, same_mac)

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        if old is not None and new is not None and _held(old) == _held(new):
            return
        for item in (old, new):
            if item is None:
                continue
            key, holders = item.metadata.key, self._holders[item.status.network]
            place = (item.status.network, key.namespace)
            self._used[place] += len(item.status.ips) if item is new else -len(item.status.ips)
            if not self._used[place]:
                del self._used[place]
            for address in find_addresses(item.status.ips):
                if item is new:
                    holders[address] = key
                elif holders.get(address) == key:
                    del holders[address]
            if not holders:
                del self._holders[item.status.network]


async def read_context(
    client: Client, network: str, namespace: str, cached: NetworkContext
) -> NetworkContext:
    """Return the network as the API server has it, the NICs that hold known addresses, and the namespace's share.

    `cached` is what was known before. The network is read first: a grant leaves it only after the NIC shows the
    addresses. Raises KubeError.
    """
    known = cached.holders
    found = await get_or_none(client, NETWORKS, Key("", network))
    granted, held = _granted(found, known), dict[Address, Key]()
    grants = {Key(*grant.nic.split("/", 1)): grant for grant in _grants(found)}
    for key in dict.fromkeys((*known.values(), *granted.values())):
        nic = await get_or_none(client, NICS, key)
        if nic is not None and nic.status.network == network:
            held |= {address: key for address in find_addresses(nic.status.ips) if known.get(address) == key}
        if key in grants and not is_open(grants[key], nic, network):
            granted = {address: other for address, other in granted.items() if other != key}
    used = await _used(client, network, namespace) if found is not None and found.spec.quota else 0
    others = await _other_holders(client, found, cached)
    return NetworkContext(found, granted | held, used, others, cached.same_mac)


async def _other_holders(
    client: Client, network: Network | None, cached: NetworkContext
) -> dict[Address, tuple[str, Key]]:
    """Return which NICs of other networks still hold what was known, where the two still share a wire."""
    found = {}
    for address, (peer, key) in cached.other_holders.items():
        nic = await get_or_none(client, NICS, key)
        still = nic is not None and nic.status.network == peer and address in find_addresses(nic.status.ips)
        if still and network is not None and peer in network.status.shared_with:
            found[address] = (peer, key)
    return found


async def _used(client: Client, network: str, namespace: str) -> int:
    nics = (await client.list(NICS, namespace)).items
    return sum(len(nic.status.ips) for nic in nics if nic.status.network == network)


def _granted(network: Network | None, addresses: Collection[Address]) -> dict[Address, Key]:
    """Return which of the addresses are granted to NICs, whether their statuses show them or not."""
    every = (
        (find_address(text), Key(*grant.nic.split("/", 1)))
        for grant in _grants(network)
        for text in grant.ips
    )
    return {address: key for address, key in every if address is not None and address in addresses}


def _grants(network: Network | None) -> tuple[Grant, ...]:
    return network.status.grants if network is not None else ()


def _mac_of(nic: Nic) -> tuple[str, ...]:
    return (nic.spec.mac.lower(),) if nic.spec.mac else ()


def _held(nic: Nic) -> tuple[str, tuple[str, ...]]:
    return nic.status.network, nic.status.ips
