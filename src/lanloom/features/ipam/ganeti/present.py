"""Objects that an import finds in the cluster: imported before, or in conflict.

Objects may differ from what the file says; `--keep` leaves them so.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from lanloom.api.ipam import INSTANCE, NicSpec
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.api.meta import Key
from lanloom.features.ipam.cli.grammar.difference import differences
from lanloom.features.ipam.ganeti.formats.config import StoredNic
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.names import object_name
from lanloom.features.ipam.state import State, network_of

LISTED_MAX = 5
"""So many differences of one object are shown."""


def network_changes(there: Network, wanted: Network) -> str:
    """Describe the differences between a network and the file; empty where there are none."""
    found = [f"{one.sign} {one.text}" for one in differences(there, wanted)]
    more = [f"and {len(found) - LISTED_MAX} more"] if len(found) > LISTED_MAX else []
    return "; ".join((*found[:LISTED_MAX], *more))


def nic_changes(there: NicSpec, wanted: NicSpec) -> str:
    """Return the same for a NIC. Whether it may have reserved addresses makes no difference."""
    return "; ".join(_nic_changes(there, wanted))


def _nic_changes(there: NicSpec, wanted: NicSpec) -> Iterator[str]:
    pairs = (
        ("owner", there.owner.name, wanted.owner.name),
        ("number", str(there.index), str(wanted.index)),
        ("network", there.network, wanted.network),
        ("addresses", ", ".join(there.ips), ", ".join(wanted.ips)),
        ("name", there.name, wanted.name),
        ("MAC", there.mac, wanted.mac),
        ("mode", there.mode, wanted.mode),
        ("link", there.link, wanted.link),
        ("VLAN", there.vlan, wanted.vlan),
    )
    for title, was, now in pairs:
        if was != now:
            yield f"~ {title} {was or 'none'} → {now or 'none'}"


class Wanted(Struct, frozen=True):
    """A network as it is to be, and the object that there is of it."""

    network: Network
    item: NetworkObject | None


def network_conflicts(wanted: Mapping[str, Wanted], state: State) -> Iterator[str]:
    """Return the conflicts of the networks, by their UUIDs."""
    for one in wanted.values():
        network = one.network
        for other in state.networks:
            if other is one.item:
                continue
            if other.called in (network.id, network.name):
                yield f"another network {network.name} exists; rename one of the two"
            elif other.metadata.name == network.id:
                yield (
                    f"the object of network {other.called} has the immutable name {other.metadata.name}; "
                    f"rename {network.name} in Ganeti first"
                )
        if one.item is not None and (changes := network_changes(network_of(one.item), network)):
            yield (
                f"network {network.name} exists, but differs; to match the file: {changes}. "
                "Change it, or keep it with --keep"
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
        """Return the object of a NIC."""
        if spec.uuid:
            return self._by_uuid.get(spec.uuid)
        return self._by_index.get((spec.owner.name, spec.index))

    def kept(self, specs: Mapping[StoredNic, NicSpec]) -> dict[StoredNic, str]:
        """Return the NICs that are there and differ, and how."""
        found = ((nic, spec, self.find(spec)) for nic, spec in specs.items())
        alive = [one for one in found if one[2] is not None and not one[2].metadata.is_deleting]
        changes = ((nic, nic_changes(item.spec, spec)) for nic, spec, item in alive if item is not None)
        return {nic: text for nic, text in changes if text}

    def conflicts(self, specs: Mapping[StoredNic, NicSpec], wanted: Mapping[str, Wanted]) -> Iterator[str]:
        """Return the conflicts of the NICs."""
        ledgers = {uuid: self._state.ledger(one.item) for uuid, one in wanted.items() if one.item is not None}
        for nic, spec in specs.items():
            item = self.find(spec)
            if item is not None and item.metadata.is_deleting:
                yield f"NIC {item.metadata.key} is being deleted; try again after its deletion"
            elif item is not None and (changes := nic_changes(item.spec, spec)):
                yield (
                    f"NIC {item.metadata.key} ({nic}) exists, but differs; to match the file: {changes}. "
                    "Change it, or keep it with --keep"
                )
            other = self._by_index.get((spec.owner.name, spec.index))
            if item is None and other is not None:
                yield f"instance {spec.owner.name} has another NIC {spec.index} already, {other.metadata.key}"
            if ledger := ledgers.get(nic.network):
                yield from _taken(nic, str(item.metadata.key) if item is not None else "", ledger)

    def places(self, specs: Mapping[StoredNic, NicSpec]) -> dict[StoredNic, tuple[Key, bool]]:
        """Return the object of each NIC, and whether it is there."""
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


def _taken(nic: StoredNic, key: str, ledger: Ledger) -> Iterator[str]:
    """Yield the addresses of a NIC, whose object is `key`, that its network as it is there can't give it."""
    for address in nic.ips:
        here = f"{format_address(address)} of {nic}"
        subnet = ledger.network.subnet_of(address)
        if ledger.owner_of(address) not in ("", key):
            yield f"{here} is owned by NIC {ledger.owner_of(address)}"
        elif subnet is None:
            yield f"{here} is in no subnet of network {ledger.network.name}; add one"
        elif address == subnet.gateway:
            yield f"{here} is the gateway of network {ledger.network.name}; change that first"
