"""What an import tells of NICs that are not here as they were in Ganeti, and what to do about it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from lanloom.ipam.rules.addresses import Address, format_address, shown
from lanloom.ipam.rules.ganeti.config import StoredNic
from lanloom.ipam.rules.model import Network
from lanloom.ipam.rules.names import imported_name, is_uuid


def nic_notes(nic: StoredNic) -> Iterator[str]:
    """What of a NIC is called otherwise here."""
    name = imported_name(nic.name)
    if name != nic.name:
        yield f"{nic}: its name {shown(nic.name)} is {name} here"
    if nic.uuid and not is_uuid(nic.uuid):
        yield f"{nic}: {shown(nic.uuid)} is no UUID; it gets another one"


def homeless_notes(nics: Iterable[StoredNic], networks: Collection[Network]) -> Iterator[str]:
    """NICs with an address but without a network: Ganeti has them, often routed ones; here a network owns addresses.

    `networks` are those that the import brings. An address in one of their subnets may be given to somebody else.
    """
    homeless = [(nic, address) for nic in nics for address in nic.ips]
    for nic, address in homeless:
        yield f"{nic}: {format_address(address)} belongs to no network and is not imported"
    endangered: dict[str, list[str]] = defaultdict(list)
    for _, address in homeless:
        for network in networks:
            if _may_be_given(network, address):
                endangered[network.name].append(format_address(address))
    for name, addresses in endangered.items():
        yield (
            f"network {name} may give addresses to others that NICs without a network use; reserve them: "
            f"lanloom network modify --add-reserved-ips {','.join(dict.fromkeys(addresses))} {name}"
        )
    if homeless:
        yield (
            "to keep an address without a network, add a network with a subnet for it, and put the NIC there: "
            "lanloom instance modify --net N:modify,network=NETWORK,ip=ADDRESS INSTANCE"
        )


def _may_be_given(network: Network, address: Address) -> bool:
    subnet = network.subnet_of(address)
    return subnet is not None and not any(address in item for item in subnet.reserved)
