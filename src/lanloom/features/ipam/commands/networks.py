"""Changes of networks: read everything, apply the rules to a copy, and write what differs if nothing changed meanwhile.

The webhooks validate by the same rules again, and by what else is on a network's wires. Validation here lets a refusal
name the command's options. A dry run is the same with a client of whose requests the server stores nothing.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from random import Random

from msgspec import Struct, to_builtins

from lanloom.api.ipam import NETWORKS
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.features.ipam.rules.change import Step, apply
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.names import check_name, object_name
from lanloom.features.ipam.state import State, network_of, new_spec, read_state, spec_after
from lanloom.kube.controller import backoff
from lanloom.kube.errors import AlreadyExists, Conflict
from lanloom.kube.patches import Raw, struct_diff
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Malformed

PATIENCE = 30.0
"""Seconds for which a change is computed again when another writer was first; a busy allocator writes often."""

NewUuid = Callable[[], str]
NetworkCheck = Callable[[State, Network], None]
"""Raises Denied for a changed network that the rest of the cluster does not allow."""


class Result(Struct, frozen=True, kw_only=True):
    """The result of a change or dry run: the network before and after, None where there was or is none."""

    before: Network | None = None
    after: Network | None = None
    notes: tuple[str, ...] = ()


async def add(client: Client, name: str, steps: Iterable[Step], new_uuid: NewUuid) -> Result:
    """Add a network. Raises Malformed, Denied, KubeError."""
    check_name(name, "a network")
    state = await read_state(client)
    name_is_free(state, Network(id="", name=name))
    new = Network(id=_free_object_name(state, name), name=name)
    change = apply(new, steps, Ledger(new), new_uuid)
    try:
        await client.create(
            NETWORKS, {"metadata": {"name": new.id}, "spec": to_builtins(new_spec(change.network))}
        )
    except AlreadyExists:
        raise _taken(name) from None
    return Result(after=change.network, notes=change.notes)


class Edit(Struct, frozen=True, kw_only=True):
    """A change of a network: its steps, which may depend on its present form, and what else must allow it."""

    ident: str
    steps: Callable[[Network], Iterable[Step]]
    new_uuid: NewUuid
    check: NetworkCheck | None = None


async def modify(client: Client, edit: Edit, rng: Random) -> Result:
    """Change a network, whatever else writes to it. Raises Malformed, Denied, KubeError."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    for attempt in count():
        try:
            return await _modify(client, edit)
        except Conflict:
            if loop.time() >= until:
                break
        await asyncio.sleep(backoff(attempt, rng, first=0.02, cap=0.5))
    raise Denied(
        f"another client changes network {edit.ident} continuously; nothing was changed, try again later"
    )


async def _modify(client: Client, edit: Edit) -> Result:
    """Make one attempt. Raises Conflict where another client wrote in between."""
    state = await read_state(client)
    item = state.find(edit.ident)
    before = network_of(item)
    change = apply(before, edit.steps(before), state.ledger(item), edit.new_uuid)
    if edit.check is not None:
        edit.check(state, change.network)
    patch = _patch(item, before, change.network)
    if patch:
        version = {"resourceVersion": item.metadata.resource_version}
        await client.patch(NETWORKS, item.metadata.name, {"metadata": version, "spec": patch})
    going = f"network {before.name} is being deleted, and remains only until no NIC owns an address of it"
    notes = (*change.notes, *([going] if item.metadata.is_deleting else []))
    return Result(before=before, after=change.network, notes=notes)


async def remove(client: Client, ident: str) -> Result:
    """Remove a network without users. Raises Denied, KubeError."""
    state = await read_state(client)
    item = state.find(ident)
    network = network_of(item)
    if network.connections:
        groups = ", ".join(one.group for one in network.connections)
        raise Denied(
            f"network {network.name} is connected to node groups: {groups}; "
            f"disconnect it first, with `lanloom network disconnect {network.name}`"
        )
    if nics := nics_on(state, item):
        raise Denied(
            f"network {network.name} has {len(nics)} NIC{'s' * (len(nics) > 1)} on it, such as "
            f"{nics[0].metadata.key} of {nics[0].spec.owner.kind} {nics[0].spec.owner.name}; "
            "remove them, or move them to another network first"
        )
    await client.delete(NETWORKS, item.metadata.name, uid=item.metadata.uid)
    return Result(before=network)


def name_is_free(state: State, network: Network) -> None:
    """Raise Denied where another network has the name. The name of a renamed network's object is free."""
    if any(item.called == network.name and item.metadata.name != network.id for item in state.networks):
        raise _taken(network.name)


def no_conflicts(state: State, network: Network) -> None:
    """Raise Denied where another network has the same addresses on the same link of the same node group."""
    for item in state.networks:
        if item.metadata.name == network.id:
            continue
        try:
            other = network_of(item)
        except Malformed:
            continue  # it gives no address, and says why itself
        shared = [one for one in network.connections if one in other.connections]
        for subnet in network.subnets if shared else ():
            for theirs in other.subnets:
                if subnet.cidr.range.overlaps(theirs.cidr.range):
                    raise Denied(
                        f"{subnet.title()} of network {network.name} overlaps {theirs.title()} of network "
                        f"{other.name}, which is connected to node group {shared[0].group} with the same link "
                        f"{shared[0].link}; choose another link or VLAN, or insist with --no-conflicts-check"
                    )


def nics_on(state: State, item: NetworkObject) -> list[NicObject]:
    """Return the NICs that are on a network, or that still have addresses of it."""
    name = item.metadata.name
    return [nic for nic in state.nics if name in (nic.spec.network, nic.status.network)]


def _free_object_name(state: State, name: str) -> str:
    """Return the object name of a new network; another one where it was made from the name of one that was renamed."""
    renamed = {item.metadata.name for item in state.networks if item.called != name}
    tried = (name, *(f"{name}_{number}" for number in range(2, len(renamed) + 3)))
    return next(found for text in tried if (found := object_name(text)) not in renamed)


def _taken(name: str) -> Denied:
    return Denied(f"there is a network {name} already; choose another name")


def _patch(item: NetworkObject, before: Network, after: Network) -> Raw:
    """Compute the patch; empty where only the text of a value would change."""
    if before == after:
        return {}
    return struct_diff(item.spec, spec_after(item, after))
