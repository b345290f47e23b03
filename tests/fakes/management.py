"""The management network of a fake host as the installer makes it: links that are not Lanloom's, at every boot."""

from collections.abc import Iterator

from lanloom.api.names import MGMT_BOND, MGMT_BRIDGE
from lanloom.node.ports import Link
from lanloom.node.vlanids import VlanIds, merge
from tests.fakes.kernel import DEFAULT_SETTINGS


def links(address: str, vid: int, mac: str) -> Iterator[tuple[Link, bool]]:
    """Bond, bridge and, unless `vid` is 0, the VLAN link that has the address; each with whether the default route
    goes out of it."""
    ids: VlanIds = merge(((1, 1), (vid, vid))) if vid else ((1, 1),)
    untagged = () if vid else (address,)
    yield (
        Link(
            name=MGMT_BOND,
            index=0,
            kind="bond",
            mac=mac,
            up=True,
            master=MGMT_BRIDGE,
            vlans=ids,
            bond_mode="active-backup",
            bond_miimon=100,
            bond_settings=DEFAULT_SETTINGS,
        ),
        False,
    )
    yield (
        Link(
            name=MGMT_BRIDGE,
            index=0,
            kind="bridge",
            mac=mac,
            up=True,
            vlan_filtering=True,
            self_vlans=ids,
            addresses=untagged,
        ),
        not vid,
    )
    if vid:
        name = f"{MGMT_BRIDGE}.{vid}"
        sub = Link(
            name=name,
            index=0,
            kind="vlan",
            mac=mac,
            up=True,
            parent=MGMT_BRIDGE,
            vlan_id=vid,
            addresses=(address,),
        )
        yield sub, True
