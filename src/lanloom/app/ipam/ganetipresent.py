"""What there is already, as an import sees it: the same networks and NICs from before, and what stands in the way."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import INSTANCE, NicSpec
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.api.meta import Key
from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.ganeti.config import StoredNic
from lanloom.ipam.rules.model import Network
from lanloom.ipam.rules.names import object_name
from lanloom.ipam.state import State
from lanloom.ipam.wire import network_of


class Wanted(Struct, frozen=True):
    """A network as it is to be, and the object that there is of it."""

    network: Network
    item: NetworkObject | None


def network_conflicts(wanted: Mapping[str, Wanted], state: State) -> Iterator[str]:
    """What the networks, by their UUIDs, would collide with."""
    for uuid, one in wanted.items():
        network = one.network
        for other in state.networks:
            theirs = {other.metadata.name, other.spec.name or other.metadata.name}
            if other is not one.item and theirs & {network.id, network.name}:
                yield f"there is another network {network.name}; rename one of the two"
        if one.item is not None and network_of(one.item) != replace(network, uuid=uuid):
            yield (
                f"network {network.name} is there with the same UUID, but differs; "
                "remove it, or change it to what the file says"
            )


class Present:
    """The NICs of a namespace as an import sees them."""

    def __init__(self, state: State, namespace: str) -> None:
        self._state = state
        self._namespace = namespace
        mine = [item for item in state.nics if item.metadata.namespace == namespace]
        instances = [item for item in mine if item.spec.owner.kind == INSTANCE]
        self._names = {item.metadata.name for item in mine}
        self._by_uuid = {item.spec.uuid: item for item in instances if item.spec.uuid}
        self._by_index = {(item.spec.owner.name, item.spec.index): item for item in instances}

    def find(self, spec: NicSpec) -> NicObject | None:
        """The object of a NIC."""
        if spec.uuid:
            return self._by_uuid.get(spec.uuid)
        return self._by_index.get((spec.owner.name, spec.index))

    def conflicts(self, specs: Mapping[StoredNic, NicSpec], wanted: Mapping[str, Wanted]) -> Iterator[str]:
        """What the NICs would collide with."""
        ledgers = {uuid: self._state.ledger(one.item) for uuid, one in wanted.items() if one.item is not None}
        for nic, spec in specs.items():
            item = self.find(spec)
            if item is not None and item.metadata.deletion_timestamp is not None:
                yield f"NIC {item.metadata.key} is being deleted; try again when it is gone"
            elif item is not None and item.spec != spec:
                yield f"NIC {item.metadata.key} ({nic}) is there, but differs; remove it, or change it"
            other = self._by_index.get((spec.owner.name, spec.index))
            if item is None and other is not None:
                yield f"instance {spec.owner.name} has another NIC {spec.index} already, {other.metadata.key}"
            ledger = ledgers.get(nic.network)
            key = str(item.metadata.key) if item is not None else ""
            for address in nic.ips if ledger is not None else ():
                owner = ledger.owner_of(address) if ledger is not None else ""
                if owner not in ("", key):
                    yield f"{format_address(address)} of {nic} is owned by NIC {owner}"

    def places(self, specs: Mapping[StoredNic, NicSpec]) -> dict[StoredNic, tuple[Key, bool]]:
        """The object of each NIC, and whether it is there."""
        found: dict[StoredNic, tuple[Key, bool]] = {}
        taken = set(self._names)
        for nic, spec in specs.items():
            item = self.find(spec)
            if item is not None:
                found[nic] = (item.metadata.key, True)
                continue
            base = object_name(spec.owner.name)
            tried = (f"{base}-{number}" for number in range(nic.index, nic.index + len(taken) + 1))
            name = next(text for text in tried if text not in taken)
            taken.add(name)
            found[nic] = (Key(self._namespace, name), False)
        return found
