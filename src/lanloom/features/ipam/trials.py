"""What `lanloom check` tries of address management: two pods of a LAN get addresses, and reach each other by them."""

import json

from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS, resource_name
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import NADS
from lanloom.runtime.trials import NAMESPACE, Creation, Facts, Probe, Trial, creation, pair

NAME, ABOUT = "ipam", "addresses from a pool, each once, that reach each other"
SUBNET, POOL = "198.18.77.0/24", "198.18.77.10-198.18.77.20"
"""Of the range for tests of networks (RFC 2544), which is not routed."""

SPOKES = ("lanloom-chk-c", "lanloom-chk-d")
LAN_NAME, NETNS = "lanloom-check-ipam", "lanloom-chki"
SILENCE = "see the trial of LANs; `kubectl get ipnic -A` shows the addresses"
NO_LAN = (
    "pods get addresses on a LAN here: name the link that carries LANs between the nodes: --underlay eth0"
)


def plan(facts: Facts) -> tuple[Trial, ...]:
    """Return the trial of address management, for which a LAN of its own is the network."""
    if not facts.serves(NETWORKS):
        return ()
    if not (facts.underlay and facts.serves(LANS)):
        return (Trial(name=NAME, about=ABOUT, skipped=NO_LAN),)
    places = (facts.places[0], facts.places[-1])
    tasks = pair(facts, ("ipam-a", "ipam-b"), routed=True)
    probes = tuple(
        Probe(task=task, place=place, nad=spoke, resource=resource_name(spoke, "veth"))
        for task, place, spoke in zip(tasks, places, SPOKES, strict=True)
    )
    return (Trial(name=NAME, about=ABOUT, creations=_objects(facts), probes=probes, silence=SILENCE),)


def _objects(facts: Facts) -> tuple[Creation, ...]:
    network = creation(NETWORKS, NAMESPACE, {"subnets": [{"cidr": SUBNET, "pools": [{"range": POOL}]}]})
    lan = creation(
        LANS,
        LAN_NAME,
        {
            "ns": NETNS,
            "bridge": "br0",
            "vxlan": "vx0",
            "vni": facts.vni - 1,
            "defaultVxlanDev": facts.underlay,
            "spokes": list(SPOKES),
        },
    )
    return (network, lan, *(_nad(spoke) for spoke in SPOKES))


def _nad(spoke: str) -> Creation:
    ipam = {"type": "lanloom-ipam", "network": NAMESPACE, "ips": ["pool4"]}
    config = {"cniVersion": "0.3.1", "name": spoke, "type": "k8slanveth", "veth": spoke, "ipam": ipam}
    made = creation(NADS, spoke, {"config": json.dumps(config)})
    made.body["metadata"]["annotations"] = {RESOURCE_NAME: resource_name(spoke, "veth")}
    return made
