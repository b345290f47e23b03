"""What Lanloom made on a node, as its record and profile files tell: VLAN ids on links of others, and sub-interfaces.

NetworkManager makes the sub-interfaces, so they bear no mark. The profile file names one as long as it is there. Before
the file goes, the record takes the index of the link, which tells it from a later link of others with the same name.
NetworkManager may make the link again until it knows that the file is gone, so the record takes the index again then.
Until that is written, the record says that the file is about to go (`removing`): an agent that was started since
informs NetworkManager once more, and takes the index of what is left. A file that another program removed names its
link for one more look, if the link is wanted: it may be made again. The kernel does not tell who added a VLAN id
either; so an id is recorded before it is added.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.l3 import VID_MAX, VID_MIN
from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import (
    is_cluster_network,
    parse_profile_file,
    profile_file,
)
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem
from lanloom.node.ownership import ANY, Named, is_ours
from lanloom.node.ports import Link, LinkState
from lanloom.node.vlanids import VlanIds, merge

PROMISED = 0
"""In place of an index: the link was about to be made. It proves nothing: another may have made one of that name."""


class Added(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Lanloom added for one cluster network, since the host booted.

    VLAN ids on a bridge of others itself and on its uplink `port`; and, by VLAN id, the index of each sub-interface
    that a profile of Lanloom's made. `removing` are the VLAN ids whose profile files are about to go.
    """

    bridge: VlanIds = ()
    uplink: VlanIds = ()
    port: str = ""
    links: dict[int, int] = {}
    removing: tuple[int, ...] = ()


NOTHING = Added()

Additions = Mapping[str, Added]
"""By cluster network; those of which nothing was added are left out."""


def recorded(raw: bytes | None) -> dict[str, Added]:
    """Return the record of what was added.

    Empty where there is none or it can't be read: then nothing is taken away.
    """
    try:
        found = msgspec.json.decode(raw or b"{}", type=dict[str, Added])
    except (msgspec.DecodeError, RecursionError):
        return {}
    lawful = {name: _lawful_addition(item) for name, item in found.items() if is_cluster_network(name)}
    return {name: item for name, item in lawful.items() if item != NOTHING}


def _lawful_addition(found: Added) -> Added:
    return Added(
        bridge=_lawful(found.bridge),
        uplink=_lawful(found.uplink),
        port=found.port,
        links={
            vid: index
            for vid, index in found.links.items()
            if VID_MIN <= vid <= VID_MAX and index >= PROMISED
        },
        removing=tuple(vid for vid in found.removing if VID_MIN <= vid <= VID_MAX),
    )


def _lawful(ids: VlanIds) -> VlanIds:
    return merge((first, last) for first, last in ids if VID_MIN <= first <= last <= VID_MAX)


def named_links(files: Iterable[str], added: Additions) -> Named:
    """Return the sub-interfaces that profile files of Lanloom's and its record name."""
    found = {
        interface_name(name, vid): index
        for name, item in added.items()
        for vid, index in item.links.items()
        if index != PROMISED
    }
    owners = (owner for file in files if (owner := parse_profile_file(file)))
    return found | {interface_name(name, vid): ANY for name, vid in owners}


def unfinished(added: Additions) -> tuple[str, ...]:
    """Return the profile files whose removal was begun, and of which no look has shown what NetworkManager left."""
    return tuple(profile_file(name, vid) for name, item in sorted(added.items()) for vid in item.removing)


def foreign_interfaces(network: NodeNetwork, observed: LinkState, named: Named) -> Iterator[Problem]:
    """Yield a problem for each wanted sub-interface whose name, or whose VLAN of the bridge, a link of others has.

    The kernel has one link for a VLAN of a bridge. A sub-interface that another program renamed is such a link, too.
    """
    others = {link.vlan_id: link for link in _on_bridge(network.cluster_network, observed) if link.vlan_id}
    for item in network.interfaces:
        link, message = observed.links.get(item.name), ""
        if link is not None and not is_ours(link, named):
            message = (
                f"the link {item.name} exists and was not created by Lanloom; choose another VLAN id, or remove it if "
                "nothing uses it"
            )
        elif (other := others.get(item.vid)) is not None and other.name != item.name:
            message = (
                f"the link {other.name} has VLAN {item.vid} of {network.bridge}, which {item.name} needs; if another "
                f"program renamed it, rename it to {item.name}; else choose another VLAN id, or remove {other.name} if "
                "nothing uses it"
            )
        if message:
            yield Problem(vid=item.vid, network=item.name, reason="ForeignLink", message=message)


def held_ids(network: str, observed: LinkState, named: Named) -> frozenset[int]:
    """Return the VLAN ids of a cluster network's bridge that VLAN links of others on it need."""
    return frozenset(
        link.vlan_id
        for link in _on_bridge(network, observed)
        if link.kind == "vlan" and not is_ours(link, named)
    )


def links_to_record(
    cluster_network: str,
    network: NodeNetwork | None,
    unusable: frozenset[int],
    observed: LinkState,
    named: Named,
) -> dict[int, int]:
    """Return the sub-interfaces to record: those that are there, and those that are about to be made."""
    wanted = {item.vid for item in network.interfaces} - unusable if network is not None else set()
    there = {
        link.vlan_id: link.index
        for link in _on_bridge(cluster_network, observed)
        if link.name == interface_name(cluster_network, link.vlan_id) and is_ours(link, named)
    }
    return dict.fromkeys(sorted(wanted), PROMISED) | there


def removing(record: Mapping[str, Added], files: Iterable[str]) -> dict[str, Added]:
    """Return the record that says of these profile files that they are about to go."""
    result = {name: replace(item, removing=()) for name, item in record.items()}
    for name, vid in filter(None, map(parse_profile_file, files)):
        known = result.get(name, NOTHING)
        result[name] = replace(known, removing=(*known.removing, vid))
    return result


def removed(added: Additions, observed: LinkState) -> dict[str, Added]:
    """Return the record after the files went, with the links of theirs that are there."""
    found = {
        name: replace(item, links=item.links | _left(name, item, observed), removing=())
        for name, item in added.items()
    }
    return {name: item for name, item in found.items() if item != NOTHING}


def _left(cluster_network: str, item: Added, observed: LinkState) -> dict[int, int]:
    """Return the links that NetworkManager has left of profiles whose files went, by VLAN id: their indexes.

    Where another host has the address, NetworkManager makes the link again several times a second until it has read
    that the file is gone, and may leave the last one behind. Such a link never had an address, and nothing uses it.
    """
    return {
        link.vlan_id: link.index
        for link in _on_bridge(cluster_network, observed)
        if link.vlan_id in item.removing
        and link.name == interface_name(cluster_network, link.vlan_id)
        and not (link.addresses or link.addresses6 or link.master)
        and not any(other.parent == link.name for other in observed.links.values())
    }


def untold(before: Additions, after: Additions, observed: LinkState, files: Iterable[str]) -> tuple[str, ...]:
    """Return profile files that went without the link of their name that is there now: NetworkManager may not know.

    Informed of it, NetworkManager removes a link that it made, and only such a one.
    """
    present = set(files)
    return tuple(
        file
        for name, item in sorted(before.items())
        for vid in sorted(item.links)
        if vid not in after.get(name, NOTHING).links
        and interface_name(name, vid) in observed.links
        and (file := profile_file(name, vid)) not in present
    )


def _on_bridge(cluster_network: str, observed: LinkState) -> Iterator[Link]:
    bridge = names.bridge_name(cluster_network)
    return (link for link in observed.links.values() if link.parent == bridge)
