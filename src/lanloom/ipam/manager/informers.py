"""What the manager and its webhooks watch of address management, and by what they look it up."""

import random
from typing import Any

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.ipam.wire import owner_of
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client

BY_NETWORK = "network"
"""The index of the store of NICs: the network that they ask for, and the one that their addresses are of.

Empty for a NIC that has neither.
"""

BY_OWNER = "owner"
"""The index of the store of NICs: their owner as text (`Owner.__str__`)."""

BY_GRANT = "grant"
"""The index of the store of networks: the NICs (`namespace/name`) that they have granted addresses to."""


class IpamInformers(Struct, frozen=True):
    """What is watched."""

    networks: Informer[Network]
    nics: Informer[Nic]

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer, to be run."""
        return (self.networks, self.nics)


def ipam_informers(client: Client, rng: random.Random) -> IpamInformers:
    """The informers, with their indexes."""
    return IpamInformers(
        networks=Informer(
            client,
            NETWORKS,
            rng=rng,
            indexes={BY_GRANT: lambda item: {grant.nic for grant in item.status.grants}},
        ),
        nics=Informer(
            client,
            NICS,
            rng=rng,
            indexes={BY_NETWORK: networks_of, BY_OWNER: lambda item: (str(owner_of(item)),)},
        ),
    )


def networks_of(item: Nic) -> tuple[str, ...]:
    """The networks that have to do with a NIC: the one that it asks for, and the one of its addresses."""
    if item.status.network in ("", item.spec.network):
        return (item.spec.network,)
    return (item.spec.network, item.status.network) if item.spec.network else (item.status.network,)
