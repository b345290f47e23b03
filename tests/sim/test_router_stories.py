"""The stories of nodes that make IPv6 addresses of router advertisements hold whatever goes wrong on the way."""

import json

from lanloom.api import names
from lanloom.api.multus import NADS
from tests.features.vlan.cluster import nad
from tests.features.vlan.quiet import STATIC
from tests.sim.cluster import SimCluster
from tests.sim.seeds import few, play_each
from tests.sim.vlan_stories import STORIES, Step, play

HERE = "tests/sim/test_router_stories.py"
SUBNET = "fd00:1::/64"
UPLINK = STORIES["1: addresses by DHCP"][0]


def _annotations(mode: str, subnet: str | None = SUBNET) -> dict[str, str | None]:
    return {names.MODE: mode, names.IPV6_SUBNET: subnet, names.NODE_IP_MAP: json.dumps(STATIC)}


def _network(mode: str) -> Step:
    body = nad("vlan2012", "cluster-1", 2012, mode=mode)
    body["metadata"]["annotations"] |= _annotations(mode)

    async def step(sim: SimCluster) -> None:
        await sim.admin.create(NADS, body, "default")

    return step


def _change(mode: str, subnet: str | None = SUBNET) -> Step:
    body = {"metadata": {"annotations": _annotations(mode, subnet)}}
    return lambda sim: sim.admin.patch(NADS, "vlan2012", body, "default")


def _advertise(*prefixes: str) -> Step:
    async def step(sim: SimCluster) -> None:
        sim.switch.set_router(2012, *prefixes)

    return step


async def _lease(sim: SimCluster) -> None:
    sim.switch.set_dhcpv6(2012, "fd00:1::10")


ROUTED = {
    "a router is there": (UPLINK, _advertise(SUBNET), _network("dhcp,slaac")),
    "a router comes later": (UPLINK, _network("static,slaac"), _advertise(SUBNET)),
    "a second prefix": (UPLINK, _network("static,slaac"), _advertise("fd00:99::/64"), _advertise(SUBNET)),
    "IPv4 changes": (UPLINK, _advertise(SUBNET), _network("dhcp,slaac"), _change("static,slaac")),
    "a DHCPv6 server is there": (UPLINK, _lease, _network("dhcp,dhcp6")),
    "a DHCPv6 server comes later": (UPLINK, _network("static,dhcp6"), _lease),
    "leases after advertisements": (
        UPLINK,
        _advertise(SUBNET),
        _lease,
        _network("static,slaac"),
        _change("static,dhcp6"),
    ),
    "it is switched off": (UPLINK, _advertise(SUBNET), _network("static,slaac"), _change("static", None)),
}


@few
def test_a_cluster_comes_to_rest(seed: int) -> None:
    """After deaths, reboots and faults every node has the address that its network asks for, and says so."""
    play_each(HERE, lambda seed: play(seed, ROUTED), seed)
