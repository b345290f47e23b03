"""A whole `config.data` as values: networks, instances with their NICs, and how node groups are connected."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from lanloom.ipam.rules.addresses import Address, parse_address, shown
from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.ganeti import fields
from lanloom.ipam.rules.ganeti.fields import Raw
from lanloom.ipam.rules.ganeti.stored import StoredNetwork, network_at
from lanloom.ipam.rules.model import Connection


class StoredNic(Struct, frozen=True, kw_only=True):
    """A NIC. `network` is the UUID of its network, or what the file says where there is no such network."""

    instance: str
    index: int
    uuid: str = ""
    name: str = ""
    mac: str = ""
    network: str = ""
    ips: tuple[Address, ...] = ()
    mode: str = ""
    link: str = ""
    vlan: str = ""

    def __str__(self) -> str:
        return f"NIC {self.index} of instance {fields.printable(self.instance)}"


class Config(Struct, frozen=True, kw_only=True):
    """What a file says. `connections` are those of each network, by its UUID."""

    networks: dict[str, StoredNetwork]
    nics: tuple[StoredNic, ...]
    instances: dict[str, str]
    connections: dict[str, tuple[Connection, ...]]

    def owners(self, network: str) -> Iterator[tuple[Address, StoredNic]]:
        """The addresses of a network that NICs own."""
        for nic in self.nics:
            if nic.network == network:
                yield from ((address, nic) for address in nic.ips)


def config_of(data: object) -> Config:
    """The values of a decoded file. Raises Malformed."""
    raw = fields.mapping(data, "the file")
    for key in ("cluster", "instances"):
        if key not in raw:
            raise Malformed(f'is no config.data of Ganeti\'s: it has no "{key}"')
    found = fields.objects(raw.get("networks") or {}, "networks")
    networks = {key: network_at(item, f"networks[{shown(key)}]", key) for key, item in found.items()}
    defaults = _nic_defaults(fields.mapping(raw["cluster"], "cluster"))
    by_name = {network.name: uuid for uuid, network in networks.items()}
    instances = fields.objects(raw["instances"], "instances")
    titles = {
        key: fields.text(item, "name", f"instances[{shown(key)}]") or key for key, item in instances.items()
    }
    return Config(
        networks=networks,
        nics=tuple(
            nic
            for key, item in instances.items()
            for nic in nics_of(item.get("nics") or [], titles[key], networks, by_name, defaults)
        ),
        instances=titles,
        connections=_connections(fields.objects(raw.get("nodegroups") or {}, "nodegroups")),
    )


def nics_of(
    items: object,
    instance: str,
    networks: Mapping[str, StoredNetwork],
    by_name: Mapping[str, str],
    defaults: Raw,
) -> Iterator[StoredNic]:
    """The NICs of an instance. Raises Malformed.

    Ganeti 2.7 refers to networks by name, later versions by UUID.
    """
    title = f"instance {fields.printable(instance)}"
    for index, item in enumerate(fields.sequence(items, f"{title}: nics")):
        place = f"{title}: nics[{index}]"
        raw = fields.mapping(item, place)
        network = fields.text(raw, "network", place)
        params = {**defaults, **fields.mapping(raw.get("nicparams") or {}, f"{place}.nicparams")}
        yield StoredNic(
            instance=instance,
            index=index,
            uuid=fields.text(raw, "uuid", place),
            name=fields.text(raw, "name", place),
            mac=fields.text(raw, "mac", place),
            network=network if network in networks else by_name.get(network, network),
            ips=addresses_of(raw, place),
            mode=fields.text(params, "mode", f"{place}.nicparams"),
            link=fields.text(params, "link", f"{place}.nicparams"),
            vlan=fields.text(params, "vlan", f"{place}.nicparams"),
        )


def addresses_of(raw: Raw, place: str) -> tuple[Address, ...]:
    """The addresses of a NIC in either form. Raises Malformed."""
    if "ips" not in raw:
        address = fields.address(raw, "ip", place)
        return () if address is None else (address,)
    if "ip" in raw:
        raise Malformed(f"{place} has both ip and ips: it is neither of the old form nor of the new one")
    return tuple(fields.read(f"{place}.ips", parse_address, item) for item in fields.texts(raw, "ips", place))


def _nic_defaults(cluster: Raw) -> Raw:
    params = fields.mapping(cluster.get("nicparams") or {}, "cluster.nicparams")
    return fields.mapping(params.get("default") or {}, "cluster.nicparams.default")


def _connections(groups: Mapping[str, Raw]) -> dict[str, tuple[Connection, ...]]:
    found: dict[str, tuple[Connection, ...]] = {}
    for key, group in groups.items():
        place = f"nodegroups[{shown(key)}]"
        name = fields.text(group, "name", place) or key
        for uuid, params in fields.objects(group.get("networks") or {}, f"{place}.networks").items():
            mode, link, vlan = (
                fields.text(params, field, f"{place}.networks[{shown(uuid)}]")
                for field in ("mode", "link", "vlan")
            )
            connection = Connection(group=name, mode=mode, link=link, vlan=vlan)
            found[uuid] = (*found.get(uuid, ()), connection)
    return found
