"""A random walk through damages: a node that the conditions call ready answers its neighbours, whatever was broken."""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import LONGEST_PAUSE, Lab
from tests.lab.looks import NODES
from tests.lab.objects import STATIC, Object, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

SEED = 11
ROUNDS, DAMAGES = 10, 5
"""In each round every node gets so many damages: 150 in all."""

SECONDS = 3.0
"""Within which the damages of a round come, from the moment on in which the networks were changed."""

GRACE = 15.0
"""Seconds for which a condition may be behind the kernel, on a busy machine."""

PATIENCE = 180.0
"""Seconds until all is whole again, on a busy machine: a repair that is undone again and again gets rarer."""

LINK = interface_name("cluster-1", 2012)
PROFILE = "/etc/NetworkManager/system-connections/cluster-1-vlan2012.nmconnection"
HOST_ROUTE = f"ip -4 route show table local type local dev {LINK} | cut -d' ' -f2"

OF_A_NODE = (
    f"ip address flush dev {LINK}",
    f"ip address flush dev {LINK}; ip link set {LINK} down",
    f"ip link set {LINK} down",
    f"ip link set {LINK} down; ip link set {LINK} up",
    f"ip route flush dev {LINK}",
    f"ip route del 192.168.1.0/24 dev {LINK}",
    f"ip route del local $({HOST_ROUTE} | head -n 1) dev {LINK} table local",
    "ip rule del priority 30200",
    f"ip link delete {LINK}",
    f"nmcli device disconnect {LINK}",
    "bridge vlan del vid 2012 dev cluster-1-br self",
    "bridge vlan del vid 2012 dev cluster-1-bo",
    f"rm {PROFILE}",
    f"rm {PROFILE}; nmcli connection reload",
    f"sed -i s,address1=[^/]*,address1=192.168.1.77, {PROFILE}",
    "ip link set cluster-1-br down",
    "ip link set cluster-1-bo down",
    "ip link set eth1 down",
    "ip link set eth1 nomaster",
    "ip link set cluster-1-bo nomaster",
    "ip link delete cluster-1-br",
    "ip link delete cluster-1-bo",
)
"""What a user does on a node. Some of it fails, for want of what an earlier damage has taken."""

OTHERS = {node: f"192.168.1.{20 + place}/24" for place, node in enumerate(NODES)}
BEHIND_A_ROUTER = {
    "gateway": "192.168.1.1",
    "routes": json.dumps([{"to": "10.9.0.0/16", "via": "192.168.1.2"}]),
}
NETWORKS: tuple[Object, ...] = (
    vm_network("vlan2012", "cluster-1", 2012, "static", STATIC),
    vm_network("vlan2012", "cluster-1", 2012, "static", OTHERS),
    vm_network("vlan2012", "cluster-1", 2012, "static", STATIC, **BEHIND_A_ROUTER),
    vm_network("vlan2012", "cluster-1", 2012, "dhcp"),
)


def script(rng: random.Random) -> str:
    """Some damages, at random moments."""
    moments = sorted(rng.uniform(0, SECONDS) for _ in range(DAMAGES))
    pauses = [after - before for before, after in zip((0.0, *moments), moments, strict=False)]
    lines = (f"sleep {pause:.2f}; {{ {rng.choice(OF_A_NODE)}; }} 2>/dev/null" for pause in pauses)
    return "\n".join((*lines, "true"))


def called_ready(lab: Lab) -> dict[str, str]:
    """The addresses of the nodes whose conditions are all True, by node."""
    items = json.loads(lab.kubectl("get", "clusternetworknodes", "-o", "json"))["items"]
    statuses = (item["status"] for item in items)
    return {
        status["node"]: status["addresses"].partition("/")[0]
        for status in statuses
        if status.get("clusterNetwork") == "cluster-1"
        and status.get("addresses")
        and {item["status"] for item in status.get("conditions", ())} == {"True"}
    }


def silent(lab: Lab, ready: dict[str, str], pool: ThreadPoolExecutor) -> set[str]:
    """The nodes of `ready` that do not answer another one of them."""

    def unanswered(node: str) -> set[str]:
        others = {address: other for other, address in ready.items() if other != node}
        pings = "; ".join(f"ping -c 1 -W 1 {address} >/dev/null || echo {address}" for address in others)
        return {
            others[line] for line in lab.on(node, pings or "true", status=None).splitlines() if line in others
        }

    return set().union(*pool.map(unanswered, ready))


def watch(lab: Lab, pool: ThreadPoolExecutor) -> Iterator[str]:
    """Until all nodes are called ready and answer; yields what a node is called wrongly for too long."""
    deadline = time.monotonic() + PATIENCE
    since: dict[str, float] = {}
    while time.monotonic() < deadline:
        before = called_ready(lab)
        wrong = silent(lab, before, pool)
        wrong = {node for node in wrong if called_ready(lab).get(node) == before[node]}
        since = {node: since.get(node, time.monotonic()) for node in wrong}
        if late := [node for node, began in since.items() if time.monotonic() - began > GRACE]:
            yield f"{', '.join(late)} called ready without answering"
            return
        if not wrong and before.keys() == set(NODES):
            return
        time.sleep(LONGEST_PAUSE)
    yield f"only {', '.join(called_ready(lab)) or 'none'} became ready again"


def test_what_is_called_ready_answers(cluster: Lab) -> None:
    """After each of 150 damages at random moments, a node that its conditions call ready answers every other one."""
    rng = random.Random(SEED)
    with ThreadPoolExecutor(len(NODES)) as pool:
        for number in range(ROUNDS):
            network = rng.choice(NETWORKS)
            scripts = {node: script(rng) for node in NODES}
            cluster.apply(network)
            list(pool.map(cluster.on, scripts, scripts.values()))
            for complaint in watch(cluster, pool):
                mode = network["metadata"]["annotations"]["network.harvesterhci.io/mode"]
                pytest.fail(f"round {number} ({mode}): {complaint}\n{json.dumps(scripts, indent=1)}")
