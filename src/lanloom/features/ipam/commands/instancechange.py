"""Add, change and remove instances: read, plan, write; and again after a concurrent write.

A plan is written as a whole or not at all: what was written before a failure is undone. A dry run writes the same by a
client of whose requests the server stores nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from lanloom.api.ipam import (
    INSTANCE,
    NICS,
    VIRTUAL_MACHINE,
    Nic,
    NicSpec,
    OwnerSpec,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.features.ipam.cli.grammar.net_option import NetStep
from lanloom.features.ipam.commands.instanceplan import (
    Change,
    Plan,
    PlanOptions,
    plan_add,
    plan_modify,
    plan_remove,
    plan_rename,
    refusal_now,
    stages,
)
from lanloom.features.ipam.commands.instances import find_instance, refusal
from lanloom.features.ipam.commands.instanceviews import NicView, foreseen, views
from lanloom.features.ipam.state import (
    State,
    is_refused,
    is_satisfied,
    read_state,
)
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
)
from lanloom.kube.patches import struct_diff
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Refusal

ATTEMPTS = 10
"""How often an instance that others change at the same time is read and planned again."""

PAUSE_SECONDS = 0.05
"""Between the first and the second attempt; longer each time."""

Report = Callable[[str], None]

Planner = Callable[[State], Plan]

Check = Callable[[State], None]
"""Raises Denied where what was written can't stay."""


class Result(Struct, frozen=True, kw_only=True):
    """The result of a change or dry run: the instance's NICs before and after, and notes."""

    before: tuple[NicView, ...] = ()
    after: tuple[NicView, ...] = ()
    notes: tuple[str, ...] = ()


class ApplyOptions(Struct, frozen=True, kw_only=True):
    """How a change is made: whether the client stores nothing, and whether to wait until addresses are given.

    `report` hears each step.
    """

    dry_run: bool = False
    wait: bool = True
    report: Report = lambda _: None


async def add(
    client: Client, key: Key, steps: Sequence[NetStep], with_: PlanOptions, how: ApplyOptions
) -> Result:
    """Return a new instance with its addresses. Raises Malformed, Denied, KubeError."""
    owner = await owner_of(client, key)
    try:
        return await _change(client, key, lambda state: plan_add(state, key, owner, steps, with_), how)
    except NotFound as error:
        if not error.is_of(key.namespace):
            raise
        raise Denied(
            f"namespace {key.namespace} does not exist; -n names a Kubernetes namespace, not a node: create it, or "
            "omit -n"
        ) from None


async def modify(
    client: Client, key: Key, steps: Sequence[NetStep], with_: PlanOptions, how: ApplyOptions
) -> Result:
    """Change an instance's NICs. Raises Malformed, Denied, KubeError."""
    owner = await owner_of(client, key)
    done = await _change(client, key, lambda state: plan_modify(state, key, owner, steps, with_), how)
    if done.after:
        return done
    return replace(done, notes=(*done.notes, f"instance {key.name} has no NIC left and is removed"))


async def remove(client: Client, key: Key, how: ApplyOptions) -> Result:
    """Remove an instance. Raises Denied, KubeError."""
    return await _change(client, key, lambda state: plan_remove(state, key), how)


async def rename(client: Client, key: Key, name: str, how: ApplyOptions) -> Result:
    """Give an instance another name. Raises Malformed, Denied, KubeError."""
    new = Key(key.namespace, name)

    def plan(state: State) -> Plan:
        if owner.kind != INSTANCE:
            raise Denied(f"{owner.kind} {new} exists, whose NICs would be meant; choose another name")
        return plan_rename(state, key, name)

    def check(state: State) -> None:
        """Raise Denied where another user gave an instance the name at the same time."""
        found = find_instance(state, *new)
        numbers = [nic.spec.index for nic in found.nics] if found is not None else []
        if len(numbers) != len(set(numbers)):
            raise Denied(
                f"instance {name} exists since a moment ago, so nothing was changed; choose another name"
            )

    owner = await owner_of(client, new)
    return await _change(client, key, plan, replace(how, wait=False), check)


async def owner_of(client: Client, key: Key) -> OwnerSpec:
    """Return the owner of an instance's NICs: the virtual machine of that name, if it exists. Raises KubeError."""
    try:
        machine = await client.get(VIRTUAL_MACHINES, key.name, key.namespace)
    except NotFound:  # also where there is no KubeVirt
        return OwnerSpec(kind=INSTANCE, name=key.name)
    return OwnerSpec(kind=VIRTUAL_MACHINE, name=key.name, uid=machine.metadata.uid)


async def _change(
    client: Client, key: Key, planner: Planner, how: ApplyOptions, check: Check | None = None
) -> Result:
    for attempt in range(ATTEMPTS):
        await asyncio.sleep(attempt * PAUSE_SECONDS)
        state = await read_state(client)
        plan = planner(state)
        with suppress(Conflict, AlreadyExists):
            if how.dry_run:
                await _try_out(client, plan, wait=how.wait)
                after = foreseen(plan.preview, state.by_id())
            else:
                await carry_out(client, plan, wait=how.wait, report=how.report, check=check)
                after = _views(await read_state(client), plan.key)
            return Result(before=_views(state, key), after=after, notes=_notes(plan))
    raise Denied(
        f"another client changes instance {key.name} at the same time, and nothing was changed; try again"
    )


def _views(state: State, key: Key) -> tuple[NicView, ...]:
    found = find_instance(state, key.namespace, key.name)
    return views(found) if found is not None else ()


def _notes(plan: Plan) -> tuple[str, ...]:
    """Describe the addresses of a machine's removed NICs."""
    gone = [change.before for change in plan.changes if change.after is None and change.before is not None]
    return tuple(
        f"NIC {nic.metadata.name} keeps its addresses until {VIRTUAL_MACHINE} {nic.spec.owner.name} has ended"
        for nic in gone
        if nic.spec.owner.kind == VIRTUAL_MACHINE and nic.status.ips
    )


WAIT_SECONDS = 30.0
"""How long the manager may take to give addresses; it takes milliseconds if it is there."""

_FIRST_POLL, _LONGEST_PAUSE = 0.01, 0.5
"""Seconds between two looks at a NIC; doubled each time."""

Written = dict[Key, Nic]
"""The last write of each NIC."""


async def carry_out(
    client: Client, plan: Plan, *, wait: bool, report: Report, check: Check | None = None
) -> None:
    """Write all that is planned, and wait until the NICs have their addresses; `report` gets each step's name.

    `check` then sees the cluster, before anything is deleted.

    Raises Denied with the reason where another user was faster, KubeError (Conflict and AlreadyExists if a NIC
    changed since it was read). Nothing is left of it then, whatever ended it. Deletions come last: they can't be
    undone.
    """
    written: Written = {}
    deleted: list[str] = []
    try:
        await _write_all(client, plan, written, wait=wait, report=report)
        if check is not None:
            check(await read_state(client))
        for nic in plan.gone:
            await _delete(client, nic)
            deleted.append(f"NIC {nic.metadata.key} is deleted")
    except BaseException as error:
        left = deleted + await _undo(client, plan, written)
        if left and isinstance(error, Refusal | KubeError):
            others = isinstance(error, Conflict | AlreadyExists)
            why = "another client changed the instance" if others else str(error)
            raise Denied(f"{why}; this could not be undone: {'; '.join(left)}") from None
        raise
    awaited = [nic for nic in plan.gone if nic.spec.owner.kind == INSTANCE] if wait else []
    if awaited:
        report("waiting until addresses are given back")
        await _ended(client, awaited)


async def _try_out(client: Client, plan: Plan, *, wait: bool) -> None:
    """Let the server judge each write, all from what is stored now. Raises KubeError."""
    for change, spec in chain.from_iterable(stages(plan, at_once=not wait)):
        await _write(client, change, spec, {})
    for nic in plan.gone:
        await _delete(client, nic)


async def _write_all(client: Client, plan: Plan, written: Written, *, wait: bool, report: Report) -> None:
    """Write stage by stage, each when the one before it is settled."""
    for stage in stages(plan, at_once=not wait):
        for change, spec in stage:
            written[change.key] = await _write(client, change, spec, written)
        if wait:
            report("waiting for addresses")
            await _settled(client, [written[change.key] for change, _ in stage])


async def _write(client: Client, change: Change, spec: NicSpec, written: Written) -> Nic:
    """Create the NIC, or change it from what it was last."""
    last = written.get(change.key, change.before)
    if last is not None:
        with _deleted_is_changed():
            return await _patch(client, last, spec)
    body = {"metadata": {"name": change.key.name}, "spec": to_builtins(spec)}
    return await client.create(NICS, body, change.key.namespace)


async def _patch(client: Client, last: Nic, spec: NicSpec) -> Nic:
    """Raise Conflict if the NIC's spec is no longer that of `last`. Its status changes all the time, and may."""
    place, now = last.metadata.key, last
    while True:
        try:
            return await _patch_once(client, now, spec)
        except Conflict:
            now = await client.get(NICS, place.name, place.namespace)
            if now.spec != last.spec or now.metadata.uid != last.metadata.uid:
                raise


async def _patch_once(client: Client, now: Nic, spec: NicSpec) -> Nic:
    """Raise Conflict if anything of the NIC changed."""
    version = {"resourceVersion": now.metadata.resource_version}
    body = {"metadata": version, "spec": struct_diff(now.spec, spec)}
    return await client.patch(NICS, now.metadata.name, body, now.metadata.namespace)


async def _settled(client: Client, nics: list[Nic]) -> None:
    """Wait until each NIC has what it asks for. Raises Denied if one does not get it, or no manager gives any."""
    waiting = [nic.metadata.key for nic in nics if nic.spec.ips or nic.status.ips]
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            for place in waiting:
                with _deleted_is_changed():
                    await _has_its_own(client, place)
    except TimeoutError:
        reason = refusal(await client.get(NICS, place.name, place.namespace))
        late = f"NIC {place} got no addresses within {WAIT_SECONDS:.0f} s, so nothing was changed; "
        raise Denied(
            _refused(place, reason)
            if reason
            else late + "check that `lanloom manager` runs, or use --no-wait"
        ) from None


def _refused(place: Key, why: str) -> str:
    return f"the addresses of NIC {place} were refused, so nothing was changed: {why}"


async def _has_its_own(client: Client, place: Key) -> None:
    """Wait while a NIC is not reconciled yet, or was refused by a manager that did not know of the latest changes."""
    pause = _FIRST_POLL
    while True:
        nic = await client.get(NICS, place.name, place.namespace)
        if is_satisfied(nic):
            return
        if is_refused(nic) and (why := refusal_now(await read_state(client), nic)):
            raise Denied(_refused(place, why))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _undo(client: Client, plan: Plan, written: Written) -> list[str]:
    """Take back what was written; return what could not be, in words."""
    left = []
    for change in reversed([change for change in plan.changes if change.key in written]):
        nic = written[change.key]
        try:
            if change.before is None:
                await _discard(client, nic)
            else:
                await _restore(client, nic, change.before)
        except NotFound:
            continue
        except (KubeError, Denied) as error:
            left.append(f"NIC {change.key} is changed ({error})")
    return left


async def _restore(client: Client, last: Nic, before: Nic) -> None:
    """Make a NIC ask for what it asked for before, when it has the addresses again that it had.

    An automatic entry would keep what it got meanwhile; so the addresses themselves are asked for first. Raises
    Denied if one of them is lost, KubeError.
    """
    place, pause = last.metadata.key, _FIRST_POLL
    exactly = replace(before.spec, ips=before.status.ips, release=(), force=True)
    ends = asyncio.get_running_loop().time() + WAIT_SECONDS
    while True:
        now = await client.get(NICS, place.name, place.namespace)
        if now.metadata.uid != last.metadata.uid or now.spec != last.spec:
            raise Denied("another client changed it meanwhile")
        same = (now.status.network, now.status.ips) == (before.status.network, before.status.ips)
        late = (is_refused(now) and now.spec == exactly) or asyncio.get_running_loop().time() >= ends
        wanted = before.spec if same or late else exactly
        with suppress(Conflict):
            if wanted != now.spec:
                last = await _patch_once(client, now, wanted)
            if wanted is before.spec:
                break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    if not same:
        raise Denied(f"it had {', '.join(before.status.ips) or 'no address'}")


async def _discard(client: Client, nic: Nic) -> None:
    """Delete a NIC that was just made. That of a machine would keep its addresses until the machine has ended."""
    place = nic.metadata.key
    if nic.spec.owner.kind != INSTANCE and nic.spec.ips:
        await _patch(client, nic, replace(nic.spec, ips=()))
    await client.delete(NICS, place.name, place.namespace, uid=nic.metadata.uid)


async def _delete(client: Client, nic: Nic) -> None:
    with suppress(NotFound):
        await client.delete(NICS, nic.metadata.name, nic.metadata.namespace, uid=nic.metadata.uid)


async def _ended(client: Client, nics: list[Nic]) -> None:
    """Wait until deleted NICs are gone, and their addresses free."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            for nic in nics:
                await _is_gone(client, nic)
    except TimeoutError:
        raise Denied(
            f"NIC {nic.metadata.key} is deleted, but its addresses were not released within {WAIT_SECONDS:.0f} s; "
            "check that `lanloom manager` runs"
        ) from None


async def _is_gone(client: Client, nic: Nic) -> None:
    place, pause = nic.metadata.key, _FIRST_POLL
    with suppress(NotFound):
        while (await client.get(NICS, place.name, place.namespace)).metadata.uid == nic.metadata.uid:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


@contextmanager
def _deleted_is_changed() -> Iterator[None]:
    """Raise Conflict for a NIC that was deleted meanwhile: what is planned must be planned again."""
    try:
        yield
    except NotFound as error:
        raise Conflict(error.code, error.reason, error.message) from None
