"""Machines in the console: the network of each NIC, and moves under way."""

from lanloom.api.core import EVENTS, PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key
from lanloom.console.changes import CHANGE_FIELDS, Change, change_of
from lanloom.console.page import Content, Names, NotReady, Page, Table
from lanloom.features.liveupdate.fields import MACHINE_FIELDS, NIC_FIELDS
from lanloom.features.liveupdate.machines import machines_of
from lanloom.features.liveupdate.moves import MOVE_FIELDS, STEP_FIELDS, moves_of, way_of
from lanloom.features.liveupdate.views import MachineView, read_machine, read_objects, view_of
from lanloom.kube.errors import Forbidden
from lanloom.kube.ports import Reader

KINDS = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS, MIGRATIONS, NETWORK_SWAPS)

_UNDER_WAY = frozenset({"Swapping", "Migrating", "Stopping"})
"""The states that end by themselves."""


async def machines(client: Reader, _names: Names) -> Content:
    """Return all machines. Raises Denied without KubeVirt."""
    table = Table(
        title="Machines",
        query=MACHINE_FIELDS,
        rows=tuple(map(view_of, machines_of(await read_objects(client)))),
        first="No virtual machine exists. To begin, create one with KubeVirt: "
        "`kubectl apply -f examples/vm.yaml` (docs/live-update.md).",
        name=lambda view: view.title,
        href=lambda view: f"/machines/{view.title}",
        not_ready=_not_ready,
    )
    return Content(title="Machines", tables=(table,))


async def machine(client: Reader, names: Names) -> Content:
    """Return one machine with its NICs and moves. Raises Denied for an unknown one."""
    found = await read_machine(client, Key(names["namespace"], names["name"]))
    view = view_of(found)
    nics = Table(
        title="NICs",
        query=NIC_FIELDS,
        rows=view.nics,
        first="It has no NIC. To add one, name a network in `spec.template.spec.networks` (docs/live-update.md).",
        name=lambda nic: nic.name,
        not_ready=lambda nic: (
            None
            if nic.is_settled or view.is_well
            else NotReady(view.state, "", under_way=view.state in _UNDER_WAY)
        ),
    )
    tables = [nics]
    if found.swap is not None:
        steps = found.swap.status.conditions
        tables.append(Table(title=f"Steps of {found.swap.metadata.name}", query=STEP_FIELDS, rows=steps))
    tables += [
        Table(title="History", query=MOVE_FIELDS, rows=moves_of(view)),
        Table(title="Events", query=CHANGE_FIELDS, rows=await _events(client, view)),
    ]
    return Content(
        title=view.title,
        not_ready=_not_ready(view),
        facts=(
            ("State", view.state),
            ("Node", view.node),
            ("Policy", view.policy),
            ("Migratable", {None: "", True: "yes", False: "no"}[view.migratable]),
        ),
        drawing=way_of(view),
        tables=tables,
    )


async def _events(client: Reader, view: MachineView) -> list[Change]:
    """Return the Events of machine and instance, the latest first, as far as the reader may see them."""
    uids = [uid for uid in (view.uid, view.instance_uid) if uid]
    try:
        lists = [
            await client.list(EVENTS, view.namespace, fields=f"involvedObject.uid={uid}") for uid in uids
        ]
    except Forbidden:
        return []
    found = [change_of(item) for listing in lists for item in listing.items]
    return sorted(found, key=lambda item: item.time, reverse=True)


def _not_ready(view: MachineView) -> NotReady | None:
    if view.is_well:
        return None
    return NotReady(view.state, view.message, view.since, under_way=view.state in _UNDER_WAY)


PAGES = (
    Page(
        path="/machines",
        menu="Machines",
        command="lanloom vm list --all-namespaces",
        kinds=KINDS,
        read=machines,
    ),
    Page(
        path="/machines/{namespace}/{name}",
        command="lanloom vm show {namespace}/{name}",
        kinds=(*KINDS, EVENTS),
        read=machine,
    ),
)
