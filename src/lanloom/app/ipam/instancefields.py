"""The fields of instances for lists. Those that Ganeti has are named as there; `nic.*s` have an item for each NIC."""

from collections.abc import Callable

from lanloom.app.ipam.instances import Instance
from lanloom.app.ipam.instanceviews import READY, NicView, views
from lanloom.ipam.rules.query import MISSING, Field, Query, Value


def _state(instance: Instance) -> str:
    """The first state of a NIC that is not ready."""
    return next((view.state for view in views(instance) if view.state != READY), READY)


def _created(instance: Instance) -> str | None:
    return min((nic.metadata.creation_timestamp or "" for nic in instance.nics), default="") or None


def _lists(value: Value) -> str:
    """A list of lists: NICs with commas, addresses of one with a plus sign."""
    items = value if isinstance(value, list) else []
    return ",".join("+".join(map(str, item)) or MISSING for item in items if isinstance(item, list))


def _texts(value: Value) -> str:
    return ",".join(str(item or MISSING) for item in value) if isinstance(value, list) else MISSING


def _of_nics(name: str, title: str, description: str, value: Callable[[NicView], str]) -> Field[Instance]:
    return Field(
        name=name,
        title=title,
        kind="list",
        description=f"{description} of each NIC",
        value=lambda instance: [value(view) or None for view in views(instance)],
        text=_texts,
    )


INSTANCE_FIELDS: Query[Instance] = Query(
    (
        Field(
            name="name",
            title="Instance",
            kind="text",
            description="Name",
            value=lambda instance: instance.name,
        ),
        Field(
            name="namespace",
            title="Namespace",
            kind="text",
            description="Namespace",
            value=lambda instance: instance.namespace,
        ),
        Field(
            name="kind",
            title="Kind",
            kind="text",
            description="Instance, or VirtualMachine of KubeVirt",
            value=lambda instance: instance.kind,
        ),
        Field(
            name="state",
            title="State",
            kind="text",
            description="ready, waiting or refused",
            value=_state,
        ),
        Field(
            name="ctime",
            title="CTime",
            kind="timestamp",
            description="When its first NIC was added",
            value=_created,
        ),
        Field(
            name="nic.count",
            title="NICs",
            kind="number",
            description="Number of NICs",
            value=lambda instance: len(instance.nics),
        ),
        Field(
            name="nic.ips",
            title="NIC_IPs",
            kind="list",
            description="IP addresses of each NIC",
            value=lambda instance: [list(view.ips) for view in views(instance)],
            text=_lists,
        ),
        _of_nics("nic.networks", "NIC_networks", "Network", lambda view: view.network),
        _of_nics("nic.macs", "NIC_MACs", "MAC address", lambda view: view.mac),
        _of_nics("nic.modes", "NIC_modes", "Mode", lambda view: view.mode),
        _of_nics("nic.links", "NIC_links", "Link", lambda view: view.link),
        _of_nics("nic.vlans", "NIC_VLANs", "VLAN", lambda view: view.vlan),
        _of_nics("nic.names", "NIC_names", "Name", lambda view: view.name),
        _of_nics("nic.uuids", "NIC_UUIDs", "UUID", lambda view: view.uuid),
    ),
    ("name", "kind", "nic.count", "nic.networks", "nic.ips", "state"),
)
"""What `lanloom instance list -o` can show."""
