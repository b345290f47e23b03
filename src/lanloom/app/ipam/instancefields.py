"""The fields of instances for lists. Those that Ganeti has are named as there.

`nic.macs` and the like have an item for each NIC, `nic.mac/N` is that of one NIC.
"""

import re
from collections.abc import Callable, Sequence

from lanloom.app.ipam.instances import READY, Instance
from lanloom.app.ipam.instanceviews import NicView, views
from lanloom.ipam.rules.query import MISSING, Field, Query, Value

_OF_EACH = " of each NIC"
_ONE = re.compile(r"(nic\.[a-z]+)/(0|[1-9][0-9]?)")


class InstanceQuery(Query[Instance], frozen=True):
    """The fields of instances, with those of single NICs (`nic.ip/0`), which are made when they are asked for."""

    def _named(self, names: Sequence[str]) -> tuple[Field[Instance], ...]:
        lists = {field.name: field for field in self.fields if field.name.startswith("nic.")}
        single = {
            name: _of_one(lists[f"{match[1]}s"], name, int(match[2]))
            for name in names
            if (match := _ONE.fullmatch(name)) and f"{match[1]}s" in lists
        }
        known = Query((*self.fields, *single.values()), self.default)
        return Query._named(known, names)


def _of_one(field: Field[Instance], name: str, index: int) -> Field[Instance]:
    """The field of one NIC: the item of the list of all, None if there is no such NIC."""

    def item(instance: Instance) -> Value:
        items = field.value(instance)
        return items[index] if isinstance(items, list) and index < len(items) else None

    of = field.description.removesuffix(_OF_EACH)
    return Field(
        name=name,
        title=f"{field.title.removesuffix('s')}/{index}",
        kind="list" if field.name == "nic.ips" else "text",
        description=f"{of} of NIC {index}",
        value=item,
    )


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
        description=description + _OF_EACH,
        value=lambda instance: [value(view) or None for view in views(instance)],
        text=_texts,
    )


INSTANCE_FIELDS = InstanceQuery(
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
            description="Instance or VirtualMachine",
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
            description="IP addresses" + _OF_EACH,
            value=lambda instance: [list(view.ips) for view in views(instance)],
            text=_lists,
        ),
        _of_nics("nic.networks", "NIC_nets", "UUID of the network", lambda view: view.network_uuid),
        _of_nics("nic.networks.names", "NIC_networks", "Name of the network", lambda view: view.network),
        _of_nics("nic.macs", "NIC_MACs", "MAC address", lambda view: view.mac),
        _of_nics("nic.modes", "NIC_modes", "Mode", lambda view: view.mode),
        _of_nics("nic.links", "NIC_links", "Link", lambda view: view.link),
        _of_nics("nic.vlans", "NIC_VLANs", "VLAN", lambda view: view.vlan),
        _of_nics("nic.names", "NIC_names", "Name", lambda view: view.name),
        _of_nics("nic.uuids", "NIC_UUIDs", "UUID", lambda view: view.uuid),
    ),
    ("name", "kind", "nic.count", "nic.networks.names", "nic.ips", "state"),
)
"""What `lanloom instance list -o` can show."""
