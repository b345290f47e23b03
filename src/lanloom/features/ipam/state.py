"""All networks and NICs of a cluster at one moment, what follows from them, and what the allocator answered.

The answer is in a NIC's status, and what is about to be written in the network's grants. Commands and webhooks need
that, not the allocator.
"""

from collections.abc import Callable, Iterable
from itertools import chain

from msgspec import Struct

from lanloom.api.ipam import (
    ALLOCATED,
    NETWORKS,
    NICS,
    Grant,
    Nic,
)
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.features.ipam.rules.addresses import find_address, parse_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.names import is_uuid
from lanloom.features.ipam.wire import network_of, owned
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied


def is_satisfied(nic: Nic) -> bool:
    """Whether a NIC's status says that it has what its spec asks for, and that is so."""
    spec, status = nic.spec, nic.status
    return (
        answer(nic) == "True"
        and status.network == spec.network
        and len(status.ips) == len(spec.ips)
        and all(_fits(asked, has) for asked, has in zip(spec.ips, status.ips, strict=True))
    )


def is_refused(nic: Nic) -> bool:
    """Whether a NIC has been told that it does not get what it asks for now."""
    return answer(nic) == "False"


def answer(nic: Nic) -> str:
    """Whether a NIC gets what it asks for now: True or False, or empty if there is no answer yet."""
    found = find(nic.status.conditions, ALLOCATED)
    # That a deletion was asked for is a generation of its own, which changes nothing of what is asked for.
    wanted = nic.metadata.generation - nic.metadata.is_deleting
    current = nic.status.observed_generation >= wanted
    return found.status if found is not None and current and found.status in ("True", "False") else ""


def is_open(grant: Grant, nic: Nic | None, network: str) -> bool:
    """Whether granted addresses may still come to a NIC whose status does not show them.

    `nic` is the NIC of the grant's key, None if there is none, and must have been read after the network. A write of
    these addresses is based on a state in which the NIC wanted this network, and on the grant's version or an earlier
    one. So none can succeed once the NIC is gone, wants another network, or has a later version. An uid never comes
    back, and versions only grow: a grant that is settled stays so.
    """
    if nic is None or nic.metadata.uid != grant.uid or nic.spec.network != network:
        return False
    if nic.status.network == network and set(grant.ips) <= set(nic.status.ips):
        return False
    return not 0 < grant.version < nic.metadata.version


def _fits(asked: str, has: str) -> bool:
    wanted = find_address(asked)
    return wanted is None or wanted == find_address(has)


class State(Struct, frozen=True):
    """Objects as they were read."""

    networks: tuple[NetworkObject, ...]
    nics: tuple[NicObject, ...]

    def find(self, ident: str) -> NetworkObject:
        """The network that a user means: the one with that UUID, name or object name. Raises Denied."""
        return self._find(ident, lambda item: (item.called, item.metadata.name))

    def find_referred(self, ident: str) -> NetworkObject:
        """The network that an object such as a NAD names: the one with that UUID, object name or name. Raises Denied.

        The object name comes first, because it never changes: what is on a network stays there when that is renamed
        and another one gets its name.
        """
        return self._find(ident, lambda item: (item.metadata.name, item.called))

    def _find(self, ident: str, names_of: Callable[[NetworkObject], tuple[str, str]]) -> NetworkObject:
        uuid = ident.lower() if is_uuid(ident) else None
        by_uuid = (
            item for item in self.networks if uuid in (item.spec.uuid.lower(), item.metadata.uid.lower())
        )
        by_name = (item for place in (0, 1) for item in self.networks if names_of(item)[place] == ident)
        found = next(chain(by_uuid, by_name), None)
        if found is not None:
            return found
        known = ", ".join(sorted(item.called for item in self.networks)) or "none"
        raise Denied(f"network {ident} does not exist; networks are: {known}")

    def by_id(self) -> dict[str, NetworkObject]:
        """The networks by the names of their objects, which NICs go by."""
        return {item.metadata.name: item for item in self.networks}

    def ledger(self, network: NetworkObject) -> Ledger:
        """Who owns what in a network. Raises Malformed."""
        return ledger_of(network, self.nics)


async def read_state(client: Reader) -> State:
    """Networks first: a grant leaves the network only after the NIC has it. Raises KubeError."""
    networks = await client.list(NETWORKS)
    nics = await client.list(NICS)
    return State(networks.items, nics.items)


def ledger_of(network: NetworkObject, nics: Iterable[NicObject]) -> Ledger:
    """Who owns what in a network: the addresses in the NICs' statuses, and those of grants that are open.

    NICs must have been read after the network. What two NICs have belongs to the older. Raises Malformed.
    """
    name = network.metadata.name
    grants = {grant.nic: grant for grant in network.status.grants}
    ledger = Ledger(network_of(network))
    for item in sorted(nics, key=age):
        key = str(item.metadata.key)
        has = owned(item) if item.status.network == name else ()
        grant = grants.get(key)
        due = grant.ips if grant is not None and is_open(grant, item, name) else ()
        if has or due:
            ledger.record(key, {*has, *map(parse_address, due)})
    return ledger


def age(item: NicObject) -> tuple[str, str]:
    """The sort key of NICs, the oldest first."""
    return item.metadata.creation_timestamp or "", str(item.metadata.key)
