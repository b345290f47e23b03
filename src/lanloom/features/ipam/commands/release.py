"""The release of addresses that are kept for a name, before their time."""

from collections.abc import Iterable, Sequence

from lanloom.api.ipam import NICS, Nic
from lanloom.features.ipam.commands.held import Hold, holds_of
from lanloom.features.ipam.rules.addresses import Address, find_addresses, format_address
from lanloom.features.ipam.state import read_state
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.refusals import Denied


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
