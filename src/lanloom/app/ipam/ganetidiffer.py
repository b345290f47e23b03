"""How networks and NICs that are there differ from what a file says; `--keep` leaves them so."""

from collections.abc import Iterator

from lanloom.api.ipam import NicSpec
from lanloom.ipam.rules.difference import differences
from lanloom.ipam.rules.model import Network

TOLD = 5
"""So many differences of one object are told."""


def network_changes(there: Network, wanted: Network) -> str:
    """What would have to change for a network to be as in the file; empty where nothing would."""
    found = [f"{one.sign} {one.text}" for one in differences(there, wanted)]
    more = [f"and {len(found) - TOLD} more"] if len(found) > TOLD else []
    return "; ".join((*found[:TOLD], *more))


def nic_changes(there: NicSpec, wanted: NicSpec) -> str:
    """The same for a NIC. Whether it may have reserved addresses makes no difference."""
    return "; ".join(_nic_changes(there, wanted))


def _nic_changes(there: NicSpec, wanted: NicSpec) -> Iterator[str]:
    pairs = (
        ("owner", there.owner.name, wanted.owner.name),
        ("number", str(there.index), str(wanted.index)),
        ("network", there.network, wanted.network),
        ("addresses", ", ".join(there.ips), ", ".join(wanted.ips)),
        ("name", there.name, wanted.name),
        ("MAC", there.mac, wanted.mac),
        ("mode", there.mode, wanted.mode),
        ("link", there.link, wanted.link),
        ("VLAN", there.vlan, wanted.vlan),
    )
    for title, was, now in pairs:
        if was != now:
            yield f"~ {title} {was or 'none'} → {now or 'none'}"
