"""All networks and NICs of a cluster at one moment, and what follows from them."""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.ipam.rules.addresses import parse_address
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.names import is_uuid
from lanloom.ipam.wire import network_of, owned
from lanloom.kube.ports import Client


class State(Struct, frozen=True):
    """Objects as they were read."""

    networks: tuple[NetworkObject, ...]
    nics: tuple[NicObject, ...]

    def find(self, ident: str) -> NetworkObject:
        """The network with that UUID, name or object name. Raises Refused."""
        for fits in (
            lambda item: (
                is_uuid(ident) and ident.lower() in (item.spec.uuid.lower(), item.metadata.uid.lower())
            ),
            lambda item: ident == item.called,
            lambda item: ident == item.metadata.name,
        ):
            if found := [item for item in self.networks if fits(item)]:
                return found[0]
        known = ", ".join(sorted(item.called for item in self.networks)) or "none"
        raise Refused(f"there is no network {ident}; networks are: {known}")

    def by_id(self) -> dict[str, NetworkObject]:
        """The networks by the names of their objects, which NICs go by."""
        return {item.metadata.name: item for item in self.networks}

    def ledger(self, network: NetworkObject) -> Ledger:
        """Who owns what in a network. Raises Malformed."""
        return ledger_of(network, self.nics)


async def read_state(client: Client) -> State:
    """Networks first: a grant leaves the network only after the NIC has it. Raises KubeError."""
    networks = await client.list(NETWORKS)
    nics = await client.list(NICS)
    return State(networks.items, nics.items)


def ledger_of(network: NetworkObject, nics: Iterable[NicObject]) -> Ledger:
    """Who owns what in a network: the addresses in the NICs' statuses, and those granted but not written there yet.

    NICs must have been read after the network: then a grant whose NIC is not among them, or has another uid, is of one
    that is gone, and so are its addresses. What two NICs have belongs to the older. Raises Malformed.
    """
    name = network.metadata.name
    granted = {(grant.nic, grant.uid): grant.ips for grant in network.status.grants}
    ledger = Ledger(network_of(network))
    for item in sorted(nics, key=age):
        key = str(item.metadata.key)
        has = owned(item) if item.status.network == name else ()
        due = granted.get((key, item.metadata.uid), ()) if item.spec.network == name else ()
        if has or due:
            ledger.record(key, {*has, *map(parse_address, due)})
    return ledger


def age(item: NicObject) -> tuple[str, str]:
    """What sorts NICs, the oldest first."""
    return item.metadata.creation_timestamp or "", str(item.metadata.key)
