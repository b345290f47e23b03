"""Tell whether a link of a host is Lanloom's: one answer for every feature, every mode and every step.

A link is Lanloom's because Lanloom made it. Its own mark proves that, or a profile file or record that names this very
link. What the link is called and what it stands on prove nothing: Harvester's controller, an administrator and pods put
links of their own on bridges of Lanloom's, and give them names that Lanloom might have given.
"""

from collections.abc import Collection, Mapping
from ipaddress import IPv6Interface

from lanloom.node.marks import owner_of
from lanloom.node.ports import Link

ANY = 0
"""In place of an index: every VLAN link of the name, as a profile file names it."""

Named = Mapping[str, int]
"""The VLAN links that profile files and records name, with the kernel's index of each as recorded, or ANY."""

UNNAMED: Named = {}


def is_ours(link: Link, named: Named = UNNAMED, *, owner: str = "") -> bool:
    """Return whether Lanloom made this link for its VLAN networks, or for the object with the uid `owner`."""
    if owner:
        return link.kind == "bridge" and is_marked_for(link.alias, owner)
    if link.ours:
        return True
    return link.kind == "vlan" and named.get(link.name) in (ANY, link.index)


def is_marked_for(alias: str, *owners: str) -> bool:
    """Return whether an ifalias says that Lanloom made the link for one of these owners; for none, if all are empty.

    Bridges of isolated networks and all links of LANs, in whatever network namespace, have such a mark.
    """
    owner = owner_of(alias)
    return bool(owner) and owner in owners


def strangers_above(name: str, links: Mapping[str, Link], named: Named = UNNAMED) -> tuple[str, ...]:
    """Return the links of others that stand on a link and would go with it, in order."""
    above = (link for link in links.values() if link.parent == name != link.name)
    return tuple(sorted(link.name for link in above if not is_ours(link, named)))


def is_made_by_plugin(
    link: Link, links: Mapping[str, Link], *, addresses: Collection[str] = (), filtering: bool = False
) -> bool:
    """Return whether CNI's plugin must have created this bridge, so that Lanloom may make it its own.

    A pod that starts before the agent, as after a reboot, has the plugin create a bridge that is not there. The plugin
    leaves the defaults of the kernel, but sets `accept_ra` to 0 (plugins/main/bridge of containernetworking/plugins);
    `addresses` are those (CIDRs) that it may have given the bridge. With `filtering` the bridge may filter VLANs, as it
    does for networks with a VLAN. The ports are veth links whose peers are in the network namespaces of pods.
    """
    plain = link.ignores_routers and not link.spanning_tree and (filtering or not link.vlan_filtering)
    alone = not (link.alias or link.master)
    found = (*link.addresses, *(each for each in link.addresses6 if not IPv6Interface(each).is_link_local))
    return (
        link.kind == "bridge"
        and plain
        and alone
        and set(found) <= set(addresses)
        and not any(other.parent == link.name for other in links.values())
        and all(other.leads_away for other in links.values() if other.master == link.name)
    )
