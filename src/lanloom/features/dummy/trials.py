"""What `lanloom check` tries of isolated networks: pods of one node hear each other, and not those of another node."""

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.runtime.trials import NAMESPACE, Facts, Probe, Task, Trial, creation, pair

NAME, ABOUT = "isolated", "frames between pods of an isolated network on one node, and none to another node"
NAD = "isolated"
BRIDGE = "lanloom-chk-br"
QUIET = 5
"""Seconds for which a pod listens to the other node after it has heard those of its own."""

FOREVER = 86_400

SILENCE = f"`lanloom dummy show {NAMESPACE}` shows the bridge of each node"


def plan(facts: Facts) -> tuple[Trial, ...]:
    """Return the trial of isolated networks; with one node it can't tell whether another one is kept out."""
    if not facts.serves(DUMMY_CLUSTER_NETWORKS):
        return ()
    spec = {"bridgeName": BRIDGE, "nadName": NAD, "nadNamespace": NAMESPACE}
    here, there = facts.places[0], facts.places[-1]
    names = ("isolated-a", "isolated-b")
    far = ("isolated-c",) if here != there else ()
    # The pod on the other node is there first: silence of one that is not there would prove nothing.
    strangers = [
        Task(run=facts.run, name=name, seconds=FOREVER, strangers=names, quiet=FOREVER) for name in far
    ]
    probes = [Probe(task=task, place=there, nad=NAD, background=True) for task in strangers]
    tasks = pair(facts, names, strangers=far, quiet=QUIET if far else 0)
    probes += [Probe(task=task, place=here, nad=NAD) for task in tasks]
    network = creation(DUMMY_CLUSTER_NETWORKS, NAMESPACE, spec)
    return (Trial(name=NAME, about=ABOUT, creations=(network,), probes=tuple(probes), silence=SILENCE),)
