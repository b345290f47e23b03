"""Informers of address management in the manager and its webhooks, their indexes, and live lists of all NICs."""

from collections.abc import Mapping

from msgspec import Struct

from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    Nic,
)
from lanloom.features.ipam.wire import owner_of
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.ports import Client

BY_NETWORK = "network"
"""The index of the store of NICs: the network that they ask for, and the one that their addresses are of.

Empty for a NIC that has neither.
"""

BY_OWNER = "owner"
"""The index of the store of NICs: their owner as text (`Owner.__str__`)."""

BY_GRANT = "grant"
"""The index of the store of networks: the NICs (`namespace/name`) that they have granted addresses to."""


class IpamInformers(InformerView, frozen=True):
    """The informers of address management."""

    networks: Informer[Network]
    nics: Informer[Nic]


def ipam_informers(informers: Informers) -> IpamInformers:
    """The informers, with their indexes."""
    return IpamInformers(
        networks=informers.get(
            NETWORKS,
            indexes={BY_GRANT: lambda item: {grant.nic for grant in item.status.grants}},
        ),
        nics=informers.get(
            NICS,
            indexes={BY_NETWORK: networks_of, BY_OWNER: lambda item: (str(owner_of(item)),)},
        ),
    )


def networks_of(item: Nic) -> tuple[str, ...]:
    """The networks that have to do with a NIC: the one that it asks for, and the one of its addresses."""
    if item.status.network in ("", item.spec.network):
        return (item.spec.network,)
    return (item.spec.network, item.status.network) if item.spec.network else (item.status.network,)


class NicList(Struct, frozen=True):
    """NICs by network, as they were at a version."""

    nics: Mapping[str, tuple[Nic, ...]]
    version: int


async def list_nics(client: Client) -> NicList:
    """All NICs by network, as the API server has them now. Raises KubeError."""
    listing = await client.list(NICS)
    nics: dict[str, list[Nic]] = {}
    for item in listing.items:
        for name in networks_of(item):
            nics.setdefault(name, []).append(item)
    return NicList({name: tuple(items) for name, items in nics.items()}, int(listing.resource_version))
