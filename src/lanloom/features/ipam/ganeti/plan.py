"""Plan the import of a Ganeti cluster, or compare it: computed on objects as they were read, before any is written.

Networks are recognised by their UUID and NICs by theirs, or by instance and index where Ganeti 2.7 gave none. What is
there and the same is left alone, so an import that was interrupted is finished by another one; what is there and
differs stands in the way, or is kept. Where not everything can be a name here, notes report the new one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import (
    INSTANCE,
    NetworkSpec,
    NicSpec,
    OwnerSpec,
)
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.api.madenetworks import is_made
from lanloom.api.meta import Key, ObjectMeta
from lanloom.features.ipam.admission.nads import check_on_wires
from lanloom.features.ipam.admission.networks import check_new_subnets
from lanloom.features.ipam.admission.nicspec import check_nic
from lanloom.features.ipam.commands.instances import check_instance
from lanloom.features.ipam.ganeti.formats.config import Config, StoredNic, network_meant
from lanloom.features.ipam.ganeti.formats.verify import (
    identities,
    lengths,
    ownership,
    unmended,
    violations,
)
from lanloom.features.ipam.ganeti.notes import (
    adapted,
    fault_notes,
    listed_reasons,
    names_here,
    nic_notes,
    orphan_notes,
)
from lanloom.features.ipam.ganeti.present import (
    Present,
    Wanted,
    network_changes,
    network_conflicts,
    nic_changes,
    with_unsaid,
)
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.general import is_group
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Connection, Network
from lanloom.features.ipam.rules.names import (
    imported_name,
    is_name,
    is_uuid,
    object_name,
)
from lanloom.features.ipam.rules.requests import parse_mac
from lanloom.features.ipam.rules.shares import (
    ask_for_force,
    check_quota,
    check_served,
    may_force,
    with_shares_of,
)
from lanloom.features.ipam.rules.validate import check_network
from lanloom.features.ipam.state import State, network_of, spec_of
from lanloom.features.ipam.wirecontext import WireContext
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote


class NetworkRow(Struct, frozen=True, kw_only=True):
    """A network of the import: its object's name, what users call it, and how much belongs to it."""

    object: str
    name: str
    subnets: tuple[str, ...]
    nics: int
    addresses: int
    new: bool


class Import(Struct, frozen=True, kw_only=True):
    """Objects to create, objects that exist already, and notes for the user.

    `present` are NICs that are there and the same; `kept` differ, and whether they have what they ask for is no matter.
    """

    networks: dict[str, NetworkSpec]
    nics: dict[Key, NicSpec]
    present: tuple[Key, ...]
    kept: tuple[Key, ...]
    rows: tuple[NetworkRow, ...]
    notes: tuple[str, ...]


def plan_import(
    config: Config,
    state: State,
    namespace: str,
    *,
    keep: bool = False,
    force: bool = False,
    context: WireContext | None = None,
) -> Import:
    """Return the plan. Raises Malformed for what can never be imported, Denied for conflicts, both with all reasons.

    With `keep` what is there and differs from the file is no conflict but stays; new NICs go into networks as they are.
    With `force` errors of the file are notes, but for those that leave open what is meant. `context` says who else
    is on the wires of networks that are to be created.
    """
    notes: list[str] = []
    remedy = "the file has errors (`lanloom ganeti verify` lists all of them); correct them in Ganeti, and import again"
    _refuse([*identities(config), *lengths(config), *ownership(config)], remedy)
    if not force:
        _refuse([*unmended(config)], f"{remedy}, or with --force")
    notes += fault_notes(list(violations(config)))
    wanted = _networks(config, state, notes)
    if keep:
        wanted = {uuid: _as_it_is(one, notes) for uuid, one in wanted.items()}
    specs = dict(_nics(config, wanted, notes))
    _check(specs)
    planned, overlaps = _planned(wanted, context, notes)
    there = Present(State((*state.networks, *planned.values()), state.nics), namespace)
    kept = there.kept(specs) if keep else {}
    notes += [f"{nic} remains unchanged; in the file: {changes}" for nic, changes in kept.items()]
    asked = {nic: spec for nic, spec in specs.items() if nic not in kept}
    places = there.places(specs)
    present = tuple(place for nic, (place, old) in places.items() if old and nic not in kept)
    new = {place: specs[nic] for nic, (place, old) in places.items() if not old}
    shares = _share_conflicts(wanted.values(), new.values(), state, namespace)
    conflicts = [
        *network_conflicts(wanted, state),
        *there.conflicts(asked, wanted, planned),
        *overlaps,
        *shares,
    ]
    _refuse(conflicts, "the import conflicts with existing objects")
    return Import(
        networks={item.metadata.name: item.spec for item in planned.values()},
        nics=new,
        present=present,
        kept=tuple(places[nic][0] for nic in kept),
        rows=tuple(_rows(wanted.values(), specs.values())),
        notes=tuple(notes),
    )


def compare(config: Config, state: State, namespace: str) -> tuple[str, ...]:
    """Return a line for each network and NIC that only one of the two has, or that differs. Raises Malformed.

    Networks that belong to a LAN or an isolated network, which no Ganeti cluster has, are left out.
    """
    wanted = _networks(config, state, [])
    known = {one.item.metadata.name for one in wanted.values() if one.item is not None}
    others = {item.called: item for item in state.networks if item.metadata.name not in known}
    lines = []
    for uuid, one in wanted.items():
        if one.item is None and (other := others.pop(one.network.name, None)) is not None:
            theirs = other.spec.uuid or other.metadata.uid
            lines.append(
                f"~ network {one.network.name}: another one has the name, with UUID {theirs} instead of {uuid}; "
                "rename one of the two before an import"
            )
        elif one.item is None:
            lines.append(f"+ network {one.network.name}")
        elif changes := network_changes(network_of(one.item), one.network):
            lines.append(f"~ network {one.network.name}: {changes}")
    lines += [f"- network {name}" for name, item in others.items() if not is_made(item)]
    there, met = Present(state, namespace), set[str]()
    for nic, spec in _nics(config, wanted, []):
        item = there.find(spec)
        if item is None:
            lines.append(f"+ {nic}")
            continue
        met.add(item.metadata.name)
        if changes := nic_changes(item.spec, spec):
            lines.append(f"~ {nic}: {changes}")
    lines += [
        f"- NIC {item.spec.index} of instance {item.spec.owner.name}"
        for item in state.nics
        if item.metadata.namespace == namespace
        and item.spec.owner.kind == INSTANCE
        and item.metadata.name not in met
    ]
    return tuple(lines)


def _networks(config: Config, state: State, notes: list[str]) -> dict[str, Wanted]:
    """Return the networks by the UUIDs of the file. Raises Malformed."""
    there = {item.spec.uuid or item.metadata.uid: item for item in state.networks}
    names = names_here("network", (one.name or key for key, one in config.networks.items()), is_name, notes)
    connected = (one.group for ways in config.connections.values() for one in ways)
    groups = names_here("node group", connected, is_group, notes)
    found: dict[str, Wanted] = {}
    wrong: list[str] = []
    for uuid, stored in config.networks.items():
        name = names[stored.name or uuid]
        item = there.get(uuid)
        id_ = item.metadata.name if item is not None else object_name(name)
        network = adapted(replace(network_meant(stored, config, id_), name=name), groups, notes)
        if item is not None:  # a file says nothing of namespaces
            network = with_shares_of(network, network_of(item))
        if not is_uuid(uuid):
            wrong.append(f"{stored.title}: {quote(uuid)} is no UUID")
        try:
            check_network(network)
            if item is None:
                check_new_subnets(network, None)
        except Malformed as error:
            wrong.append(str(error))
        if item is not None:
            network = with_unsaid(network, network_of(item), is_new=stored.new)
        found[uuid] = Wanted(network, item)
    if wrong:
        raise Malformed(listed_reasons("the file has networks that can't be imported", wrong))
    return found


def _planned(
    wanted: Mapping[str, Wanted], context: WireContext | None, notes: list[str]
) -> tuple[dict[str, NetworkObject], list[str]]:
    """Return the networks that are to be created by their UUIDs, and why others on their wires forbid them."""
    new = {
        uuid: NetworkObject(
            metadata=ObjectMeta(name=one.network.id),
            spec=replace(spec_of(one.network), uuid=one.network.uuid),
        )
        for uuid, one in wanted.items()
        if one.item is None
    }
    conflicts: list[str] = []
    if context is not None:
        context = context.joined_by(new.values())
        for uuid, item in new.items():
            new[uuid] = context.described(item)
            try:
                notes += check_on_wires(context.wires, item, None)
            except Denied as error:
                conflicts.append(str(error))
    return new, conflicts


def _share_conflicts(
    wanted: Iterable[Wanted], new: Collection[NicSpec], state: State, namespace: str
) -> Iterator[str]:
    """Yield why existing networks do not serve the namespace, or not with so many addresses, or with reserved ones."""
    forced = {spec.network for spec in new if spec.force}
    asked: Counter[str] = Counter()
    for spec in new:
        asked[spec.network] += len(spec.ips)
    used: Counter[str] = Counter()
    for nic in state.nics:
        if nic.metadata.namespace == namespace:
            used[nic.status.network] += len(nic.status.ips)
    for item in (one.item for one in wanted if one.item is not None):
        network = network_of(item)
        try:
            if item.metadata.name in asked:
                check_served(network, namespace)
            check_quota(network, namespace, used[network.id], asked[item.metadata.name])
        except Denied as error:
            yield str(error)
        if item.metadata.name in forced and not may_force(network, namespace):
            yield (
                f"network {network.name} gives no reserved addresses to namespace {namespace}, which NICs of the file "
                f"have; {ask_for_force(network, namespace)}"
            )


def _as_it_is(one: Wanted, notes: list[str]) -> Wanted:
    """Return a network as it is there, if it is."""
    if one.item is None:
        return one
    there = network_of(one.item)
    if changes := network_changes(there, one.network):
        notes.append(f"network {there.name} remains unchanged; in the file: {changes}")
    return Wanted(there, one.item)


def _nics(
    config: Config, wanted: Mapping[str, Wanted], notes: list[str]
) -> Iterator[tuple[StoredNic, NicSpec]]:
    """Yield each NIC with its requests. Raises Malformed."""
    owners = names_here("instance", (nic.instance for nic in config.nics), _can_own, notes)
    ledgers = {uuid: Ledger(one.network) for uuid, one in wanted.items()}
    for nic in config.nics:
        notes += nic_notes(nic)
        yield nic, _spec(nic, owners[nic.instance], ledgers.get(nic.network))
    orphans = [nic for nic in config.nics if nic.network not in wanted]
    notes += orphan_notes(orphans, [one.network for one in wanted.values()])


def _spec(nic: StoredNic, owner: str, ledger: Ledger | None) -> NicSpec:
    """Compute the requests of a NIC; `ledger` is that of its network. Raises Malformed."""
    ips = nic.ips if ledger is not None else ()
    connection = _connection(nic, ledger.network if ledger is not None else None)
    return NicSpec(
        owner=OwnerSpec(kind=INSTANCE, name=owner),
        network=ledger.network.id if ledger is not None else "",
        ips=tuple(map(format_address, ips)),
        force=ledger is not None and any(map(ledger.is_reserved, ips)),
        index=nic.index,
        name=imported_name(nic.name),
        uuid=nic.uuid if is_uuid(nic.uuid) else "",
        mac=_mac(nic),
        mode=connection.mode,
        link=connection.link,
        vlan=connection.vlan,
    )


def _check(specs: Mapping[StoredNic, NicSpec]) -> None:
    """Raise Malformed for NICs that a server would refuse, before anything is written."""
    wrong = []
    for nic, spec in specs.items():
        try:
            check_nic(NicObject(spec=spec))
        except Malformed as error:
            wrong.append(f"{nic}: {error}")
    if wrong:
        raise Malformed(listed_reasons("the file has NICs that can't be imported", wrong))


def _can_own(name: str) -> bool:
    """Return whether an instance can have a name."""
    try:
        check_instance(name)
    except Malformed:
        return False
    return True


def _connection(nic: StoredNic, network: Network | None) -> Connection:
    """Return a NIC's own connection: none where its network has the same for every node group."""
    own = Connection(group="", mode=nic.mode, link=nic.link, vlan=nic.vlan)
    same = {replace(one, group="") for one in network.connections} if network is not None else set()
    return Connection(group="", mode="", link="") if same == {own} else own


def _mac(nic: StoredNic) -> str:
    try:
        return parse_mac(nic.mac) if nic.mac else ""
    except Malformed as error:
        raise Malformed(f"{nic}: {error}") from None


def _rows(wanted: Iterable[Wanted], specs: Iterable[NicSpec]) -> Iterator[NetworkRow]:
    addresses: dict[str, list[int]] = defaultdict(list)
    for spec in specs:
        addresses[spec.network].append(len(spec.ips))
    for one in wanted:
        yield NetworkRow(
            object=one.network.id,
            name=one.network.name,
            subnets=tuple(str(subnet.cidr) for subnet in one.network.subnets),
            nics=len(addresses[one.network.id]),
            addresses=sum(addresses[one.network.id]),
            new=one.item is None,
        )


def _refuse(reasons: list[str], what: str) -> None:
    if reasons:
        raise Denied(listed_reasons(what, reasons))
