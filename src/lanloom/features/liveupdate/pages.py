"""Machines in the console: the network of each NIC, and moves under way."""

from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key
from lanloom.console.page import Content, Names, Page, Table, Trouble
from lanloom.features.liveupdate.fields import MACHINE_FIELDS, NIC_FIELDS
from lanloom.features.liveupdate.machines import machines_of
from lanloom.features.liveupdate.views import MachineView, SwapView, read_machine, read_objects, view_of
from lanloom.kube.ports import Reader

KINDS = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS, NETWORK_SWAPS)


async def machines(client: Reader, _names: Names) -> Content:
    """Return all machines. Raises Denied without KubeVirt."""
    table = Table(
        title="Machines",
        query=MACHINE_FIELDS,
        rows=tuple(map(view_of, machines_of(await read_objects(client)))),
        name=lambda view: view.title,
        href=lambda view: f"/machines/{view.title}",
        trouble=_trouble,
    )
    return Content(title="Machines", tables=(table,))


async def machine(client: Reader, names: Names) -> Content:
    """Return one machine with its NICs. Raises Denied for an unknown one."""
    view = view_of(await read_machine(client, Key(names["namespace"], names["name"])))
    facts = (
        ("State", view.state),
        ("Node", view.node),
        ("Policy", view.policy),
        ("Migratable", {None: "", True: "yes", False: "no"}[view.migratable]),
        *((f"{item.created} {item.network}", _swap(item)) for item in view.swaps),
    )
    nics = Table(
        title="NICs",
        query=NIC_FIELDS,
        rows=view.nics,
        name=lambda nic: nic.name,
        trouble=lambda nic: None if nic.is_settled else Trouble(nic.state or "Waiting", ""),
    )
    return Content(title=view.title, trouble=_trouble(view), facts=facts, tables=(nics,))


def _swap(item: SwapView) -> str:
    gap = f", {item.gap:.0f} ms of silence" if item.gap else ""
    why = f": {item.message}" if item.message else ""
    return f"{item.from_} → {item.to}: {item.phase}{gap}{why}"


def _trouble(view: MachineView) -> Trouble | None:
    return None if view.is_well else Trouble(view.state, view.message)


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
        kinds=KINDS,
        read=machine,
    ),
)
