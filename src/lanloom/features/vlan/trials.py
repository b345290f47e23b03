"""What `lanloom check` tries of VLAN networks: nodes reach each other by the addresses that Lanloom gave them."""

from collections import defaultdict
from itertools import pairwise

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.runtime.trials import Facts, NodeAddress, Ping, Probe, Task, Trial

NAME, ABOUT = "vlan", "pings between addresses of nodes in VLANs"
MOST = 10
"""Nodes that take part."""

SILENCE = (
    "`lanloom vlan show NAD` shows the uplinks; see that the switches carry the VLAN between these nodes"
)
NO_ADDRESSES = "no VLAN has addresses of two nodes: `lanloom vlan list` shows what there is"


def plan(facts: Facts) -> tuple[Trial, ...]:
    """Return the trial of VLANs: each node pings the next one of each VLAN and IP version, and the last the first."""
    if not facts.serves(CLUSTER_NETWORK_NODES):
        return ()
    chosen = {place.name: place for place in sorted(facts.places, key=lambda place: place.name)[:MOST]}
    pings = _pings([item for item in facts.addresses if item.node in chosen])
    if not pings:
        return (Trial(name=NAME, about=ABOUT, skipped=NO_ADDRESSES),)
    probes = tuple(
        Probe(
            task=Task(run=facts.run, name=f"vlan-{number}", seconds=facts.seconds, pings=tuple(found)),
            place=chosen[node],
        )
        for number, (node, found) in enumerate(sorted(pings.items()), 1)
    )
    return (Trial(name=NAME, about=ABOUT, probes=probes, silence=SILENCE),)


def _pings(addresses: list[NodeAddress]) -> dict[str, list[Ping]]:
    """Return what each node is to ping."""
    vlans: dict[tuple[str, int, bool], list[NodeAddress]] = defaultdict(list)
    for item in sorted(addresses, key=lambda item: item.node):
        vlans[item.cluster_network, item.vlan, ":" in item.address].append(item)
    pings: dict[str, list[Ping]] = defaultdict(list)
    for members in vlans.values():
        ring = members if len(members) < 2 else [*members, members[0]]
        for one, other in pairwise(ring):
            title = f"{other.node} by VLAN {other.vlan} of {other.cluster_network} ({other.address})"
            pings[one.node].append(Ping(other.address, one.interface, title))
    return pings
