"""Which bridges without a mark become isolated ones: those that CNI's `bridge` plugin makes where none is.

After a reboot nothing tells whether a pod or the keeper of its bridge starts first, and the plugin makes a bridge that
it does not find. Such a bridge can't bear a mark, so it is told by all that the plugin leaves as it is and that others
change: programs that make bridges for themselves give them an address, spanning tree, an uplink or taps.

One that has no port any more, because its pods ended, is taken over as well: it would be in the way for ever, and
whoever else made it loses nothing by a mark. It is deleted only with the mark, and never with a port.
"""

from collections.abc import Mapping

from lanloom.node.ports import Link


def is_made_by_plugin(link: Link, links: Mapping[str, Link], gateway: str) -> bool:
    """Whether CNI's plugin must have made `link`; `gateway` is the address (a CIDR) that it gives it, if any.

    A plugin that is asked for no VLAN leaves the kernel's defaults, but sets `accept_ra` to 0 (plugins/main/bridge of
    containernetworking/plugins). The ports are cables whose other ends are in pods' network namespaces.
    """
    plain = link.ignores_routers and not (link.vlan_filtering or link.spanning_tree)
    alone = not (link.alias or link.master or link.addresses6)
    return (
        plain
        and alone
        and set(link.addresses) <= {gateway}
        and not any(other.parent == link.name for other in links.values())
        and all(other.leads_away for other in links.values() if other.master == link.name)
    )
