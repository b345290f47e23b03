"""Ganeti clusters of any size as its files say them, in the ways in which its versions write."""

import json
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

Json = Any


def uuid(name: str) -> str:
    """A UUID that is the same in each run."""
    return str(uuid5(NAMESPACE_DNS, name))


def bits(size: int, reserved: Iterable[int]) -> str:
    """A string of bits with those at some places set."""
    found = ["0"] * size
    for at in reserved:
        found[at] = "1"
    return "".join(found)


def network(
    name: str,
    cidr: str,
    *,
    used: Sequence[int] = (),
    external: Sequence[int] = (),
    gateway: int | None = 1,
    **more: Json,
) -> Json:
    """A network of the old form, its fields in the order in which Ganeti declares them.

    `used`, `external` and `gateway` count from the network address; the edges and the gateway are reserved besides.
    """
    net = IPv4Network(cidr)
    size = net.num_addresses
    fixed = {0, size - 1, *([gateway] if gateway is not None else [])}
    values = {
        "name": name,
        "serial_no": 1 + len(used),
        "mac_prefix": more.pop("mac_prefix", None),
        "network": cidr,
        "network6": more.pop("network6", None),
        "gateway": str(net[gateway]) if gateway is not None else None,
        "gateway6": more.pop("gateway6", None),
        "reservations": bits(size, used),
        "ext_reservations": bits(size, fixed.union(external)),
        "ctime": 1380000000.25,
        "mtime": 1380000451.5,
        "uuid": uuid(name),
        "tags": more.pop("tags", []),
    }
    return {key: value for key, value in values.items() if value is not None} | more


def nic(number: int, ip: str | None = None, network: str | None = None, **more: Json) -> Json:
    """A NIC of the old form; without an address it has no such field, as Ganeti writes it."""
    values = {
        "mac": "aa:00:00:" + ":".join(f"{part:02x}" for part in number.to_bytes(3, "big")),
        "ip": ip,
        "network": network,
        "nicparams": {"link": "br100", "mode": "bridged", "vlan": ""} if network else {},
        "name": more.pop("name", None),
        "uuid": uuid(f"nic{number}"),
    }
    return {key: value for key, value in values.items() if value is not None} | more


def instance(name: str, nics: Sequence[Json], **more: Json) -> Json:
    """An instance with as much as a real one has."""
    values = {
        "name": name,
        "primary_node": uuid("node1.example.com"),
        "os": "debootstrap+default",
        "hypervisor": "kvm",
        "hvparams": {"boot_order": "disk", "kernel_args": "ro quiet"},
        "beparams": {"maxmem": 1024, "minmem": 512, "vcpus": 2},
        "osparams": {},
        "admin_state": "up",
        "nics": list(nics),
        "disks": [uuid(f"disk of {name}")],
        "disks_active": True,
        "ctime": 1385558400.4512,
        "mtime": 1385558461.0,
        "uuid": uuid(name),
        "serial_no": 3,
        "tags": ["service:web"],
    }
    return values | more


def config(
    networks: Sequence[Json], instances: Sequence[Json], connections: Json = None, **more: Json
) -> Json:
    """A whole configuration; `connections` are those of the one node group, by networks' names."""
    group = uuid("group default")
    node = {
        "name": "node1.example.com",
        "primary_ip": "198.51.100.1",
        "group": group,
        "uuid": uuid("node1.example.com"),
    }
    return {
        "version": 2160000,
        "cluster": {
            "cluster_name": "cluster.example.com",
            "rsahostkeypub": "AAAAB3NzaC1yc2E=/+",
            "mac_prefix": "aa:00:00",
            "nicparams": {"default": {"link": "br0", "mode": "bridged", "vlan": ""}},
            "ipolicy": {"spindle-ratio": 32.0, "vcpu-ratio": 4.0},
            "ctime": 1343869045.6048839,
            "uuid": uuid("cluster"),
        },
        "nodes": {node["uuid"]: node},
        "nodegroups": {
            group: {
                "name": "default",
                "uuid": group,
                "networks": {uuid(name): value for name, value in (connections or {}).items()},
            }
        },
        "instances": {item["uuid"]: item for item in instances},
        "networks": {item["uuid"]: item for item in networks},
        "serial_no": 7627,
        "ctime": 1343869045.605523,
        "mtime": 1421677173.729104,
    } | more


def python_text(value: Json) -> str:
    """As Ganeti's older versions write: indented, keys sorted."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def haskell_text(value: Json) -> str:
    """As Ganeti's newer versions write: one line, keys as declared, large numbers with exponents, no line break."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{haskell_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(haskell_text, value)) + "]"
    if isinstance(value, float) and value >= 1e7:
        digits = repr(value).replace(".", "").rstrip("0")
        return f"{digits[0]}.{digits[1:] or '0'}e{len(str(int(value))) - 1}"
    return json.dumps(value)


def large(instances: int = 10_000) -> Json:
    """A cluster with a /16 that is used by many instances with two NICs each."""
    net = IPv4Network("10.32.0.0/16")
    used = [100 + number for number in range(instances)]
    one = network("backbone", str(net), used=used, network6="2001:db8:20::/64", gateway6="2001:db8:20::1")
    private = network("private", "10.33.0.0/16", gateway=None)
    machines = [
        instance(
            f"vm{number}.example.com",
            [nic(2 * number, str(net[place]), one["uuid"]), nic(2 * number + 1, None, private["uuid"])],
        )
        for number, place in enumerate(used)
    ]
    link = {"link": "br100", "mode": "bridged", "vlan": ""}
    return config([one, private], machines, {"backbone": link, "private": link})
