"""How a network of a running machine gets from one NAD to another: in a copy of the edit, in place, or not at all."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, machine_uid_of, nad_of
from lanloom.api.liveupdate import FINAL, POLICY, NetworkSwap, Policy
from lanloom.api.meta import Key
from lanloom.features.liveupdate.rules.mode import GATE
from lanloom.text import quote

POLICIES: tuple[Policy, ...] = ("migrate", "in-place", "prefer-in-place")

Step = Literal["copy", "swap", "wait", "restart", "blocked"]
"""`copy` the NAD to the instance, which then migrates unless it is there already; begin a `swap`; `wait` for one that
is under way; `restart` is the only way; `blocked` needs a user's action."""

Cause = Literal[
    "MovingInPlace",
    "PreflightFailed",
    "InPlaceFailed",
    "NotMigratable",
    "FeatureGateOff",
    "InvalidPolicy",
]
"""Why a network is not copied."""


class Difference(Struct, frozen=True):
    """A network whose NAD in the VirtualMachine is not the instance's. NADs are keys.

    `observed` is where the launcher pod is, None where that is unknown.
    """

    network: str
    wanted: Key
    present: Key
    observed: Key | None


class Strategy(Struct, frozen=True):
    """What to do about one difference, and why not more."""

    step: Step
    reason: Cause | None = None
    message: str = ""


def policy_of(machine: VirtualMachine | None) -> Policy | None:
    """Return the policy of a machine; None for a value that is none."""
    text = machine.metadata.annotations.get(POLICY, "") if machine is not None else ""
    if not text:
        return "migrate"
    return next((item for item in POLICIES if item == text), None)


def differences(
    owner: VirtualMachine, machine: VirtualMachineInstance, observed: Mapping[str, Key]
) -> tuple[Difference, ...]:
    """Return the networks of an instance whose NADs are not those of its VirtualMachine.

    With a policy for moves in place, also those that the pod does not have as both name them: an edit may have been
    taken back while its port moved.
    """
    template, own = owner.spec.template, machine.metadata.namespace
    if template is None or machine_uid_of(machine) != owner.metadata.uid:
        return ()
    wanted = {item.name: item.multus for item in template.spec.networks}
    in_place = policy_of(owner) in ("in-place", "prefer-in-place")
    found = []
    for item in machine.spec.networks:
        multus = wanted.get(item.name)
        if multus is None or item.multus is None:
            continue
        target, there = nad_of(multus, own), observed.get(item.name)
        astray = in_place and item.is_secondary and there is not None and there != target
        if multus.network_name != item.multus.network_name or astray:
            found.append(Difference(item.name, target, nad_of(item.multus, own), there))
    return tuple(found)


def swap_name(owner: VirtualMachine, machine: VirtualMachineInstance, difference: Difference) -> str:
    """Return the name of the swap for an edit: the same for the same edit, so that it is tried once."""
    meta = machine.metadata
    text = f"{meta.uid} {difference.network} {difference.wanted} {owner.metadata.generation}"
    return f"{meta.name}-{sha256(text.encode()).hexdigest()[:10]}"


class PlacementFacts(Struct, frozen=True, kw_only=True):
    """What the strategy for a network depends on besides its difference.

    `under_way` is a swap of the network that owns its port, `attempt` the swap of this edit, and `pending` another one
    that has not begun. `migrating` is whether a migration is under way. The preflight's reasons are those against each
    way.
    """

    policy: Policy | None
    gate: bool
    migratable: bool
    why_not_migratable: str = ""
    against_migration: tuple[str, ...] = ()
    against_in_place: tuple[str, ...] = ()
    under_way: NetworkSwap | None = None
    attempt: NetworkSwap | None = None
    pending: NetworkSwap | None = None
    migrating: bool = False


def strategy_of(difference: Difference, facts: PlacementFacts) -> Strategy:
    """Return what to do about a difference."""
    if difference.observed == difference.wanted:
        return Strategy("copy")
    if facts.under_way is not None:
        return Strategy("wait", "MovingInPlace", facts.under_way.status.message)
    if not facts.gate:
        remedy = "restart the machine, or start the manager with --live-update-nad-ref"
        return Strategy("restart", "FeatureGateOff", f"the feature gate {GATE} is off; {remedy}")
    if facts.policy is None:
        known = ", ".join(map(quote, POLICIES))
        return Strategy("blocked", "InvalidPolicy", f"metadata.annotations[{POLICY}] must be one of {known}")
    if facts.policy != "migrate":
        strategy = _in_place(facts)
        if strategy is not None:
            return strategy
    return _by_migration(facts)


def _in_place(facts: PlacementFacts) -> Strategy | None:
    """Return what to do in place; None for the other strategy."""
    attempt, against = facts.attempt, facts.against_in_place
    if attempt is not None and attempt.status.phase not in FINAL:
        return Strategy("wait", "MovingInPlace", attempt.status.message)
    if attempt is not None and attempt.status.phase == "Succeeded":
        return Strategy("wait", "MovingInPlace", "the launcher pod does not show the network yet")
    if facts.migrating:
        return Strategy("wait", "MovingInPlace", "waits for the end of the migration")
    if attempt is None and facts.pending is not None:
        return Strategy(
            "wait", "MovingInPlace", f"waits for NetworkSwap {facts.pending.metadata.name} of an earlier edit"
        )
    if attempt is None and not against:
        return Strategy("swap", "MovingInPlace", "moves in place")
    if facts.policy == "prefer-in-place":
        return None
    if attempt is not None:
        return Strategy(
            "blocked", "InPlaceFailed", f"NetworkSwap {attempt.metadata.name}: {attempt.status.message}"
        )
    return Strategy("blocked", "PreflightFailed", "; ".join(against))


def _by_migration(facts: PlacementFacts) -> Strategy:
    if not facts.migratable:
        return Strategy(
            "restart", "NotMigratable", f"{facts.why_not_migratable}; {_without_migration(facts)}"
        )
    if facts.against_migration:
        return Strategy("blocked", "PreflightFailed", "; ".join(facts.against_migration))
    return Strategy("copy")


def _without_migration(facts: PlacementFacts) -> str:
    """Return what else there is for a machine that can't migrate; a policy that was tried in vain is not advised."""
    if facts.policy == "migrate":
        return f"restart the machine, or set metadata.annotations[{POLICY}] to in-place"
    tried = (facts.attempt.status.message,) if facts.attempt is not None else facts.against_in_place
    return f"it can't move in place: {'; '.join(tried)}; or restart the machine"
