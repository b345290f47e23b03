"""Adding, changing and removing instances: read, plan, write; and anew where somebody else wrote at the same time."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from lanloom.api.ipam import INSTANCE, VIRTUAL_MACHINE, OwnerSpec
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.app.ipam.instanceplan import Insistence, Plan, plan_add, plan_modify, plan_remove
from lanloom.app.ipam.instances import find_instance
from lanloom.app.ipam.instanceviews import NicView, foreseen, views
from lanloom.app.ipam.instancewrite import Tell, carry_out
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.net_option import NetStep
from lanloom.ipam.state import State, read_state
from lanloom.kube.errors import AlreadyExists, Conflict, NotFound
from lanloom.kube.ports import Client

ATTEMPTS = 10
"""How often an instance that others change at the same time is read and planned anew."""

PAUSE_SECONDS = 0.05
"""Between the first and the second attempt; longer each time."""

Planner = Callable[[State], Plan]


class Done(Struct, frozen=True, kw_only=True):
    """What was done to an instance, or would be: its NICs before and after, and what else is to be known of it."""

    before: tuple[NicView, ...] = ()
    after: tuple[NicView, ...] = ()
    notes: tuple[str, ...] = ()


class How(Struct, frozen=True, kw_only=True):
    """How a change is made: on a copy only, and whether to wait until addresses are given; `tell` hears each step."""

    dry_run: bool = False
    wait: bool = True
    tell: Tell = lambda _: None


async def add(client: Client, key: Key, steps: Sequence[NetStep], with_: Insistence, how: How) -> Done:
    """A new instance with its addresses. Raises Malformed, Refused, KubeError."""
    owner = await owner_of(client, key)
    return await _change(client, key, lambda state: plan_add(state, key, owner, steps, with_), how)


async def modify(client: Client, key: Key, steps: Sequence[NetStep], with_: Insistence, how: How) -> Done:
    """Changes an instance's NICs. Raises Malformed, Refused, KubeError."""
    owner = await owner_of(client, key)
    return await _change(client, key, lambda state: plan_modify(state, key, owner, steps, with_), how)


async def remove(client: Client, key: Key, how: How) -> Done:
    """Removes an instance. Raises Refused, KubeError."""
    return await _change(client, key, lambda state: plan_remove(state, key), how)


async def owner_of(client: Client, key: Key) -> OwnerSpec:
    """Whom NICs of an instance belong to: the virtual machine of that name, if there is one. Raises KubeError."""
    try:
        machine = await client.get(VIRTUAL_MACHINES, key.name, key.namespace)
    except NotFound:  # also where there is no KubeVirt
        return OwnerSpec(kind=INSTANCE, name=key.name)
    return OwnerSpec(kind=VIRTUAL_MACHINE, name=key.name, uid=machine.metadata.uid)


async def _change(client: Client, key: Key, planner: Planner, how: How) -> Done:
    for attempt in range(ATTEMPTS):
        await asyncio.sleep(attempt * PAUSE_SECONDS)
        state = await read_state(client)
        plan = planner(state)
        if how.dry_run:
            networks = state.by_id()
            return Done(before=_views(state, key), after=foreseen(plan.outlook, networks), notes=_notes(plan))
        with suppress(Conflict, AlreadyExists):
            await carry_out(client, plan, wait=how.wait, tell=how.tell)
            after = _views(await read_state(client), key)
            return Done(before=_views(state, key), after=after, notes=_notes(plan))
    raise Refused(f"others change instance {key.name} at the same time, and nothing was changed; try again")


def _views(state: State, key: Key) -> tuple[NicView, ...]:
    found = find_instance(state, key.namespace, key.name)
    return views(found) if found is not None else ()


def _notes(plan: Plan) -> tuple[str, ...]:
    """What becomes of the addresses of a machine's NICs that are removed."""
    gone = [change.before for change in plan.changes if change.after is None and change.before is not None]
    return tuple(
        f"NIC {nic.metadata.name} keeps its addresses until {VIRTUAL_MACHINE} {nic.spec.owner.name} has ended"
        for nic in gone
        if nic.spec.owner.kind == VIRTUAL_MACHINE and nic.status.ips
    )
