"""Objects that an import finds in the cluster: imported before, or in conflict.

Objects may differ from what the file says; `--keep` leaves them so.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import INSTANCE, NicSpec
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.api.meta import Key
from lanloom.features.ipam.cli.grammar.difference import differences
from lanloom.features.ipam.ganeti.formats.config import StoredNic
from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Subnet
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


def with_unsaid(network: Network, there: Network, *, is_new: bool) -> Network:
    """Return a network of a file with what the file does not say as it is there.

    No file says how long leases last, and which pools are disabled; one that `is_new`, in the form with subnets, says
    where there is DHCP.
    """
    known = {subnet.uuid: subnet for subnet in there.subnets}

    def completed(subnet: Subnet) -> Subnet:
        same = known.get(subnet.uuid, subnet)
        disabled = {pool.range for pool in same.pools if pool.disabled}
        return replace(
            subnet,
            dhcp=subnet.dhcp if is_new else same.dhcp,
            lease_seconds=same.lease_seconds,
            pools=tuple(replace(pool, disabled=pool.range in disabled) for pool in subnet.pools),
        )

    return replace(network, subnets=tuple(map(completed, network.subnets)))


class Wanted(Struct, frozen=True):
    """A network as it is to be, and the object that there is of it."""

    network: Network
    item: NetworkObject | None


def network_conflicts(wanted: Mapping[str, Wanted], state: State) -> Iterator[str]:
    """Return the conflicts of the networks, by their UUIDs."""
    for one in wanted.values():
        network = one.network
        # A new object may not be called as another network; that of a renamed network may.
        names = (network.name,) if one.item is not None else (network.id, network.name)
        for other in state.networks:
            if other is one.item:
                continue
            if other.called in names:
                yield f"another network {network.name} exists; rename one of the two"
            elif other.metadata.name == network.id:
                yield (
                    f"the object of network {other.called} has the immutable name {other.metadata.name}; "
                    f"rename {network.name} in Ganeti first"
                )
        if one.item is not None and one.item.metadata.is_deleting:
            yield f"network {one.item.called} is being deleted; try again after its deletion"
        elif one.item is not None and (changes := network_changes(network_of(one.item), network)):
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

    def conflicts(
        self,
        specs: Mapping[StoredNic, NicSpec],
        wanted: Mapping[str, Wanted],
        planned: Mapping[str, NetworkObject],
    ) -> Iterator[str]:
        """Return the conflicts of the NICs; `planned` are the networks that are to be created, by their UUIDs."""
        coming = {
            uuid: self._state.ledger(item)
            for uuid, item in planned.items()
            if item.status.in_use or item.status.shared_with
        }
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
                yield from self._taken(nic, spec, item, ledger)
            elif (ledger := coming.get(nic.network)) and not spec.force:
                yield from self._held(nic, ledger)

    def _taken(self, nic: StoredNic, spec: NicSpec, item: NicObject | None, ledger: Ledger) -> Iterator[str]:
        """Yield the addresses of a NIC that its network as it is there can't give it."""
        key = str(item.metadata.key) if item is not None else ""
        force = (spec if item is None else item.spec).force
        for address in nic.ips:
            here, owner = f"{format_address(address)} of {nic}", ledger.owner_of(address)
            subnet = ledger.network.subnet_of(address)
            if owner not in ("", key):
                yield f"{here} is owned by NIC {owner}"
            elif subnet is None:
                yield f"{here} is in no subnet of network {ledger.network.name}; add one"
            elif address == subnet.gateway:
                yield f"{here} is the gateway of network {ledger.network.name}; change that first"
            elif not owner and not force:
                yield from self._held_by_others(nic, address, ledger)

    def _held(self, nic: StoredNic, ledger: Ledger) -> Iterator[str]:
        """Yield the addresses of a NIC that others on the wires of its network have."""
        for address in nic.ips:
            yield from self._held_by_others(nic, address, ledger)

    def _held_by_others(self, nic: StoredNic, address: Address, ledger: Ledger) -> Iterator[str]:
        if title := ledger.others.title(address, f"{self._namespace}/"):
            yield f"{format_address(address)} of {nic} is {title}; give one of the two another address"

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
