"""Machines of one VLAN with an MTU each, by a NAD for each MTU: what a guest has, and what passes to it and from it.

The uplink has 9,000 bytes. The lab's switch carries 1,500, so larger packets are exchanged with the machines' own node.
"""

import json
from collections.abc import Iterator

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import all_have
from tests.lab.machines import Machine, body, remove_machines
from tests.lab.objects import STATIC, Object, vlan_config, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.kernel]

NODE, OTHER = "node1", "node2"
HEADERS = 28
"""Bytes of a packet in addition to the data of an echo."""

TAG = 4
"""Bytes by which a frame may be larger than the MTU of a link: a link without VLANs has room for the tag of one."""

SMALL, MIDDLE, LARGE = 1400, 1450, 9000


def nad(name: str, mtu: int) -> Object:
    """A NAD of VLAN 2012 for machines with an MTU."""
    made = vm_network(name, "cluster-1", 2012)
    config = json.loads(made["spec"]["config"]) | {"mtu": mtu}
    return made | {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"config": json.dumps(config)},
    }


@pytest.fixture
def jumbo(cluster: Lab) -> Iterator[Lab]:
    """The lab with an uplink of 9,000 bytes, node addresses on VLAN 2012, and a NAD for each of two MTUs."""
    cluster.apply(
        vlan_config("vlanconfig-1", "cluster-1", mtu=LARGE),
        vm_network("vlan2012", "cluster-1", 2012, "static", STATIC),
        nad("small", SMALL),
        nad("large", LARGE),
    )
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: reaches(cluster, NODE, STATIC[NODE].partition("/")[0], LARGE))
    try:
        yield cluster
    finally:
        remove_machines(cluster)


def start(lab: Lab, name: str, network: str, address: str) -> Machine:
    """A machine on the node, with the address of the VLAN."""
    made = body(name, (network,), f"{address}/24", migratable=True, annotations={})
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    lab.apply(made)
    machine = Machine(lab, name)
    eventually(lambda: machine.attempt("true") is not None, timeout=240)
    return machine


def mtu_of(machine: Machine) -> int:
    """The MTU of the guest's interface."""
    return int(machine.run("cat /sys/class/net/eth0/mtu"))


def packets(machine: Machine, address: str, size: int) -> int:
    """The number of packets in which an answered echo of so many bytes, with its headers, leaves the guest."""
    count = "awk '/^Ip: [0-9]/ {print $NF}' /proc/net/snmp"
    echo = f"ping -c 1 -W 3 -s {size - HEADERS} {address} >/dev/null"

    def sent() -> int:
        done = machine.attempt(f"before=$({count}); {echo} && echo $(($({count}) - before))")
        return max(1, int(done)) if done is not None else 0

    return int(eventually(sent))


def reaches(lab: Lab, node: str, address: str, size: int) -> bool:
    """Whether an echo of so many bytes that must not be fragmented is answered to the node."""
    ping = f"ping -M do -c 2 -W 2 -s {size - HEADERS} {address} >/dev/null && echo yes"
    return "yes" in lab.on(node, ping, status=None)


def has(machine: Machine, address: str, mtu: int) -> None:
    """Check that a guest has an MTU, and that packets of that size, and no larger ones, pass from and to its node."""
    assert mtu_of(machine) == mtu
    here = STATIC[NODE].partition("/")[0]
    assert (packets(machine, here, mtu), packets(machine, here, mtu + 1)) == (1, 2)
    eventually(lambda: reaches(machine.lab, NODE, address, mtu))
    assert not reaches(machine.lab, NODE, address, mtu + TAG + 1)


def test_each_machine_has_the_mtu_of_its_nad(jumbo: Lab) -> None:
    """Two machines of a VLAN have an MTU each; another MTU of one NAD, or its end, leaves the other machine alone."""
    one, other = "192.168.1.60", "192.168.1.61"
    small, large = start(jumbo, "small", "small", one), start(jumbo, "large", "large", other)
    has(small, one, SMALL)
    has(large, other, LARGE)
    eventually(lambda: reaches(jumbo, OTHER, one, SMALL))
    assert packets(small, other, SMALL) == 1
    before = small.identity(), large.identity()

    jumbo.apply(nad("small", MIDDLE))
    eventually(lambda: large.reaches(one))
    has(small, one, SMALL)
    has(large, other, LARGE)
    assert (small.identity(), large.identity()) == before

    jumbo.kubectl("delete", "vm", "small", "--timeout=300s")
    eventually(lambda: not small.instance())
    small = start(jumbo, "small", "small", one)
    has(small, one, MIDDLE)
    has(large, other, LARGE)

    jumbo.kubectl("delete", "vm", "small", "--timeout=300s")
    eventually(lambda: not small.instance())
    jumbo.kubectl("delete", "net-attach-def", "small")
    eventually(lambda: "small" not in jumbo.kubectl("get", "net-attach-def", "-o", "name"))
    has(large, other, LARGE)
    assert large.identity() == before[1]
