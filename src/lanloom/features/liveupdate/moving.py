"""Carry out a move of a NIC, and follow it until it is over: what `lanloom vm move` does at the API server."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, nad_of
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.liveupdate import FINAL, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.machines import Machine
from lanloom.features.liveupdate.rules.move import Plan, Way, Wish, observed_of, plan_move
from lanloom.features.liveupdate.rules.networks import Networks, eligible_nodes, with_uplinks
from lanloom.features.liveupdate.rules.preflight import Facts, Findings, check, target_problem
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT
from lanloom.features.liveupdate.views import read_machine, read_mode, view_of
from lanloom.kube.conditions import find
from lanloom.kube.errors import Forbidden, Invalid, KubeError
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Client
from lanloom.refusals import Denied

T = TypeVar("T", bound=Object)

INTERVAL_SECONDS = 0.5
"""Time between two looks at a machine that is followed."""

PATIENCE_SECONDS = 5.0
"""How long a machine may say that it needs help before that counts: what it says may be about an earlier edit."""

_DRY_RUN = {"dryRun": "All"}

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
"""Reasons of NetworksCurrent that nothing but somebody's help ends."""

Outcome = Literal["unchanged", "planned", "requested", "moved", "failed", "timed-out", "interrupted"]


class Result(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What became of a move.

    `gap` is how long the port had no network, in milliseconds; None where nobody has measured it. `seconds` is how long
    the move took from the request on.
    """

    machine: str
    nic: str
    from_: str
    to: str
    way: Way
    outcome: Outcome
    message: str = ""
    swap: str = ""
    gap: float | None = None
    seconds: float = 0.0
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Step(Struct, frozen=True, kw_only=True):
    """How far a move is. `outcome` is empty as long as it goes on; `helpless` is one that goes on with help only."""

    text: str
    helpless: bool = False
    outcome: Literal["", "moved", "failed"] = ""
    gap: float | None = None


def result_of(machine: Machine, plan: Plan, outcome: Outcome, **more: Any) -> Result:
    """Return what there is to say of a plan."""
    return Result(
        machine=str(machine.key),
        nic=plan.nic,
        from_=str(plan.from_),
        to=str(plan.to),
        way=plan.way,
        outcome=outcome,
        changes=changes_of(machine, plan),
        notes=plan.notes,
        **more,
    )


def changes_of(machine: Machine, plan: Plan) -> tuple[str, ...]:
    """Return what is written, in words."""
    edits = tuple(
        f"~ VirtualMachine {machine.key}: {_field(item['path'])}: {plan.from_} → {item['value']}"
        for item in plan.operations
        if item["op"] != "test"
    )
    if plan.way != "in-place":
        return edits
    after = "; the VirtualMachine is edited after the move" if plan.record else ""
    return (f"+ NetworkSwap: NIC {plan.nic} of {machine.key} from {plan.from_} to {plan.to}{after}",)


def _field(path: str) -> str:
    """Return the field of a JSON pointer."""
    return re.sub(r"\.(\d+)\b", r"[\1]", path.removeprefix("/").replace("/", "."))


async def read_findings(client: Client, machine: Machine, wish: Wish) -> Findings:
    """Look at the networks that a NIC leaves and enters, and at what carries them. Raises KubeError."""
    vmi = machine.vmi
    asked = next((item.multus for item in vmi.spec.networks if item.name == wish.nic), None) if vmi else None
    if vmi is None or asked is None:
        problem = target_problem(await get_or_none(client, NADS, wish.to), wish.to)
        return Findings(both=(problem,)) if problem else Findings()
    leaves = observed_of(machine, wish.nic) or nad_of(asked, machine.key.namespace)
    source, target, nodes, networks, mode = await asyncio.gather(
        get_or_none(client, NADS, leaves),
        get_or_none(client, NADS, wish.to),
        list_or_empty(client, NODES),
        _read_networks(client, machine.key.namespace),
        read_mode(client),
    )
    return check(
        Facts(
            title=f"VirtualMachineInstance {machine.key}",
            network=wish.nic,
            leaves=leaves,
            enters=wish.to,
            machine=vmi,
            pod=machine.pod,
            pods=machine.pods,
            source=source,
            target=target,
            eligible=eligible_nodes(vmi, nodes),
            networks=networks,
            mode=mode,
            force=wish.force,
            until_restart=wish.until_restart,
        )
    )


async def _read_networks(client: Client, namespace: str) -> Networks:
    """Read what carries networks; of what the user may not read, nothing is known. Raises KubeError."""
    reports, lans, lan_nodes, networks, pools, nics = await asyncio.gather(
        list_or_empty(client, CLUSTER_NETWORK_NODES),
        list_or_empty(client, LANS),
        _list_readable(client, LAN_NODES),
        _list_readable(client, CLUSTER_NETWORKS),
        _list_readable(client, NETWORKS),
        _list_readable(client, NICS, namespace),
    )
    return Networks(
        reports=reports,
        lans=lans,
        lan_nodes=lan_nodes,
        cluster_networks=with_uplinks(networks),
        pools=pools,
        nics=nics,
    )


async def _list_readable(client: Client, resource: Resource[T], namespace: str = "") -> tuple[T, ...]:
    try:
        return await list_or_empty(client, resource, namespace)
    except Forbidden:
        return ()


class DryRunClient(Client, Protocol):
    """A client of which any request can be asked, also one that stores nothing."""

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Return the JSON answer to a request. Raises KubeError."""
        ...


async def plan_with(client: DryRunClient, machine: Machine, wish: Wish) -> Plan:
    """Return what to do about a wish. Raises KubeError and Denied.

    About a NAD of another namespace the webhooks are asked first: they know whether the machine may use it at all, and
    do not tell whether it is there.
    """
    if wish.to.namespace != machine.key.namespace:
        await rehearse(client, machine, plan_move(wish, machine, Findings()))
    return plan_move(wish, machine, await read_findings(client, machine, wish))


async def rehearse(client: DryRunClient, machine: Machine, plan: Plan) -> None:
    """Ask the API server and its webhooks whether a plan would be taken; nothing is stored.

    Raises KubeError, and Denied for a machine that somebody changed meanwhile.
    """
    namespace, name = machine.key
    if plan.way == "in-place":
        kind = {"apiVersion": NETWORK_SWAPS.api_version, "kind": NETWORK_SWAPS.kind}
        await client.request(
            "POST", NETWORK_SWAPS.path(namespace), kind | _swap(machine, plan), query=_DRY_RUN
        )
    elif plan.operations:
        path = VIRTUAL_MACHINES.path(namespace, name)
        with _changed_meanwhile(machine):
            await client.request(
                "PATCH", path, plan.operations, query=_DRY_RUN, content_type="application/json-patch+json"
            )


async def carry_out(client: Client, machine: Machine, plan: Plan) -> Result:
    """Write what the plan says. Raises KubeError, and Denied for a machine that somebody changed meanwhile."""
    if plan.way == "none":
        return result_of(machine, plan, "unchanged")
    if plan.way == "in-place":
        swap = await client.create(NETWORK_SWAPS, _swap(machine, plan), machine.key.namespace)
        return result_of(machine, plan, "requested", swap=swap.metadata.name)
    if not plan.operations:
        return result_of(machine, plan, "requested")
    with _changed_meanwhile(machine):
        await client.json_patch(VIRTUAL_MACHINES, machine.key.name, plan.operations, machine.key.namespace)
    return result_of(machine, plan, "requested")


@contextmanager
def _changed_meanwhile(machine: Machine) -> Iterator[None]:
    """Raise Denied with the remedy where a patch of the machine does not apply."""
    try:
        yield
    except Invalid as error:
        raise Denied(
            f"VirtualMachine {machine.key} was not changed: {error}. If somebody else has changed spec.template.spec."
            "networks meanwhile, run the command again"
        ) from None


def _swap(machine: Machine, plan: Plan) -> dict[str, Any]:
    vmi = machine.vmi
    assert vmi is not None  # the plan moves a port of a running machine
    owner = {
        "apiVersion": VIRTUAL_MACHINE_INSTANCES.api_version,
        "kind": VIRTUAL_MACHINE_INSTANCES.kind,
        "name": vmi.metadata.name,
        "uid": vmi.metadata.uid,
    }
    spec = {
        "machine": vmi.metadata.name,
        "uid": vmi.metadata.uid,
        "network": plan.nic,
        "from": str(plan.from_),
        "to": str(plan.to),
        "flap": plan.flap,
        "record": plan.record,
        "force": plan.force,
        "untilRestart": plan.until_restart,
    }
    # A machine may have a name of 253 characters, and the server appends five.
    name = vmi.metadata.name[:240]
    return {"metadata": {"generateName": f"{name}-", "ownerReferences": [owner]}, "spec": spec}


async def follow(
    client: Client, machine: Machine, begun: Result, plan: Plan, report: Callable[[str], None], seconds: float
) -> Result:
    """Watch a move that was requested until it is over, or `seconds` have passed, and report each step.

    Whoever cancels this stops looking; the move goes on. An API server that does not answer is asked again. Raises
    Denied for a machine that is deleted.
    """
    loop = asyncio.get_running_loop()
    start, step, said, since = loop.time(), Step(text="requested"), "", loop.time()
    earlier = frozenset(item.metadata.name for item in machine.swaps if item.status.phase in FINAL)
    try:
        async with asyncio.timeout(seconds):
            while True:
                step = await _progress(client, machine.key, begun, plan, earlier)
                if step.outcome:
                    break
                if step.text != said:
                    report(said := step.text)
                    since = loop.time()
                elif step.helpless and loop.time() - since >= PATIENCE_SECONDS:
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
        return Step(
            text=f"the VirtualMachine names {now} again; somebody has undone the edit", outcome="failed"
        )
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
    return Step(text=text, helpless=view.state == "Waiting" and _is_helpless(machine))


def _is_helpless(machine: Machine) -> bool:
    conditions = machine.vmi.status.conditions if machine.vmi is not None else ()
    found = find(conditions, NETWORKS_CURRENT)
    return found is not None and found.status == "False" and found.reason in _HELPLESS


def _settled(machine: Machine, moving: list[NetworkSwap]) -> Step:
    if moving:
        return _of_swap(moving[-1])
    node = machine.vmi.status.node_name if machine.vmi is not None else ""
    return Step(text=f"moved by live migration; the machine is on {node or 'no node'}", outcome="moved")
