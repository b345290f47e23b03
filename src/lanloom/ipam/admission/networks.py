"""What may be done to networks.

A change that takes something away is judged against a list of NICs that is read after the request came, and against
the grants of the object as it was. So it excludes the allocator: if that grants an address in between, the network's
version is another one, and the API server asks again; if it did before, the address is in one of the two.
"""

from collections.abc import Iterable, Iterator

from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.ipam.rules.addresses import Address
from lanloom.ipam.rules.errors import Malformed, Refused
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Network as NetworkModel
from lanloom.ipam.rules.names import listed
from lanloom.ipam.rules.ranges import Cidr, IPRange, subtract
from lanloom.ipam.rules.subnets import SUBNETS_MAX
from lanloom.ipam.rules.validate import check_network, check_transition
from lanloom.ipam.state import ledger_of
from lanloom.ipam.wire import network_of
from lanloom.kube.ports import Client

_NAMED = 10


async def judge_network(client: Client, new: Network | None, old: Network | None) -> tuple[str, ...]:
    """Warnings for who asked for the change. Raises Malformed, Refused, KubeError."""
    if new is None:
        if old is not None and not old.metadata.is_leaving:
            await _judge_deletion(client, old)
        return ()
    if new.metadata.is_leaving or (old is not None and old.spec == new.spec):
        return ()
    check_size(new)
    model = network_of(new)
    check_network(model)
    if old is None or (old.spec.name, old.spec.uuid) != (new.spec.name, new.spec.uuid):
        check_identity(new, (await client.list(NETWORKS)).items)
    return await _judge_transition(client, old, model) if old is not None else ()


def check_size(network: Network) -> None:
    """Raises Malformed for a network that can't be judged in time."""
    count = len(network.spec.subnets)
    if count > SUBNETS_MAX:
        raise Malformed(
            f"Network {network.metadata.name}: spec.subnets has {count} entries; at most {SUBNETS_MAX} are allowed"
        )


def check_identity(new: Network, networks: Iterable[Network]) -> None:
    """A name or UUID finds one network. Raises Refused."""
    title, name = new.metadata.name, new.called
    field = "spec.name" if new.spec.name else "metadata.name"
    for other in networks:
        theirs = other.metadata.name
        if theirs == title:
            continue
        if name in (theirs, other.spec.name):
            raise Refused(
                f"Network {title}: {field}: {name} is the name of Network {theirs}; choose another one"
            )
        if title == other.spec.name:
            raise Refused(
                f"Network {title}: metadata.name: {title} is the name of Network {theirs}; choose another one"
            )
        if new.spec.uuid and new.spec.uuid.lower() in (other.spec.uuid.lower(), other.metadata.uid.lower()):
            raise Refused(
                f"Network {title}: spec.uuid: {new.spec.uuid} is that of Network {theirs}; "
                "leave it out, and the object's own is used"
            )


async def _judge_transition(client: Client, old: Network, new: NetworkModel) -> tuple[str, ...]:
    try:
        before = network_of(old)
    except Malformed:
        return ()  # written while no webhook answered; to mend it must be possible
    if not _takes_away(before, new):
        return check_transition(before, new, Ledger(NetworkModel(id=new.id, name=new.name)))
    nics = await client.list(NICS)
    return check_transition(before, new, ledger_of(old, nics.items))


def _takes_away(old: NetworkModel, new: NetworkModel) -> bool:
    """Whether users of addresses may have something against a change, or need to be told of it."""
    ranges, pools = (subtract(_ranges(old, pooled), _ranges(new, pooled)) for pooled in (False, True))
    return bool(ranges or pools or _gateways(new) - _gateways(old))


def _ranges(network: NetworkModel, pooled: bool) -> Iterator[IPRange]:
    if pooled:
        return (pool.range for pool in network.pools())
    return (subnet.cidr.range for subnet in network.subnets)


def _gateways(network: NetworkModel) -> set[tuple[Cidr, Address]]:
    return {(item.cidr, item.gateway) for item in network.subnets if item.gateway is not None}


async def _judge_deletion(client: Client, network: Network) -> None:
    title = network.metadata.name
    if groups := [one.group for one in network.spec.connections]:
        raise Refused(
            f"can't delete Network {title} because it is connected to the node groups {listed(groups, _NAMED)}; "
            "disconnect it first"
        )
    granted = {grant.uid for grant in network.status.grants}  # those of NICs that are gone are void
    nics = await client.list(NICS)
    if users := [str(nic.metadata.key) for nic in nics.items if _uses(nic, title, granted)]:
        raise Refused(
            f"can't delete Network {title} because the NICs {listed(sorted(users), _NAMED)} use it; "
            "delete them, or give them another network first"
        )


def _uses(nic: Nic, network: str, granted: set[str]) -> bool:
    return network in (nic.spec.network, nic.status.network) or nic.metadata.uid in granted
