"""What commands tell of networks: everything that their fields say, and the NICs on them."""

from collections.abc import Sequence

from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.described import Described
from lanloom.ipam.rules.fields import NETWORK_FIELDS
from lanloom.ipam.rules.model import Nic
from lanloom.ipam.rules.query import Value
from lanloom.ipam.state import State, ledger_of
from lanloom.ipam.wire import network_of, nic_of


def described(state: State, idents: Sequence[str] = ()) -> list[Described]:
    """The networks of those identifiers in their order; without any all networks by name. Raises Refused, Malformed."""
    items = [state.find(ident) for ident in idents] or sorted(state.networks, key=lambda item: item.called)
    on: dict[str, list[NicObject]] = {}  # once for all, because networks and NICs may be many
    for nic in state.nics:
        for name in {nic.spec.network, nic.status.network}:
            on.setdefault(name, []).append(nic)
    return [_describe(item, on.get(item.metadata.name, ())) for item in items]


def _describe(item: NetworkObject, nics: Sequence[NicObject]) -> Described:
    ctime = item.metadata.creation_timestamp
    return Described(
        network=network_of(item),
        ledger=ledger_of(item, nics),
        nics=tuple(sorted(map(nic_of, nics), key=lambda nic: (nic.owner, nic.index, nic.key))),
        serial_no=item.metadata.generation,
        ctime=ctime,
        mtime=item.status.modified or ctime,
    )


def information(of: Described) -> dict[str, Value]:
    """Everything of a network for programs: all of its fields, the UUIDs of its subnets, and its NICs."""
    said: dict[str, Value] = {field.name: field.value(of) for field in NETWORK_FIELDS.fields}
    said["subnet_uuids"] = [subnet.uuid for subnet in of.network.subnets]
    said["nics"] = [_nic(nic) for nic in of.nics]
    return said


def _nic(nic: Nic) -> dict[str, Value]:
    return {
        "nic": nic.key,
        "owner_kind": nic.owner.kind,
        "owner_namespace": nic.owner.namespace or None,
        "owner": nic.owner.name,
        "index": nic.index,
        "ips": [format_address(address) for address in nic.ips],
    }
