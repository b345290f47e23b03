"""Agents that are killed at random points while networks come, change and go."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import mortal
from tests.lab.agents import replace_agent, restore_agent
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    all_lack,
    looks,
)
from tests.lab.objects import (
    STATIC,
    Object,
    cluster_network,
    vlan_config,
    vm_network,
)
from tests.lab.watchman import (
    PLANT,
    UPROOT,
    ProfileWatch,
    foreign_state,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = 200
SEED = 20261121
LONGEST, SETTLED = 500.0, 120.0
"""Seconds within which so many kills must have happened, and within which a last change must be let in."""

PROFILES = "/etc/NetworkManager/system-connections"
FOREIGN = {
    "foreign.nmconnection": "[connection]\nid=foreign\ntype=dummy\ninterface-name=dum0\nautoconnect=false\n",
    "cluster-1-vlan77.nmconnection": "[connection]\nid=like-ours\ntype=dummy\ninterface-name=dum1\nautoconnect=false\n",
}
SECOND = {node: f"192.168.2.{10 + number}/24" for number, node in enumerate(NODES)}
PAIR = {node: f"192.168.13.{10 + number}/24" for number, node in enumerate(NODES[:2])}

UPLINKS: tuple[Object, ...] = (
    cluster_network("cluster-1"),
    vlan_config("one", "cluster-1"),
    cluster_network("cluster-2"),
    vlan_config("two-node1", "cluster-2", nics=["eth2"], node="node1"),
    vlan_config("two-node2", "cluster-2", nics=["eth2"], node="node2"),
)
CHANGES: tuple[Object, ...] = (
    vm_network("vlan2012", "cluster-1", 2012),
    vm_network("vlan2012", "cluster-1", 2012, "static", STATIC),
    vm_network("vlan2012", "cluster-1", 2012, l3_connectivity="false"),
    vm_network("vlan2013", "cluster-1", 2013, "static", SECOND),
    vm_network("vlan2013", "cluster-1", 2020, "static", SECOND),
    vm_network("pair", "cluster-2", 2013, "static", PAIR),
    vm_network("mgmt14", "mgmt", 2014),
    vlan_config("one", "cluster-1"),
    vlan_config("one", "cluster-1", mtu=1400),
    vlan_config("one", "cluster-1", node="node1"),
)
REMOVALS = (
    ("net-attach-def", "vlan2012"),
    ("net-attach-def", "vlan2013"),
    ("net-attach-def", "pair"),
    ("net-attach-def", "mgmt14"),
    ("vlanconfig", "one"),
)
FINAL = (
    vlan_config("one", "cluster-1"),
    vm_network("vlan2012", "cluster-1", 2012, "static", STATIC),
    vm_network("vlan2013", "cluster-1", 2013, "static", SECOND),
    vm_network("pair", "cluster-2", 2013, "static", PAIR),
)


@pytest.fixture
def mortals(clean: Lab) -> Iterator[Lab]:
    """The lab with foreign links and profiles on every node, whose agents are killed again and again."""
    program = Path(mortal.__file__).read_text()
    try:
        for node in NODES:
            clean.on(node, PLANT)
            for name, content in FOREIGN.items():
                clean.run(
                    "exec", node, "--", "sh", "-c", f"umask 077; cat > {PROFILES}/{name}", given=content
                )
            clean.run("exec", node, "--", "sh", "-c", "cat > /run/mortal.py", given=program)
            replace_agent(clean, node, f"python3 /run/mortal.py {SEED}-{node}")
        yield clean
    finally:
        for node in NODES:
            clean.on(
                node, f"{UPROOT}; rm -f /run/mercy /run/kills {PROFILES}/" + f" {PROFILES}/".join(FOREIGN)
            )
            restore_agent(clean, node)


def kills(lab: Lab) -> int:
    """How often agents were killed so far."""
    return sum(int(lab.on(node, "cat /run/kills 2>/dev/null || echo 0") or 0) for node in NODES)


def disturb(lab: Lab, rng: random.Random) -> None:
    """One change of the cluster's objects; a webhook may refuse it, as it would refuse a user's."""
    if rng.random() < 0.35:
        lab.kubectl("delete", "--ignore-not-found", *rng.choice(REMOVALS), fails=None)
    else:
        lab.apply(rng.choice(CHANGES), fails=None)


def settle(lab: Lab, wanted: Object) -> None:
    """Applies an object, if need be until an agent has lived long enough to report what a webhook asks for."""
    deadline = time.monotonic() + SETTLED
    while "rror" in (said := lab.apply(wanted, fails=None)):
        assert time.monotonic() < deadline, said


def test_agents_that_are_killed_converge(mortals: Lab) -> None:
    """Agents killed 200 times while networks change converge, never show half a profile, and touch nothing foreign."""
    rng = random.Random(SEED)
    before = {node: foreign_state(mortals, node) for node in NODES}
    watch = ProfileWatch(mortals, {name: text.encode() for name, text in FOREIGN.items()})
    watch.start()
    mortals.apply(*UPLINKS)
    deadline = time.monotonic() + LONGEST
    while (count := kills(mortals)) < KILLS:
        assert time.monotonic() < deadline, f"only {count} kills in {LONGEST:.0f} s"
        for _ in range(3):
            disturb(mortals, rng)
        assert {node: foreign_state(mortals, node) for node in NODES} == before
    for wanted in FINAL:
        mortals.apply(wanted, fails=None)
    mortals.kubectl("delete", "--ignore-not-found", "net-attach-def", "mgmt14")
    for node in NODES:
        mortals.on(node, "touch /run/mercy")
    for wanted in FINAL:
        settle(mortals, wanted)
    eventually(lambda: all_have(mortals, "cluster-1", 2012) == STATIC, timeout=300)
    eventually(lambda: all_have(mortals, "cluster-1", 2013) == SECOND)
    eventually(lambda: all_have(mortals, "cluster-2", 2013, NODES[:2]) == PAIR)
    eventually(lambda: all_lack(mortals, "cluster-1", 2020) and all_lack(mortals, "mgmt", 2014))
    assert {node: foreign_state(mortals, node) for node in NODES} == before
    mortals.kubectl("delete", "net-attach-def", "--all", "--namespace=default")
    mortals.kubectl("delete", "vlanconfigs", "--all")
    eventually(lambda: all(item.lacks_network("cluster-2") for item in looks(mortals, NODES).values()))
    eventually(
        lambda: all(
            "cluster-1-br" not in item.links and item.profiles == set(FOREIGN)
            for item in looks(mortals, NODES).values()
        )
    )
    watch.end()
    print(f"{kills(mortals)} kills, {watch.seen} profiles read, seed {SEED}")
    assert not watch.faults
    assert watch.seen > 1000
