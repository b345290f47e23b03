"""Follow a move of a NIC until it is over: what `lanloom vm move --wait` reads at the API server."""

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import LEASES, LeaseSpec
from lanloom.api.kubevirt import nad_of
from lanloom.api.liveupdate import FINAL, NetworkSwap
from lanloom.api.meta import Condition, Key
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.liveupdate.machines import Machine
from lanloom.features.liveupdate.moving import Result
from lanloom.features.liveupdate.rules.move import Plan
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT
from lanloom.features.liveupdate.views import read_machine, view_of
from lanloom.kube.conditions import find
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.runtime.identity import MANAGER_LEASE

INTERVAL_SECONDS = 0.5
"""Time between two looks at a machine that is followed."""

PATIENCE_SECONDS, STALE_SECONDS = 5.0, 60.0
"""How long a machine may say that it needs help before that counts; the second, of what it said before the move.

That may be about an earlier edit, until a manager has looked: another one leads after half a minute at most. One that
leads all the time has looked, and says the same again.
"""

_HELPLESS = frozenset(
    {
        "PreflightFailed",
        "InPlaceFailed",
        "AttemptsExhausted",
        "NotMigratable",
        "FeatureGateOff",
        "RestartRequired",
        "StrategyUnset",
        "InvalidSpec",
        "InvalidPolicy",
        "Unreadable",
        "Refused",
    }
)
"""Reasons of NetworksCurrent that only a user's action ends."""


class Step(Struct, frozen=True, kw_only=True):
    """How far a move is. `outcome` is empty as long as it goes on; `needs` is why it goes on with help only."""

    text: str
    needs: Condition | None = None
    outcome: Literal["", "moved", "failed"] = ""
    gap: float | None = None


async def follow(
    client: Client, machine: Machine, begun: Result, plan: Plan, report: Callable[[str], None], seconds: float
) -> Result:
    """Watch a move that was requested until it is over, or `seconds` have passed, and report each step.

    Cancelling this stops the watch; the move goes on. An API server that does not answer is asked again. Raises
    Denied for a machine that is deleted.
    """
    loop = asyncio.get_running_loop()
    start, step, said, since = loop.time(), Step(text="requested"), "", loop.time()
    earlier = frozenset(item.metadata.name for item in machine.swaps if item.status.phase in FINAL)
    known = _needed_help(machine)
    lease = await _manager_lease(client) if known is not None else None
    try:
        async with asyncio.timeout(seconds):
            while True:
                step = await _progress(client, machine.key, begun, plan, earlier)
                if step.outcome:
                    break
                if step.text != said:
                    report(said := step.text)
                    since = loop.time()
                elif step.needs is not None and (passed := loop.time() - since) >= PATIENCE_SECONDS:
                    stale = step.needs == known and passed < STALE_SECONDS
                    if not stale or _has_led(lease, await _manager_lease(client)):
                        step = replace(step, outcome="failed")
                        break
                await asyncio.sleep(INTERVAL_SECONDS)
    except TimeoutError:
        text = f"it is not over after {seconds:g} seconds and goes on: {step.text}"
        return replace(begun, outcome="timed-out", message=text, seconds=loop.time() - start)
    except asyncio.CancelledError:
        return replace(
            begun,
            outcome="interrupted",
            message=f"the move goes on: {step.text}",
            seconds=round(loop.time() - start, 3),
        )
    return replace(
        begun,
        outcome=step.outcome,
        message=step.text,
        gap=step.gap,
        seconds=round(loop.time() - start, 3),
    )


async def _manager_lease(client: Client) -> LeaseSpec | None:
    """Return who leads the managers; None if none does, or it can't be read."""
    try:
        found = await get_or_none(client, LEASES, Key(LANLOOM_NAMESPACE, MANAGER_LEASE))
    except KubeError:
        return None
    return found.spec if found is not None and found.spec.holder_identity else None


def _has_led(before: LeaseSpec | None, now: LeaseSpec | None) -> bool:
    """Return whether one manager led at both times, and renewed its lease between."""
    if before is None or now is None or before.renew_time == now.renew_time:
        return False
    return (before.holder_identity, before.lease_transitions) == (now.holder_identity, now.lease_transitions)


async def _progress(client: Client, key: Key, begun: Result, plan: Plan, earlier: frozenset[str]) -> Step:
    try:
        machine = await read_machine(client, key)
        return swap_step(machine, begun.swap) if begun.swap else edit_step(machine, plan, earlier)
    except KubeError as error:
        return Step(text=f"the API server does not answer; trying again: {error}")


def swap_step(machine: Machine, name: str) -> Step:
    """Return how far a move in place is."""
    swap = next((item for item in machine.swaps if item.metadata.name == name), None)
    if swap is None:
        return Step(text=f"NetworkSwap {name} is gone, or the machine has stopped", outcome="failed")
    return _of_swap(swap)


def _of_swap(swap: NetworkSwap) -> Step:
    status, port = swap.status, swap.status.port
    gap = port.gap_milliseconds or None if port is not None else None
    why = status.message or (port.error if port is not None else "")
    where = f" on {status.node}" if status.node else ""
    match status.phase:
        case "Succeeded":
            return Step(text=f"moved in place{where}", outcome="moved", gap=gap)
        case "UntilRestart":
            return Step(
                text=f"moved in place{where}, until the machine is restarted", outcome="moved", gap=gap
            )
        case "Reverted" | "Failed" as phase:
            return Step(text=f"{phase}: {why or 'no reason was given'}", outcome="failed", gap=gap)
    return Step(text=f"{status.phase or 'Pending'}{where}" + (f": {why}" if why else ""))


def edit_step(machine: Machine, plan: Plan, earlier: frozenset[str] = frozenset()) -> Step:
    """Return how far an edit of a machine is. `earlier` names swaps that had ended before it."""
    wanted = next((item.multus for item in machine.wanted if item.name == plan.nic), None)
    if wanted is None or nad_of(wanted, machine.key.namespace) != plan.to:
        now = nad_of(wanted, machine.key.namespace) if wanted is not None else "no network"
        return Step(text=f"the VirtualMachine names {now} again; the edit was undone", outcome="failed")
    if machine.vmi is None:
        return Step(text="the machine has stopped; the NIC moves when it starts", outcome="failed")
    moving = [
        item
        for item in machine.swaps
        if (item.spec.network, item.spec.target) == (plan.nic, plan.to) and item.metadata.name not in earlier
    ]
    view = view_of(machine)
    nic = next(item for item in view.nics if item.name == plan.nic)
    if view.state == "RestartRequired":
        return Step(text=view.message, outcome="failed")
    if nic.is_settled and machine.migration is None and machine.swap is None:
        return _settled(machine, moving)
    if moving and _of_swap(moving[-1]).outcome == "failed":
        return _of_swap(moving[-1])
    text = f"{view.state}: {view.message}" if view.message else view.state
    return Step(text=text, needs=_needed_help(machine) if view.state == "Waiting" else None)


def _needed_help(machine: Machine) -> Condition | None:
    conditions = machine.vmi.status.conditions if machine.vmi is not None else ()
    found = find(conditions, NETWORKS_CURRENT)
    return found if found is not None and found.status == "False" and found.reason in _HELPLESS else None


def _settled(machine: Machine, moving: list[NetworkSwap]) -> Step:
    if moving:
        return _of_swap(moving[-1])
    node = machine.vmi.status.node_name if machine.vmi is not None else ""
    return Step(text=f"moved by live migration; the machine is on {node or 'no node'}", outcome="moved")
