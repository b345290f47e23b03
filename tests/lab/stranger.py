"""A host on a VLAN that is no node of the cluster: a network namespace of node3."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.driver import Lab

HOST = "node3"
"""The node on which it runs; its own NIC of the switch is not that of the node's networks."""

START = """
mkdir -p /run/netns
ip link add link eth2 name {name} type vlan id {vid}
ip link set eth2 up
ip netns add {name}
ip link set {name} netns {name}
ip -n {name} link set {name} up
"""

ENDED = """
if test -e {file}; then
    pid=$(cat {file})
    kill $pid
    timeout 60 tail --pid=$pid --sleep-interval=0.1 --follow /dev/null
    rm -f {file}
fi
"""

STOP = """
ip -n {name} link delete {name}
ip netns delete {name}
ip link set eth2 down
rm -f /run/{name}.*
"""


def end_program(file: str) -> str:
    """The script that ends the program whose id a file has, if there is one: its ports are free afterwards."""
    return ENDED.format(file=file)


def silence(name: str) -> str:
    """The script that ends the program of the host, of which the id is in `/run/NAME.pid`."""
    return end_program(f"/run/{name}.pid")


@contextmanager
def stranger(lab: Lab, name: str, vid: int) -> Iterator[None]:
    """Has a host of that name, which is that of its link, too, on a VLAN; afterwards none."""
    lab.on(HOST, START.format(name=name, vid=vid))
    try:
        yield
    finally:
        lab.on(HOST, silence(name) + STOP.format(name=name))
