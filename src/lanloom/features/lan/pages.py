"""LANs in the console."""

from lanloom.api.lan import LAN_NODES, LANS
from lanloom.console.page import Content, Names, NoSuchPage, Page, Table, Trouble
from lanloom.features.lan.views import LAN_FIELDS, NODE_FIELDS, SPOKE_FIELDS, LanView, read_views
from lanloom.kube.ports import Reader

KINDS = (LANS, LAN_NODES)


async def lans(client: Reader, _names: Names) -> Content:
    """Return all LANs."""
    table = Table(
        title="LANs",
        query=LAN_FIELDS,
        rows=await read_views(client),
        name=lambda view: view.title,
        href=lambda view: f"/lans/{view.title}",
        trouble=_trouble,
    )
    return Content(title="LANs", tables=(table,))


async def lan(client: Reader, names: Names) -> Content:
    """Return one LAN: nodes and spokes. Raises NoSuchPage."""
    title = f"{names['namespace']}/{names['name']}"
    views = {view.title: view for view in await read_views(client)}
    if title not in views:
        raise NoSuchPage(f"there is no LAN {title}")
    view = views[title]
    nodes = Table(
        title="Nodes",
        query=NODE_FIELDS,
        rows=view.nodes,
        name=lambda item: item.name,
        trouble=lambda item: None if item.ready else Trouble("NotReady", item.message),
    )
    spokes = Table(title="Spokes", query=SPOKE_FIELDS, rows=view.spokes, name=lambda item: item.name)
    facts = (
        ("VNI", str(view.vni)),
        ("Underlay", view.underlay),
        ("Replication", view.replication),
        ("MTU", str(view.mtu or "")),
        ("Uplink", view.uplink),
        ("Admits", ", ".join(view.namespaces)),
        ("Being deleted since", view.deleting),
        ("Kept by", ", ".join(view.users)),
    )
    return Content(title=title, trouble=_trouble(view), facts=facts, tables=(nodes, spokes))


def _trouble(view: LanView) -> Trouble | None:
    return None if view.ready else Trouble(view.reason, view.message)


PAGES = (
    Page(path="/lans", menu="LANs", command="lanloom lan list", kinds=KINDS, read=lans),
    Page(
        path="/lans/{namespace}/{name}",
        command="lanloom lan show {namespace}/{name}",
        kinds=KINDS,
        read=lan,
    ),
)
