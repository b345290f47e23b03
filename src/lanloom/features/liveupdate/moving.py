"""Plan a move of a NIC, rehearse it and carry it out: what `lanloom vm move` asks of the API server."""

import asyncio
import re
from collections.abc import Iterator, Mapping
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
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.machines import Machine
from lanloom.features.liveupdate.rules.move import MoveRequest, Plan, Way, is_over, observed_of, plan_move
from lanloom.features.liveupdate.rules.networks import Networks, eligible_nodes, marked_bridges, with_uplinks
from lanloom.features.liveupdate.rules.preflight import Facts, Findings, check, target_problem
from lanloom.features.liveupdate.views import read_mode
from lanloom.kube.errors import Forbidden, Invalid
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Client
from lanloom.refusals import Denied

T = TypeVar("T", bound=Object)

_DRY_RUN = {"dryRun": "All"}

Outcome = Literal["unchanged", "planned", "requested", "moved", "failed", "timed-out", "interrupted"]


class Result(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What became of a move.

    `gap` is how long the port had no network, in milliseconds; None where it was not measured. `seconds` is how long
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


async def read_findings(client: Client, machine: Machine, wish: MoveRequest) -> Findings:
    """Look at the networks that a NIC leaves and enters, and at what carries them. Raises KubeError."""
    vmi = machine.vmi
    asked = next((item.multus for item in vmi.spec.networks if item.name == wish.nic), None) if vmi else None
    if vmi is None or is_over(vmi) or asked is None:
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
            networks=replace(networks, marked=marked_bridges(nodes)),
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


async def plan_with(client: DryRunClient, machine: Machine, wish: MoveRequest) -> Plan:
    """Return what to do about a wish. Raises KubeError and Denied.

    About a NAD of another namespace the webhooks are asked first: they know whether the machine may use it at all, and
    do not tell whether it is there.
    """
    if wish.to.namespace != machine.key.namespace:
        await rehearse(client, machine, plan_move(wish, machine, Findings()))
    return plan_move(wish, machine, await read_findings(client, machine, wish))


async def rehearse(client: DryRunClient, machine: Machine, plan: Plan) -> None:
    """Ask the API server and its webhooks whether a plan would be taken; nothing is stored.

    Raises KubeError, and Denied for a machine that was changed meanwhile."""
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
    """Write what the plan says. Raises KubeError, and Denied for a machine that was changed meanwhile."""
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
            f"VirtualMachine {machine.key} was not changed: {error}. If spec.template.spec.networks "
            "was changed meanwhile, run the command again"
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
    return {
        "metadata": {"generateName": name_prefix(vmi.metadata.name), "ownerReferences": [owner]},
        "spec": spec,
    }


def name_prefix(machine: str) -> str:
    """Return what the name of a NetworkSwap begins with; the server appends five characters to at most 248.

    A machine's name may have 253 characters, and dots, after which no part of a name may begin with a hyphen.
    """
    return machine[:240].rstrip(".-") + "-"
