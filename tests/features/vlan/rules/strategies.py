"""Clusters and hosts for property tests: whatever may be wanted of a node, and whatever may be there already."""

from ipaddress import IPv4Network
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.bonds import BOND_MODES
from lanloom.api.l3 import (
    L3,
    Mode,
    Mode6,
    Route,
    Routing,
)
from lanloom.features.dummy.rules.hostbridge import alias_of
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.profile import Profile, profile_of
from lanloom.node.ports import Link
from tests.fakes import management
from tests.fakes.kernel import DEFAULT_SETTINGS
from tests.features.vlan.cluster import (
    CLUSTER,
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.test_names import NETWORKS, NODES, VIDS

NODE = "node1"
NICS = ("eth0", "eth1", "eth2", "eth3")
UPLINKS = {"cluster-1": "eth1", "cl8chars": "eth2", "n": "eth3"}
"""Cluster networks and their NICs. eth0 is of no cluster network."""

MANAGEMENT_VID = 2021

_VIDS = st.sampled_from([2, 3, 4, 10, 2012, 4094])
_MANAGEMENT_VIDS = st.sampled_from([2, 3, 10, MANAGEMENT_VID, 4094])
_TRUNKS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=2,
)


@st.composite
def wanted(draw: st.DrawFn, *, broken: bool = False) -> tuple[NodeNetwork, ...]:
    """What a node should carry. With `broken`, some annotations and configurations can't be read."""
    objects = [node(NODE)]
    for name in draw(st.sets(st.sampled_from(sorted(UPLINKS)))):
        objects += [
            cluster_network(name),
            vlan_config(name, name, nics=[UPLINKS[name]], uplink=draw(_UPLINK)),
        ]
        objects += draw(_networks(name, _VIDS, broken=broken))
    if draw(st.booleans()):
        objects += [cluster_network("mgmt"), *draw(_networks("mgmt", _MANAGEMENT_VIDS, broken=broken))]
    return cluster_of(objects).managed().on_node(NODE)


_UPLINK = st.fixed_dictionaries(
    {
        "bondOptions": st.fixed_dictionaries(
            {"mode": st.sampled_from(BOND_MODES), "miimon": st.sampled_from([-1, 0, 50])},
            optional={
                "xmitHashPolicy": st.sampled_from(["layer3+4", "layer9"]),
                "lacpRate": st.sampled_from(["slow", "fast"]),
                "arpInterval": st.sampled_from([-1, 500]),
                "arpIpTargets": st.sampled_from([["10.9.0.1"], ["::1"]]),
                "primary": st.sampled_from(["eth1", "eth77"]),
            },
        ),
        "linkAttributes": st.fixed_dictionaries(
            {
                "mtu": st.sampled_from([0, 1400, 9000]),
                "txQLen": st.sampled_from([0, 500]),
                "hardwareAddr": st.sampled_from(["", "02:00:5e:10:00:01"]),
            }
        ),
    }
)


@st.composite
def _networks(
    draw: st.DrawFn, name: str, vids: st.SearchStrategy[int], *, broken: bool
) -> list[dict[str, Any]]:
    """NADs of a cluster network."""
    objects = []
    for number, vid in enumerate(sorted(draw(st.sets(vids, max_size=3)))):
        mode = draw(st.sampled_from(["", "dhcp", "static"]))
        addresses = {NODE: f"10.0.{number}.{draw(st.integers(1, 3))}/24"} if mode == "static" else None
        more = {names.GATEWAY: f"10.0.{number}.254/24"} if mode and draw(st.booleans()) else None
        objects.append(nad(f"{name}-{vid}", name, vid, mode=mode, addresses=addresses, more=more))
    trunk = [{"minID": first, "maxID": last} for first, last in draw(_TRUNKS)]
    objects.append(nad(f"{name}-trunk", name, config={"vlanTrunk": trunk}))
    if broken and draw(st.booleans()):
        objects.append(nad(f"{name}-broken", name, config="{"))
    return objects


FOREIGN = (
    *(link for link, _ in management.links("10.115.252.135/23", MANAGEMENT_VID, "02:00:00:00:00:01")),
    Link(name="mgmt-br.3", index=0, kind="vlan", parent="mgmt-br", vlan_id=3, up=True),
    Link(name="docker0", index=0, kind="bridge", up=True, self_vlans=((1, 1), (2012, 2012))),
    Link(name="docker0.2012", index=0, kind="vlan", parent="docker0", vlan_id=2012, up=True),
    Link(
        name="bond0",
        index=0,
        kind="bond",
        up=True,
        master="docker0",
        vlans=((1, 1), (3, 3)),
        bond_settings=DEFAULT_SETTINGS,
    ),
    Link(name="dummy-br", index=0, kind="bridge", up=True, alias=alias_of("2f1c7f8e"), self_vlans=((1, 1),)),
    Link(name="veth1", index=0, kind="veth", up=True, master="dummy-br", vlans=((1, 1),)),
)
"""Links that are none of VLAN networks' business, the installer's among them; on its bridge Lanloom is a guest."""


_HOSTS = st.integers(1, 250)


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    """Whatever the parsers accept of a network 10.9.8.0/24, whose nodes have the hosts below 100."""
    gateway = draw(st.sampled_from(["", "10.9.8.254/24"]))
    prefixes = draw(st.sets(st.integers(0, 255), max_size=4))
    routes = [Route(f"172.{16 + number % 16}.{number}.0/24", "10.9.8.253") for number in prefixes]
    servers = draw(st.lists(_HOSTS.map("10.53.0.{}".format), max_size=3, unique=True))
    ordered = sorted(routes, key=lambda route: IPv4Network(route.to))
    return Routing(gateway=gateway, routes=tuple(ordered), dns=tuple(servers))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """What may be wanted of one VLAN on one node."""
    modes: st.SearchStrategy[Mode] = st.sampled_from(["static", "dhcp"])
    node, mode = draw(NODES), draw(modes)
    addresses = {node: f"10.9.8.{draw(st.integers(1, 99))}/24"} if mode == "static" else {}
    dual, routed = draw(st.sampled_from(["", "map", "slaac", "dhcp6"])), draw(st.booleans())
    six = {node: f"fd00:9::{draw(st.integers(1, 99)):x}/64"} if addresses and dual == "map" else {}
    mode6: Mode6 = "slaac" if dual == "slaac" else "dhcp6" if dual == "dhcp6" else ""
    subnet6 = "fd00:9::/64" if mode6 else ""
    routing = draw(routings())
    if (six or subnet6) and routed:
        routing = replace(routing, gateway6="fd00:9::fe/64")
    if six or subnet6:
        prefixes = sorted(draw(st.sets(st.integers(0x20, 0xFF), max_size=3)))
        routes6 = tuple(Route(f"fd00:{number:x}::/48", "fd00:9::fd") for number in prefixes)
        servers = draw(st.lists(_HOSTS.map("fd00:53::{:x}".format), max_size=2, unique=True))
        routing = replace(routing, routes6=routes6, dns6=tuple(servers))
    value = L3(
        vid=draw(VIDS),
        mode=mode,
        mode6=mode6,
        subnet6=subnet6,
        addresses=addresses,
        addresses6=six,
        routing=routing,
    )
    return profile_of(CLUSTER, node, draw(NETWORKS), value)
