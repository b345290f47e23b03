"""What `lanloom vm move` does: which way a NIC goes to its new network, or why it can't go.

An edit of the machine is all that a live migration needs; the controllers of the machine do the rest. In place, a
NetworkSwap asks for the move, and the machine is edited after it (`record`).
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, nad_of
from lanloom.api.liveupdate import POLICY, NetworkSwap, Policy
from lanloom.api.meta import Key
from lanloom.features.liveupdate.machines import Machine
from lanloom.features.liveupdate.rules.edits import TEMPLATE, Operations, move_network
from lanloom.features.liveupdate.rules.evaluation import evaluate
from lanloom.features.liveupdate.rules.preflight import Findings
from lanloom.kube.conditions import find
from lanloom.refusals import Denied
from lanloom.text import listed, quote

Way = Literal["none", "edit", "next-start", "migrate", "in-place"]
"""`none`: the NIC is there already. `edit`: the instance is, and its machine gets the same network again. `next-start`:
the machine does not run, and starts with the new network."""

POLICIES: tuple[Policy, ...] = ("migrate", "in-place", "prefer-in-place")


class MoveRequest(Struct, frozen=True, kw_only=True):
    """What a user asks for. `policy` is None for that of the machine; with `flap` the guest sees its link go down.

    With `force`, a machine moves in place that KubeVirt may evict for it, and with `until_restart` one whose instance
    does not follow.
    """

    machine: Key
    nic: str
    to: Key
    policy: Policy | None = None
    flap: bool = False
    force: bool = False
    until_restart: bool = False


class Plan(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What is done about a wish.

    `operations` edit the machine now; `record` edits it after a move in place. `notes` are worth knowing.
    """

    way: Way
    nic: str
    from_: Key
    to: Key
    operations: Operations = []
    record: bool = False
    flap: bool = False
    force: bool = False
    until_restart: bool = False
    notes: tuple[str, ...] = ()


def plan_move(wish: MoveRequest, machine: Machine, findings: Findings) -> Plan:
    """Return what to do. Raises Denied where the machine, its NIC or the network does not allow it.

    `findings` are those of the preflight; of a machine that does not run, only those about the network.
    """
    operations, source = _edit(wish, machine)
    plan = Plan(
        way="none",
        nic=wish.nic,
        from_=source,
        to=wish.to,
        operations=operations,
        flap=wish.flap,
        force=wish.force,
        until_restart=wish.until_restart,
    )
    vmi = machine.vmi
    if vmi is None or is_over(vmi):
        return _at_next_start(plan, wish, machine, findings)
    policy = _policy(wish, machine)
    if (held := machine.until_restart(wish.nic)) is not None:
        return _until_restart(plan, held)
    observed = observed_of(machine, wish.nic)
    if observed == wish.to and _asked(wish.nic, vmi) == wish.to:
        if not operations:
            return plan
        if machine.migration is None and machine.swap is None:
            return replace(plan, way="edit")
    _check_idle(wish, machine)
    _check_plugged(wish, vmi)
    against = findings.against_in_place
    if policy == "in-place" or (policy == "prefer-in-place" and not against):
        _check_running(vmi)
        source, record = observed or _present(wish, vmi), machine.vm is not None and bool(operations)
        _refuse(f"NIC {quote(wish.nic)} of {machine.key} can't move in place", against)
        notes = (*findings.in_place_warnings, *findings.warnings)
        return replace(plan, way="in-place", from_=source, operations=[], record=record, notes=notes)
    notes = findings.warnings
    notes += tuple(f"It can't move in place: {text}" for text in against) if policy != "migrate" else ()
    if machine.vm is None:
        raise Denied(
            f"VirtualMachineInstance {machine.key} belongs to no VirtualMachine, so its spec.networks can't be "
            "changed; use --policy in-place"
        )
    what = f"NIC {quote(wish.nic)} of {machine.key} can't move by live migration"
    _refuse(what, findings.both)
    _check_migratable(vmi)
    if unreadable := evaluate(vmi, machine.pod).error:
        raise Denied(f"{what}: {unreadable}, before its networks change")
    _refuse(what, findings.migration)
    if findings.by_hand:
        notes += (f"Nothing migrates the machine by itself: {findings.by_hand}",)
    return replace(plan, way="migrate", notes=notes)


def _until_restart(plan: Plan, held: NetworkSwap) -> Plan:
    """Return the plan for a NIC that is on its network until the restart of its machine. Raises Denied for another."""
    spec, meta = held.spec, held.metadata
    if plan.to == spec.target and not plan.operations:
        return plan
    raise Denied(
        f"NetworkSwap {meta.namespace}/{meta.name} keeps NIC {spec.network} of this machine on {spec.to} until it is "
        f"restarted; restart it, or delete that NetworkSwap, which takes the NIC back to {spec.from_}"
    )


def _edit(wish: MoveRequest, machine: Machine) -> tuple[Operations, Key]:
    """Return the edit of the machine, and the NAD that its NIC leaves."""
    own, networks = machine.key.namespace, machine.wanted
    if machine.vm is not None and machine.vm.spec.template is None:
        raise Denied(f"VirtualMachine {machine.key}: spec.template can't be read; correct it")
    names = [item.name for item in networks]
    if wish.nic not in names:
        raise Denied(f"machine {machine.key} has no NIC {quote(wish.nic)}; it has {listed(names) or 'none'}")
    try:
        operations = move_network(networks, TEMPLATE, wish.nic, wish.to, own)
    except Denied as error:
        raise Denied(f"VirtualMachine {machine.key}: {error}") from None
    multus = next(item.multus for item in networks if item.name == wish.nic)
    assert multus is not None  # move_network refuses the pod network
    return operations, nad_of(multus, own)


def _policy(wish: MoveRequest, machine: Machine) -> Policy:
    """Return the policy that was asked for, or that of the machine. Raises Denied for two that exclude each other."""
    top: VirtualMachine | VirtualMachineInstance | None = machine.vm or machine.vmi
    own = top.metadata.annotations.get(POLICY, "") if top is not None else ""
    if wish.policy is None:
        found = next((item for item in POLICIES if item == own), None)
        if own and found is None:
            allowed = ", ".join(POLICIES)
            raise Denied(
                f"machine {machine.key}: annotation {POLICY} is {quote(own)}; it must be one of {allowed}"
            )
        return found or "migrate"
    if wish.policy == "migrate" and own in ("in-place", "prefer-in-place"):
        raise Denied(
            f"machine {machine.key}: annotation {POLICY} is {quote(own)}, by which an edit moves the NIC in place; "
            "remove the annotation, or move without --policy migrate"
        )
    return wish.policy


def is_over(vmi: VirtualMachineInstance) -> bool:
    """Return whether an instance is one of which nothing runs on, so that the machine starts again."""
    return vmi.metadata.is_deleting or vmi.has_ended


def _at_next_start(plan: Plan, wish: MoveRequest, machine: Machine, findings: Findings) -> Plan:
    """Edit the machine, whatever policy it has: nothing of it can move."""
    if wish.policy == "in-place":
        raise Denied(
            f"machine {machine.key} does not run, so no port can be moved; leave out --policy, which edits the "
            "machine, and start it"
        )
    _refuse(f"NIC {quote(plan.nic)} of {machine.key} can't start on {plan.to}", findings.both)
    return replace(plan, way="next-start" if plan.operations else "none")


def _asked(nic: str, vmi: VirtualMachineInstance) -> Key | None:
    """Return the NAD of the NIC in the instance; None for a NIC that is not in it."""
    asked = next((item.multus for item in vmi.spec.networks if item.name == nic), None)
    return nad_of(asked, vmi.metadata.namespace) if asked is not None else None


def observed_of(machine: Machine, nic: str) -> Key | None:
    """Return the NAD on which the port is: as the pod tells, or as the instance is to have it where no pod tells."""
    assert machine.vmi is not None
    title = evaluate(machine.vmi, machine.pod).observed.get(nic, "")
    namespace, slash, name = title.partition("/")
    return Key(namespace, name) if slash else _asked(nic, machine.vmi)


def _present(wish: MoveRequest, vmi: VirtualMachineInstance) -> Key:
    """Return the NAD that a port leaves. Raises Denied for a NIC that is not plugged in yet."""
    nad = _asked(wish.nic, vmi)
    if nad is None:
        raise Denied(
            f"VirtualMachineInstance {vmi.metadata.key} has no network {quote(wish.nic)} in spec.networks yet; wait "
            "until the NIC is plugged in, or restart the machine"
        )
    return nad


def _check_idle(wish: MoveRequest, machine: Machine) -> None:
    """Raise Denied while something moves: a swap and a migration never run at once."""
    swap, migration = machine.swap, machine.migration
    if swap is not None:
        raise Denied(
            f"NetworkSwap {swap.metadata.namespace}/{swap.metadata.name} moves NIC {swap.spec.network} of this machine "
            f"({swap.status.phase or 'Pending'}); wait until it is over"
        )
    if migration is not None:
        raise Denied(
            f"machine {machine.key} migrates (VirtualMachineInstanceMigration {migration.metadata.name}, "
            f"{migration.status.phase or 'Pending'}); wait until it is over"
        )


def _check_plugged(wish: MoveRequest, vmi: VirtualMachineInstance) -> None:
    """Raise Denied for a NIC that the instance has on the pod network, which nothing changes while it runs."""
    found = next((item for item in vmi.spec.networks if item.name == wish.nic), None)
    if found is not None and found.multus is None:
        raise Denied(
            f"VirtualMachineInstance {vmi.metadata.key}: the network {wish.nic} is the pod network, which can't be "
            "changed while the machine runs; edit the VirtualMachine and restart it"
        )


def _check_running(vmi: VirtualMachineInstance) -> None:
    if vmi.status.phase != "Running":
        raise Denied(
            f"VirtualMachineInstance {vmi.metadata.key} is {vmi.status.phase or 'Pending'}, and a port moves in place "
            "only while it is Running; wait until it is"
        )


def _check_migratable(vmi: VirtualMachineInstance) -> None:
    """Raise Denied for a machine that can't migrate: an edit would only ask for a restart."""
    found = find(vmi.status.conditions, "LiveMigratable")
    if found is not None and found.status == "True":
        return
    why = (
        ": ".join(filter(None, (found.reason, found.message)))
        if found is not None
        else "no such condition yet"
    )
    raise Denied(
        f"VirtualMachineInstance {vmi.metadata.key} can't migrate live (condition LiveMigratable: {why}), so the NIC "
        "would change at the next restart only; use --policy in-place, or edit the VirtualMachine and restart it"
    )


def _refuse(what: str, reasons: tuple[str, ...]) -> None:
    if reasons:
        raise Denied(f"{what}: {'; '.join(reasons)}")
