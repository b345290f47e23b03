"""LANs, nodes and reports for tests."""

from typing import Any

from msgspec.structs import replace

from lanloom.api.lan import LAN, LANEntry, LANNode, LANNodeStatus, LANSpec, Spoke
from lanloom.api.meta import ObjectMeta
from lanloom.features.lan.rules.spec import default_group


def spec(**changes: Any) -> LANSpec:
    """A valid spec, with some of its fields changed."""
    plain = LANSpec(
        ns="blue",
        bridge="br0",
        vxlan="vx0",
        vni=7,
        vxlan_grp=default_group(7),
        default_vxlan_dev="eth0",
        spokes=("a", "b"),
    )
    return replace(plain, **changes)


def lan(
    name: str = "blue", *, uid: str = "", namespace: str = "default", created: str = "", **changes: Any
) -> LAN:
    """A LAN that is valid unless the changes of its spec make it otherwise."""
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        creation_timestamp=created or "2026-11-01T10:00:00Z",
    )
    return LAN(metadata=meta, spec=spec(**changes))


def other(name: str = "red", **changes: Any) -> LAN:
    """A LAN that has nothing in common with the plain one."""
    apart: dict[str, Any] = {"ns": "red", "vni": 8, "spokes": ("x",)}
    return lan(name, **(apart | changes))


def entry(of: LAN, **changes: Any) -> LANEntry:
    """The entry of a LAN in a LANNode, all well."""
    meta = of.metadata
    plain = LANEntry(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        vni=of.spec.vni,
        port=of.spec.vxlan_port,
        address="10.0.0.1",
        device="eth0",
        mtu=1450,
        ready=True,
        spokes=(Spoke(name=of.spec.spokes[0], mode="veth"),),
    )
    return replace(plain, **changes)


def lan_node(name: str, *entries: LANEntry) -> LANNode:
    """What one node carries."""
    return LANNode(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), status=LANNodeStatus(lans=entries))
