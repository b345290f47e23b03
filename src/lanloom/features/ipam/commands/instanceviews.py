"""Instances as the commands show them: NICs as they are and as they would be, the difference, and the fields of lists.

Fields that Ganeti has are named as there. `nic.macs` and the like list all NICs, `nic.mac/N` is one of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from lanloom.api.ipam import Network, NicSpec
from lanloom.cli.query import (
    MISSING,
    Field,
    Query,
    Value,
)
from lanloom.features.ipam.cli.grammar.difference import Difference
from lanloom.features.ipam.commands.instanceplan import Preview
from lanloom.features.ipam.commands.instances import (
    READY,
    Instance,
    held_by,
    refusal,
    state_of,
)
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.general import effective
from lanloom.features.ipam.rules.model import Connection
from lanloom.features.ipam.state import connections_of
from lanloom.refusals import Malformed


class NicView(Struct, frozen=True, kw_only=True):
    """A NIC. `network` is what users call it; `ips` are what the NIC owns there, `wanted` what it asks for.

    `mode`, `link` and `vlan` are its own; `connection` has those that it inherits from its network as well. `state` is
    ready, waiting or refused; `message` says why it is refused.
    """

    index: int
    object: str
    uuid: str = ""
    name: str = ""
    network: str = ""
    network_uuid: str = ""
    ips: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    mac: str = ""
    mode: str = ""
    link: str = ""
    vlan: str = ""
    connection: Connection
    state: str = READY
    message: str = ""


def views(instance: Instance) -> tuple[NicView, ...]:
    """Return the NICs of an instance as they are. Raises Malformed."""
    return tuple(
        _view(
            index,
            nic.metadata.name,
            nic.spec,
            instance.networks,
            uuid=nic.spec.uuid or nic.metadata.uid,
            ips=tuple(map(format_address, held_by(nic))),
            state=state_of(nic),
            message=refusal(nic),
        )
        for index, nic in enumerate(instance.nics)
    )


def foreseen(preview: Sequence[Preview], networks: Mapping[str, Network]) -> tuple[NicView, ...]:
    """Return the NICs as they would be, if everything were written now."""
    return tuple(_view(item.index, item.key.name, item.spec, networks, ips=item.ips) for item in preview)


def information(instance: Instance) -> dict[str, Value]:
    """Return everything of an instance for programs. Raises Malformed."""
    return {
        "name": instance.name,
        "namespace": instance.namespace,
        "kind": instance.kind,
        "nics": [plain(view) for view in views(instance)],
    }


def plain(view: NicView) -> dict[str, Value]:
    """Return a NIC for programs."""
    return {
        "index": view.index,
        "name": view.name or None,
        "uuid": view.uuid or None,
        "object": view.object,
        "network": view.network or None,
        "network_uuid": view.network_uuid or None,
        "ips": list(view.ips),
        "wanted": list(view.wanted),
        "mac": view.mac or None,
        "mode": view.connection.mode or None,
        "link": view.connection.link or None,
        "vlan": view.connection.vlan or None,
        "state": view.state,
        "message": view.message or None,
    }


def differences(before: Sequence[NicView], after: Sequence[NicView]) -> Iterator[Difference]:
    """Return the differences, NIC by NIC: existing ones by their new index, then removed ones."""
    old = {view.object: view for view in before}
    for view in after:
        last = old.pop(view.object, None)
        if last is None:
            yield Difference("+", f"NIC {view.index}{_place(view)}: {summary(view)}")
        elif changed := list(_changes(last, view)):
            yield Difference("~", f"NIC {last.index}{_place(last)}: {'; '.join(changed)}")
    for view in old.values():
        yield Difference("-", f"NIC {view.index}{_place(view)}: {summary(view)}")


def summary(view: NicView) -> str:
    """Describe the addresses, the connection and the MAC address."""
    own = [
        ("mode", view.mode),
        ("link", view.link),
        ("VLAN", view.vlan),
        ("MAC", view.mac),
        ("name", view.name),
    ]
    return ", ".join([addresses(view), *(f"{title} {text}" for title, text in own if text)])


def addresses(view: NicView) -> str:
    """Return the addresses of a NIC in words, and what it waits for."""
    has = ", ".join(view.ips) or "no address"
    if view.state == READY:
        return has
    return f"{has}; {view.state}, wants {', '.join(view.wanted) or 'none'}"


def _changes(old: NicView, new: NicView) -> Iterator[str]:
    pairs = [
        ("number", str(old.index), str(new.index)),
        ("network", old.network, new.network),
        ("addresses", addresses(old), addresses(new)),
        ("MAC", old.mac, new.mac),
        ("mode", old.mode, new.mode),
        ("link", old.link, new.link),
        ("VLAN", old.vlan, new.vlan),
        ("name", old.name, new.name),
    ]
    for title, was, now in pairs:
        if was != now:
            yield f"{title} {was or 'none'} → {now or 'none'}"


def _place(view: NicView) -> str:
    return f" on {view.network}" if view.network else ""


def _view(
    index: int,
    name: str,
    spec: NicSpec,
    networks: Mapping[str, Network],
    *,
    ips: tuple[str, ...],
    uuid: str = "",
    state: str = READY,
    message: str = "",
) -> NicView:
    network = networks.get(spec.network)
    own = Connection(group="", mode=spec.mode, link=spec.link, vlan=spec.vlan)
    return NicView(
        index=index,
        object=name,
        uuid=uuid,
        name=spec.name,
        network=network.called if network is not None else spec.network,
        network_uuid=(network.spec.uuid or network.metadata.uid) if network is not None else "",
        ips=ips,
        wanted=spec.ips,
        mac=spec.mac,
        mode=spec.mode,
        link=spec.link,
        vlan=spec.vlan,
        connection=effective(own, connections_of(network) if network is not None else ()),
        state=state,
        message=message,
    )


_OF_EACH = " of each NIC"
_ONE = re.compile(r"(nic\.[a-z]+)/(0|[1-9][0-9]?)")
_GANETIS = re.compile(
    r"(be|hv|custom_be|custom_hv|custom_osparams|custom_nicparams|disk)[/.].*|(admin|oper)_.*|disk(s|_template|_usage)|"
    r"(p|s)nodes?(\..*)?|os(params)?|status|(be|hv)params|hypervisor|console|network_port"
)
"""Fields of `gnt-instance list` that have no place here."""


class InstanceQuery(Query[Instance], frozen=True):
    """The fields of instances, with those of single NICs (`nic.ip/0`), which are made when they are asked for."""

    def named(self, names: Sequence[str]) -> tuple[Field[Instance], ...]:
        """Return the fields of those names. Raises Malformed."""
        lists = {field.name: field for field in self.fields if field.name.startswith("nic.")}
        single = {
            name: _of_one(lists[f"{match[1]}s"], name, int(match[2]))
            for name in names
            if (match := _ONE.fullmatch(name)) and f"{match[1]}s" in lists
        }
        known = Query((*self.fields, *single.values()), self.default)
        if theirs := [name for name in names if _GANETIS.fullmatch(name)]:
            raise Malformed(
                f"{', '.join(theirs)}: Lanloom manages networks and addresses only; leave out fields of gnt-instance "
                "about disks, memory, the system and nodes"
            )
        return Query.named(known, names)


def _of_one(field: Field[Instance], name: str, index: int) -> Field[Instance]:
    """Return the field of one NIC: the item of the list of all, None if there is no such NIC."""

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
    """Return the first state of a NIC that is not ready."""
    return next((view.state for view in views(instance) if view.state != READY), READY)


def _created(instance: Instance) -> str | None:
    return min((nic.metadata.creation_timestamp or "" for nic in instance.nics), default="") or None


def _lists(value: Value) -> str:
    """Return a list of lists: NICs with commas, addresses of one with a plus sign."""
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
        _of_nics(
            "nic.modes",
            "NIC_modes",
            "Mode, its own or that of its network,",
            lambda view: view.connection.mode,
        ),
        _of_nics(
            "nic.links",
            "NIC_links",
            "Link, its own or that of its network,",
            lambda view: view.connection.link,
        ),
        _of_nics(
            "nic.vlans",
            "NIC_VLANs",
            "VLAN, its own or that of its network,",
            lambda view: view.connection.vlan,
        ),
        _of_nics("nic.names", "NIC_names", "Name", lambda view: view.name),
        _of_nics("nic.uuids", "NIC_UUIDs", "UUID", lambda view: view.uuid),
    ),
    ("name", "kind", "nic.count", "nic.networks.names", "nic.ips", "state"),
)
"""The query fields of `lanloom instance list -o`."""
