"""Plans of an instance's NICs: computed on copies, validated by the rules, and not yet written.

What is planned is written in stages, so that nothing that a NIC has is given up before everything new was given:

1. explicit addresses, where one NIC of the instance could get automatically what another one asks for by address;
2. everything new, in addition to what is to be given up;
3. what is wanted at the end. NICs that move to another network do it here, unless the first stage was needed.

Most changes need the last stage only. NICs are deleted when all stages are done.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import INSTANCE, Nic, NicSpec, OwnerSpec
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.meta import Key
from lanloom.features.ipam.cli.grammar.net_option import NetStep
from lanloom.features.ipam.cli.grammar.nics import (
    NicContext,
    WantedNic,
    addresses_now,
    apply,
)
from lanloom.features.ipam.commands.instances import (
    check_instance,
    find_instance,
    instances,
    the_instance,
    wanted_nics,
)
from lanloom.features.ipam.rules.addresses import find_address, format_address
from lanloom.features.ipam.rules.ledger import AddressInUse, Ledger
from lanloom.features.ipam.rules.names import object_name
from lanloom.features.ipam.rules.requests import CHOOSE_ANOTHER, MOST, Macs
from lanloom.features.ipam.rules.shares import check_served
from lanloom.features.ipam.state import State, network_of
from lanloom.refusals import Denied, Refusal


class Change(Struct, frozen=True, kw_only=True):
    """A NIC's object before and after; None where there is none. `key` is the object's."""

    key: Key
    before: Nic | None
    after: NicSpec | None

    @property
    def of_addresses(self) -> bool:
        """Whether it may change what the NIC owns."""
        old = self.before.spec if self.before is not None else None
        if old is None or self.after is None:
            return old is not None or (self.after is not None and self.after.ips != ())
        new = self.after
        return (old.network, old.ips, old.release) != (new.network, new.ips, new.release)

    def gives_back(self, ip: str) -> bool:
        """Return whether it takes that address from the NIC, which has it."""
        if self.before is None or self.after is None:
            return self.after is None
        return self.after.network != self.before.spec.network or ip in self.after.release


class Preview(Struct, frozen=True, kw_only=True):
    """A NIC as it would be; `ips` are what it would get if everything were written now."""

    key: Key
    index: int
    spec: NicSpec
    ips: tuple[str, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """The changes of an instance, and its NICs afterwards, in order."""

    key: Key
    changes: tuple[Change, ...] = ()
    preview: tuple[Preview, ...] = ()

    @property
    def gone(self) -> tuple[Nic, ...]:
        """The NICs that are to be deleted."""
        return tuple(one.before for one in self.changes if one.after is None and one.before is not None)


class PlanOptions(Struct, frozen=True, kw_only=True):
    """Plan options: `force`, and random numbers for MAC addresses."""

    rng: Random
    force: bool = False


def plan_add(state: State, key: Key, owner: OwnerSpec, steps: Sequence[NetStep], how: PlanOptions) -> Plan:
    """Return a new instance. Raises Malformed, Denied."""
    check_instance(key.name)
    if find_instance(state, key.namespace, key.name) is not None:
        raise Denied(
            f"instance {key.name} already exists in namespace {key.namespace}; choose another name, "
            f"or change it with `lanloom instance modify {key.name}`"
        )
    return _plan(state, key, owner, (), apply((), steps, _nic_context(state, how)))


def plan_modify(state: State, key: Key, owner: OwnerSpec, steps: Sequence[NetStep], how: PlanOptions) -> Plan:
    """Return the changes of an instance; without a NIC that is left it is removed. Raises Malformed, Denied."""
    nics = the_instance(state, key.namespace, key.name).nics
    return _plan(state, key, owner, nics, apply(wanted_nics(nics), steps, _nic_context(state, how)))


def plan_remove(state: State, key: Key) -> Plan:
    """Return the end of an instance. Raises Denied."""
    nics = the_instance(state, key.namespace, key.name).nics
    return _plan(state, key, nics[0].spec.owner, nics, ())


def plan_rename(state: State, key: Key, name: str) -> Plan:
    """Return an instance under another name, with the same NICs, addresses and objects. Raises Malformed, Denied.

    Every instance has a NIC 0, so two instances without a common number are the halves of a rename that was
    interrupted: it is continued.
    """
    check_instance(name)
    nics = the_instance(state, key.namespace, key.name).nics
    other = find_instance(state, key.namespace, name) if name != key.name else None
    for owner in (nic.spec.owner for nic in (*nics, *(other.nics if other is not None else ()))):
        if owner.kind != INSTANCE:
            raise Denied(
                f"{owner.kind} {key.namespace}/{owner.name} can't be renamed, nor can an instance get its name: "
                "its NICs go by the name of its object; choose another instance or another name"
            )
    renamed = other.nics if other is not None else ()
    if {nic.spec.index for nic in renamed} & {nic.spec.index for nic in nics}:
        raise Denied(
            f"instance {name} already exists in namespace {key.namespace}; choose another name, or remove it first"
        )
    changes, preview = list[Change](), list[Preview]()
    for index, nic in enumerate(sorted((*nics, *renamed), key=lambda nic: nic.spec.index)):
        place, spec = nic.metadata.key, replace(nic.spec, owner=replace(nic.spec.owner, name=name))
        if spec != nic.spec:
            changes.append(Change(key=place, before=nic, after=spec))
        preview.append(Preview(key=place, index=index, spec=spec, ips=nic.status.ips))
    return Plan(key=Key(key.namespace, name), changes=tuple(changes), preview=tuple(preview))


def stages(plan: Plan, *, at_once: bool = False) -> list[list[tuple[Change, NicSpec]]]:
    """Return the writes of each NIC, stage by stage, or all `at_once`. Deletions are in none of them."""
    kept = [change for change in plan.changes if change.after is not None]
    several = sum(change.of_addresses for change in kept) > 1
    written = {change.key: change.before.spec if change.before is not None else None for change in kept}
    found: list[list[tuple[Change, NicSpec]]] = []
    for number in (2,) if at_once else (0, 1, 2):
        stage = []
        for change in kept:
            spec = _at_stage(change, number, several=several, contested=several and _contested(kept))
            if spec is not None and spec != written[change.key]:
                stage.append((change, spec))
                written[change.key] = spec
        if stage:
            found.append(stage)
    return found


def refusal_now(state: State, nic: Nic) -> str:
    """Return why a NIC can't get what it asks for; empty if it can."""
    try:
        addresses_now(wanted_nics((nic,)), _ledgers(state))
    except Refusal as error:
        return str(error)
    return ""


def _plan(
    state: State, key: Key, owner: OwnerSpec, before: Sequence[Nic], after: Sequence[WantedNic]
) -> Plan:
    olds = {str(nic.metadata.key): nic for nic in before}
    same = set(wanted_nics(before))
    names = _free_names(state, key)
    changes, preview = list[Change](), list[tuple[WantedNic, NicSpec]]()
    for index, nic in enumerate(after):
        old = olds.pop(nic.key, None)
        place = old.metadata.key if old is not None else next(names)
        spec = _spec(nic, old, owner, index, same=nic in same)
        if old is None or spec != old.spec:
            changes.append(Change(key=place, before=old, after=spec))
        preview.append((replace(nic, key=str(place)), spec))
    changes += [Change(key=old.metadata.key, before=old, after=None) for old in olds.values()]
    _check_joined(state, changes)
    try:
        return Plan(key=key, changes=tuple(changes), preview=_preview(state, preview, same))
    except AddressInUse as error:
        raise _explained(error, state, changes) from None


def _check_joined(state: State, changes: Iterable[Change]) -> None:
    """Raise Denied for a NIC that joins a network that does not serve it or is going, even without addresses."""
    networks = state.by_id()
    for change in changes:
        former = change.before.spec.network if change.before is not None else ""
        joined = change.after.network if change.after is not None else ""
        if joined != former and joined in networks:
            check_served(network_of(networks[joined]), change.key.namespace)
            if networks[joined].metadata.is_deleting:
                raise _closed(networks[joined])


def _closed(network: NetworkObject) -> Denied:
    return Denied(f"network {network.called} is being deleted and gives no addresses; use another one")


def _explained(error: AddressInUse, state: State, changes: Iterable[Change]) -> AddressInUse:
    """Return the same refusal with the number of the NIC that has the address, and whether this change takes it away.

    The name of a NIC's object ends with a number as well, which is that of the NIC only as long as no other is removed.
    """
    text = str(error)
    for found in instances(state):
        for index, nic in enumerate(found.nics):
            if str(nic.metadata.key) == error.owner and not nic.metadata.name.endswith(f"-{index}"):
                own = f"(NIC {error.owner}"
                text = text.replace(own, f"{own}, which is NIC {index} of instance {found.name}")
    if any(str(change.key) == error.owner and change.gives_back(error.ip) for change in changes):
        text = text.replace(CHOOSE_ANOTHER, "it is free after this change; request it in another one")
    return AddressInUse(text, error.owner, error.ip)


def _preview(
    state: State, nics: Sequence[tuple[WantedNic, NicSpec]], same: Collection[WantedNic]
) -> tuple[Preview, ...]:
    """Compute the addresses of each NIC. An unchanged NIC keeps its addresses, whatever it requests."""
    asking = [nic for nic, _ in nics if nic not in same]
    found = dict(zip((nic.key for nic in asking), addresses_now(asking, _ledgers(state)), strict=True))
    closed = {id_: item for id_, item in state.by_id().items() if item.metadata.is_deleting}
    for nic in asking:
        if nic.network in closed and not set(found[nic.key]) <= set(nic.held):
            raise _closed(closed[nic.network])
    return tuple(
        Preview(
            key=Key(*nic.key.split("/", 1)),
            index=index,
            spec=spec,
            ips=tuple(map(format_address, found.get(nic.key, nic.held))),
        )
        for index, (nic, spec) in enumerate(nics)
    )


def _ledgers(state: State) -> Callable[[str], Ledger]:
    """Return who owns what in the network of an id. Raises Denied, Malformed."""
    networks = state.by_id()
    known: dict[str, Ledger] = {}

    def ledger_of(id_: str) -> Ledger:
        if id_ not in networks:
            raise Denied(f"network {id_} does not exist; move the NIC to another one with network=…")
        if id_ not in known:
            known[id_] = state.ledger(networks[id_])
        return known[id_]

    return ledger_of


def _spec(nic: WantedNic, old: Nic | None, owner: OwnerSpec, index: int, *, same: bool) -> NicSpec:
    """Return the spec that asks for a NIC. One that only moves up is not touched otherwise."""
    spec = old.spec if old is not None else NicSpec(owner=owner)
    if same:
        return replace(spec, index=index)
    return replace(
        spec,
        network=nic.network,
        ips=nic.ips,
        release=nic.release,
        force=nic.force,
        index=index,
        name=nic.name,
        mac=nic.mac,
        mode=nic.mode,
        link=nic.link,
        vlan=nic.vlan,
    )


def _at_stage(change: Change, number: int, *, several: bool, contested: bool) -> NicSpec | None:
    """Return a NIC's requests in the first, second or third stage; None for nothing yet."""
    spec = change.after
    if spec is None or number == 2 or not several:
        return spec if number == 2 else None
    old = change.before
    moves = old is not None and old.spec.network != spec.network
    held = old.status.ips if old is not None and not moves else ()
    leaving = tuple(text for text in spec.release if text in held)
    if len(spec.ips) + len(leaving) > MOST:  # no NIC may have so many, so this one gives up first
        return None
    if number == 1:
        return None if moves else replace(spec, ips=spec.ips + leaving, release=()) if leaving else spec
    explicit = tuple(text for text in spec.ips if find_address(text) is not None)
    kept = tuple(text for text in held if text not in explicit)
    return replace(spec, ips=explicit + kept, release=()) if contested and explicit else None


def _contested(changes: Iterable[Change]) -> bool:
    """Return whether a NIC could get automatically what another NIC of the operation asks for by address."""
    asking: dict[str, tuple[set[Key], set[Key]]] = {}
    for change in changes:
        spec, held = change.after, change.before.status.ips if change.before is not None else ()
        for text in spec.ips if spec is not None else ():
            if spec is not None and text not in held:
                explicit = find_address(text) is not None
                asking.setdefault(spec.network, (set(), set()))[explicit].add(change.key)
    return any(one and other and len(one | other) > 1 for one, other in asking.values())


def _nic_context(state: State, how: PlanOptions) -> NicContext:
    networks = state.by_id()
    return NicContext(
        find=lambda ident: network_of(state.find(ident)),
        by_id=lambda id_: network_of(networks[id_]) if id_ in networks else None,
        macs=Macs((nic.spec.mac for nic in state.nics), how.rng),
        force=how.force,
    )


def _free_names(state: State, key: Key) -> Iterator[Key]:
    """Return names for objects of new NICs. Two clients that add the same instance choose the same; one is refused."""
    taken = {nic.metadata.key for nic in state.nics}
    base = object_name(key.name)
    names = (Key(key.namespace, f"{base}-{number}") for number in count())
    return (name for name in names if name not in taken)
