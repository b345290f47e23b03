"""Ganeti's files as a whole: the cluster configuration and KVM runtime files, and what they are in Lanloom's terms.

Reservations follow from the NICs. A runtime file is an array of command, NICs, parameters and disks; the first versions
wrote three items, later ones four and more, and the NICs are always the second.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.ganeti.formats import fields
from lanloom.features.ipam.ganeti.formats.fields import Raw
from lanloom.features.ipam.ganeti.formats.stored import (
    StoredNetwork,
    StoredSubnet,
    bits_of_addresses,
    difference,
    network_at,
)
from lanloom.features.ipam.rules.addresses import (
    Address,
    IPRange,
    format_address,
    merge,
    parse_address,
    subtract,
)
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Nic,
    Owner,
    Pool,
    Subnet,
)
from lanloom.refusals import Malformed
from lanloom.text import quote


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


FIRST_VERSION, LAST_VERSION = 2_070_000, 3_010_000
"""The versions of files that are known: those of Ganeti 2.7 to 3.1. A later one may mean the same keys differently."""


class Config(Struct, frozen=True, kw_only=True, dict=True):
    """The contents of a file. `connections` are those of each network, by its UUID.

    `version` is 1,000,000 for each major and 10,000 for each minor version of Ganeti; None where the file has none.
    """

    version: int | None
    networks: dict[str, StoredNetwork]
    nics: tuple[StoredNic, ...]
    instances: dict[str, str]
    connections: dict[str, tuple[Connection, ...]]

    @property
    def has_known_version(self) -> bool:
        """Whether what the file says can be taken for what it means."""
        return self.version is not None and FIRST_VERSION <= self.version <= LAST_VERSION

    def owners(self, network: str) -> Iterator[tuple[Address, StoredNic]]:
        """Yield the addresses of a network that NICs own."""
        for nic in self._by_network.get(network, ()):
            yield from ((address, nic) for address in nic.ips)

    @cached_property
    def _by_network(self) -> dict[str, list[StoredNic]]:
        found: dict[str, list[StoredNic]] = defaultdict(list)
        for nic in self.nics:
            found[nic.network].append(nic)
        return found


def config_of(data: object) -> Config:
    """Return the values of a decoded file. Raises Malformed."""
    raw = fields.mapping(data, "the file")
    for key in ("cluster", "instances"):
        if key not in raw:
            raise Malformed(f'is not a config.data of Ganeti: "{key}" is missing; name another file')
    found = fields.objects(raw.get("networks") or {}, "networks")
    networks = {key: network_at(item, f"networks[{quote(key)}]", key) for key, item in found.items()}
    defaults = _nic_defaults(fields.mapping(raw["cluster"], "cluster"))
    by_name = {network.name: uuid for uuid, network in networks.items()}
    instances = fields.objects(raw["instances"], "instances")
    titles = {
        key: fields.text(item, "name", f"instances[{quote(key)}]") or key for key, item in instances.items()
    }
    version = raw.get("version")
    return Config(
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
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
    """Yield the NICs of an instance. Raises Malformed.

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
    """Return the addresses of a NIC in either form. Raises Malformed."""
    if "ips" not in raw:
        address = fields.address(raw, "ip", place)
        return () if address is None else (address,)
    if "ip" in raw:
        raise Malformed(f"{place} has both ip and ips, which belong to different forms; remove one of them")
    return tuple(fields.read(f"{place}.ips", parse_address, item) for item in fields.texts(raw, "ips", place))


def _nic_defaults(cluster: Raw) -> Raw:
    params = fields.mapping(cluster.get("nicparams") or {}, "cluster.nicparams")
    return fields.mapping(params.get("default") or {}, "cluster.nicparams.default")


def _connections(groups: Mapping[str, Raw]) -> dict[str, tuple[Connection, ...]]:
    found: dict[str, tuple[Connection, ...]] = {}
    for key, group in groups.items():
        place = f"nodegroups[{quote(key)}]"
        name = fields.text(group, "name", place) or key
        for uuid, params in fields.objects(group.get("networks") or {}, f"{place}.networks").items():
            mode, link, vlan = (
                fields.text(params, field, f"{place}.networks[{quote(uuid)}]")
                for field in ("mode", "link", "vlan")
            )
            connection = Connection(group=name, mode=mode, link=link, vlan=vlan)
            found[uuid] = (*found.get(uuid, ()), connection)
    return found


LEAST = 3


def check_runtime(data: object) -> None:
    """Raise Malformed for what is no KVM runtime file, or has a NIC or network that can't be read."""
    if not isinstance(data, list) or len(data) < LEAST:
        raise Malformed(
            "is no KVM runtime file of Ganeti's: that is an array of command, NICs and parameters"
        )
    if not isinstance(data[0], list) or not isinstance(data[1], list) or not isinstance(data[2], dict):
        raise Malformed(
            "is no KVM runtime file of Ganeti's: command and NICs should be arrays, parameters an object"
        )
    for index, item in enumerate(data[1]):
        place = f"nics[{index}]"
        raw = fields.mapping(item, place)
        addresses_of(raw, place)
        if raw.get("netinfo") is not None:
            network_at(fields.mapping(raw["netinfo"], f"{place}.netinfo"), f"{place}.netinfo")


def counted(network: StoredNetwork, config: Config) -> tuple[StoredSubnet, ...]:
    """Return the subnets of a network that the old form can say, with reservations as the NICs say."""
    owned = [address for address, _ in config.owners(network.uuid)]
    first, *others = network.subnets
    pool = replace(first.pools[0], reservations=bits_of_addresses(first.cidr.range, owned))
    return (replace(first, pools=(pool,)), *others)


def corrections(network: StoredNetwork, subnets: Sequence[StoredSubnet], config: Config) -> Iterator[str]:
    """Describe the corrections of a network's reservations."""
    stored, right = network.subnets[0].pools[0].reservations, subnets[0].pools[0].reservations
    stored = stored or "0" * len(right)
    if len(stored) != len(right):
        yield f"{network.title}: {len(stored)} reservations were changed to {len(right)}, the number of addresses"
        return
    lost, missing = difference(stored, right, network.subnets[0].cidr.first)
    owner: dict[Address, StoredNic] = dict(config.owners(network.uuid)) if missing else {}
    for address in lost:
        yield f"{network.title}: {format_address(address)} was reserved, but no NIC has it; it is free now"
    for address in missing:
        yield (
            f"{network.title}: {format_address(address)} was not reserved, but {owner[address]} has it; "
            "it is reserved now"
        )


INSTANCE = "Instance"


def network_meant(network: StoredNetwork, config: Config, id_: str = "") -> Network:
    """Return a network; `id_` is what NICs refer to it by, its UUID unless another is wanted."""
    return Network(
        id=id_ or network.uuid,
        name=network.name,
        uuid=network.uuid,
        mac_prefix=network.mac_prefix,
        tags=network.tags,
        subnets=tuple(map(_subnet, network.subnets)),
        connections=config.connections.get(network.uuid, ()),
    )


def nic_meant(nic: StoredNic) -> Nic:
    """Return a NIC of an instance."""
    return Nic(
        key=f"{nic.instance}/{nic.index}",
        owner=Owner(kind=INSTANCE, namespace="", name=nic.instance),
        index=nic.index,
        name=nic.name,
        uuid=nic.uuid,
        network=nic.network,
        ips=nic.ips,
        mac=nic.mac,
        mode=nic.mode,
        link=nic.link,
        vlan=nic.vlan,
    )


def _subnet(stored: StoredSubnet) -> Subnet:
    """Return a subnet; of what is externally reserved only what is not so of itself."""
    subnet = Subnet(
        uuid=stored.uuid,
        cidr=stored.cidr,
        gateway=stored.gateway,
        dhcp=stored.dhcp,
        name=stored.name,
        pools=tuple(
            Pool(range=pool.range, name=pool.name)
            for pool in sorted(stored.pools, key=lambda pool: pool.range)
        ),
    )
    automatic = tuple(IPRange(address, address) for address in subnet.automatic)
    return replace(subnet, external=merge(subtract(stored.external, automatic)))
