"""What Ganeti's networks and NICs are in Lanloom's own terms."""

from msgspec.structs import replace

from lanloom.ipam.rules.ganeti.config import Config, StoredNic
from lanloom.ipam.rules.ganeti.stored import StoredNetwork, StoredSubnet
from lanloom.ipam.rules.model import Network, Nic, Owner, Pool, Subnet
from lanloom.ipam.rules.ranges import IPRange, merge, subtract

INSTANCE = "Instance"


def network_meant(network: StoredNetwork, config: Config, id_: str = "") -> Network:
    """A network; `id_` is what NICs refer to it by, its UUID unless another is wanted."""
    return Network(
        id=id_ or network.uuid,
        name=network.name,
        uuid=network.uuid,
        mac_prefix=network.mac_prefix,
        tags=network.tags,
        subnets=tuple(map(_subnet, network.subnets)),
        connections=config.connections.get(network.uuid, ()),
    )


def nic_meant(nic: StoredNic, namespace: str = "") -> Nic:
    """A NIC of an instance."""
    return Nic(
        key=f"{nic.instance}/{nic.index}",
        owner=Owner(kind=INSTANCE, namespace=namespace, name=nic.instance),
        index=nic.index,
        name=nic.name,
        uuid=nic.uuid,
        network=nic.network,
        ips=nic.ips,
        mac=nic.mac,
        mode=nic.mode,
        link=nic.link,
        vlan=nic.vlan,
    )


def _subnet(stored: StoredSubnet) -> Subnet:
    """A subnet; of what is externally reserved only what is not so of itself."""
    subnet = Subnet(
        uuid=stored.uuid,
        cidr=stored.cidr,
        gateway=stored.gateway,
        dhcp=stored.dhcp,
        name=stored.name,
        pools=tuple(
            Pool(range=pool.range, name=pool.name)
            for pool in sorted(stored.pools, key=lambda pool: pool.range)
        ),
    )
    automatic = tuple(IPRange(address, address) for address in subnet.automatic)
    return replace(subnet, external=merge(subtract(stored.external, automatic)))
