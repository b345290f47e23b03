"""What stories do to a cluster, and what they look at."""

from lanloom.api import names
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.names import profile_file
from lanloom.node.vlanids import contains
from tests.features.vlan.quiet import (
    DEVICE,
    Quiet,
)


def carrying(quiet: Quiet, uplink: str = "cluster-1", vid: int = 2012) -> set[str]:
    """The nodes on which a VLAN is whole: profile, sub-interface with one address, id on bridge and uplink."""
    device = interface_name(uplink, vid)
    return {
        name
        for name, host in quiet.sim.hosts.items()
        if profile_file(uplink, vid) in host.directory.files
        and len(getattr(host.kernel.links.get(device), "addresses", ())) == 1
        and host.kernel.carries(f"{uplink}-br", vid)
    }


def touched(quiet: Quiet, uplink: str = "cluster-1", vid: int = 2012) -> set[str]:
    """The nodes on which anything of a VLAN is left."""
    device = interface_name(uplink, vid)
    found = set()
    for name, host in quiet.sim.hosts.items():
        links = host.kernel.links
        ids = [(link.vlans, link.self_vlans) for key, link in links.items() if key.startswith(f"{uplink}-b")]
        if (
            device in links
            or profile_file(uplink, vid) in host.directory.files
            or any(contains(item, vid) for pair in ids for item in pair)
        ):
            found.add(name)
    return found


def addresses(quiet: Quiet, device: str = DEVICE) -> dict[str, str]:
    """Node → its address on a sub-interface."""
    links = {name: host.kernel.links.get(device) for name, host in quiet.sim.hosts.items()}
    return {name: link.addresses[0] for name, link in links.items() if link is not None and link.addresses}


async def annotate(quiet: Quiet, **annotations: str | None) -> None:
    """Changes annotations of the network vlan2012; the prefix is left out."""
    named = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": named}}, "default")
