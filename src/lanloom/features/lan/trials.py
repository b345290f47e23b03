"""What `lanloom check` tries of LANs: two pods on different nodes that hear each other's frames."""

from lanloom.api.lan import LANS, nad_name, resource_name
from lanloom.runtime.trials import NAMESPACE, Facts, Probe, Trial, creation, pair

NAME, ABOUT = "lan", "frames between pods of a LAN on two nodes"
SPOKES = ("lanloom-chk-a", "lanloom-chk-b")
NETNS = "lanloom-chk"

SILENCE = (
    "allow VXLAN (UDP port 4789) between the nodes on the link {underlay}; "
    f"`lanloom lan trace {NAMESPACE}/lanloom-check` shows where frames end"
)
NO_UNDERLAY = "name the link that carries LANs between the nodes: --underlay eth0"


def plan(facts: Facts) -> tuple[Trial, ...]:
    """Return the trial of LANs; on a cluster with one node both pods are on it."""
    if not facts.serves(LANS):
        return ()
    if not facts.underlay:
        return (Trial(name=NAME, about=ABOUT, skipped=NO_UNDERLAY),)
    spec = {
        "ns": NETNS,
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": facts.vni,
        "defaultVxlanDev": facts.underlay,
        "spokes": list(SPOKES),
    }
    places = (facts.places[0], facts.places[-1])
    tasks = pair(facts, ("lan-a", "lan-b"))
    probes = tuple(
        Probe(task=task, place=place, nad=nad_name(spoke, "veth"), resource=resource_name(spoke, "veth"))
        for task, place, spoke in zip(tasks, places, SPOKES, strict=True)
    )
    lan = creation(LANS, NAMESPACE, spec)
    silence = SILENCE.format(underlay=facts.underlay)
    return (Trial(name=NAME, about=ABOUT, creations=(lan,), probes=probes, silence=silence),)
