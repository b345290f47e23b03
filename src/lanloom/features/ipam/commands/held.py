"""Addresses that are kept for a name that no object has, and their release before their time."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from lanloom.api.ipam import HELD_UNTIL, NICS, Nic
from lanloom.features.ipam.rules.addresses import Address, find_addresses, format_address
from lanloom.features.ipam.state import read_state
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.refusals import Denied


class Hold(Struct, frozen=True, kw_only=True):
    """Addresses of a NIC that belongs to a name which no object has. `until` is RFC 3339."""

    nic: str
    owner: str
    ips: tuple[str, ...]
    until: str


def holds_of(nics: Iterable[Nic], network: str) -> Iterator[Hold]:
    """Yield the holds of a network by its object's name, those that end first before others."""
    held = [
        nic
        for nic in nics
        if nic.is_sticky and nic.status.network == network and nic.metadata.annotations.get(HELD_UNTIL)
    ]
    for nic in sorted(held, key=lambda nic: (nic.metadata.annotations[HELD_UNTIL], nic.metadata.key)):
        meta, owner = nic.metadata, nic.spec.owner
        yield Hold(
            nic=str(meta.key),
            owner=f"{owner.kind} {meta.namespace}/{owner.name}",
            ips=nic.status.ips,
            until=meta.annotations[HELD_UNTIL],
        )


async def release(client: Client, network: str, addresses: Sequence[Address]) -> tuple[Hold, ...]:
    """Delete the NICs that keep these addresses of a network; return what they kept. Raises Denied, KubeError.

    All of them or none: an address that is not kept, or that is in use, is refused first. A pod that comes for the name
    in the meantime has the address all the same, because the manager does not let go of a NIC in use.
    """
    state = await read_state(client)
    item = state.find(network)
    on = [nic for nic in state.nics if nic.status.network == item.metadata.name]
    holds = {hold.nic: hold for hold in holds_of(on, item.metadata.name)}
    found = {address: _nic_of(on, address, item.called) for address in addresses}
    for address, nic in found.items():
        if str(nic.metadata.key) not in holds:
            owner = nic.spec.owner
            raise Denied(
                f"{format_address(address)} of network {item.called} is used by {owner.kind} {nic.metadata.namespace}/"
                f"{owner.name} and not only kept for it; `lanloom network usage {item.called}` lists what is kept"
            )
    chosen = {str(nic.metadata.key): nic for nic in found.values()}
    for nic in chosen.values():
        with ignore_not_found(nic.metadata.name):
            await client.delete(NICS, nic.metadata.name, nic.metadata.namespace, uid=nic.metadata.uid)
    return tuple(holds[key] for key in chosen)


def _nic_of(nics: Iterable[Nic], address: Address, network: str) -> Nic:
    nic = next((nic for nic in nics if address in find_addresses(nic.status.ips)), None)
    if nic is None:
        raise Denied(
            f"{format_address(address)} of network {network} belongs to no NIC; nothing is to be released"
        )
    return nic
