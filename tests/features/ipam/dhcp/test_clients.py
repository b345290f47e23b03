"""Which port is that of which client, and what a NIC has for it: pure rules, and whatever objects and kernels say."""

import json
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import msgspec
import pytest

from lanloom.api.ipam import Network, Nic
from lanloom.api.kubevirt import bridged_name
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, NetworkAttachmentDefinition, reported
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.ipam.dhcp.clients import (
    BridgeLocation,
    Client,
    Location,
    PortId,
    SeenPort,
    SpokeLocation,
    clients_of,
    location_in,
    matched,
    nads_of,
)
from lanloom.features.ipam.dhcp.given import given6_to, given_to
from lanloom.features.ipam.dhcp.packet import ANY, GuestRoute
from lanloom.features.ipam.state import network_of
from tests.features.ipam.agent.objects import LAN, Raw, pod, pod_body
from tests.features.ipam.dhcp.client import MAC

OTHER_MAC = "02:00:00:00:00:99"
NAD = Key("default", "lan")
BLUE = "/run/netns/blue"


BRIDGE = BridgeLocation("br0")


def client(place: Location = BRIDGE, **fields: Any) -> Client:
    """A client, by default of a bridge."""
    known: Raw = {"pod": Key("default", "web"), "uid": "u1", "interface": "net1", "mac": MAC, "nad": NAD}
    return Client(**known | fields, place=place)


def port(index: int = 1, **fields: Any) -> SeenPort:
    """A port of the bridge with the client's interface behind it."""
    known: Raw = {
        "name": f"veth{index}",
        "bridge": "br0",
        "vlan": 0,
        "mac": "fe:00:00:00:00:01",
        "mtu": 1500,
        "peer": "net1",
        "macs": {"net1": MAC},
    }
    return SeenPort(id=PortId(fields.pop("ns", ""), index), **known | fields)


def found(clients: list[Client], *ports: SeenPort) -> dict[int, Client]:
    """The clients by the indices of their ports; the LAN of the spoke `blue` is in a namespace of that name."""
    lans = {"blue": BLUE}
    return {at.index: each for at, (_, each) in matched(clients, ports, lans.get).items()}


VETH, TAP = SpokeLocation("blue", "veth"), SpokeLocation("blue", "macvtap")
BOUND = {"peer": bridged_name(LAN), "macs": {LAN: MAC, bridged_name(LAN): OTHER_MAC}}

FITTING: list[tuple[str, Client, Raw]] = [
    ("a pod's", client(), {}),
    ("a pod's in a VLAN", client(BridgeLocation("br0", 20)), {"vlan": 20}),
    ("a NAD without a VLAN", client(), {"vlan": 1}),
    ("a machine's before KubeVirt binds it", client(interface=LAN), {"peer": LAN, "macs": {LAN: MAC}}),
    ("a machine's", client(interface=LAN), BOUND),
    ("a pod's at a spoke", client(VETH), {"ns": BLUE, "name": "blueV0"}),
    ("a machine's at a spoke", client(VETH, interface=LAN), {"ns": BLUE, "name": "blueV0", **BOUND}),
    ("below a macvtap", client(TAP), {"ns": BLUE, "name": "blueM0", "peer": "inner", "macs": {"inner": MAC}}),
]

FOREIGN: list[tuple[str, Client, Raw]] = [
    ("another bridge", client(), {"bridge": "br9"}),
    ("another VLAN", client(BridgeLocation("br0", 20)), {"vlan": 21}),
    ("another interface", client(), {"peer": "net2", "macs": {"net1": MAC, "net2": MAC}}),
    ("another hardware address in the pod", client(), {"macs": {"net1": OTHER_MAC}}),
    ("nothing in the pod", client(), {"macs": {}}),
    (
        "a machine's whose dummy has another address",
        client(interface=LAN),
        {**BOUND, "macs": {LAN: OTHER_MAC}},
    ),
    ("another spoke", client(VETH), {"ns": BLUE, "name": "redV0"}),
    ("a namespace of another LAN", client(VETH), {"ns": "/run/netns/red", "name": "blueV0"}),
    ("a link of the node with a spoke's name", client(VETH), {"name": "blueV0"}),
    ("a bridge of that name in a LAN", client(), {"ns": BLUE}),
    ("the spoke in its other form", client(TAP), {"ns": BLUE, "name": "blueV0"}),
    ("a LAN that is not here", client(SpokeLocation("green", "veth")), {"ns": BLUE, "name": "greenV0"}),
]


@pytest.mark.parametrize(("one", "fields"), [case[1:] for case in FITTING], ids=[case[0] for case in FITTING])
def test_the_port_of_a_client(one: Client, fields: Mapping[str, Any]) -> None:
    """A port is a client's where place, interface and hardware address agree."""
    assert found([one], port(**fields)) == {1: one}


@pytest.mark.parametrize(("one", "fields"), [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_the_port_of_another(one: Client, fields: Mapping[str, Any]) -> None:
    """A port is no client's where anything differs."""
    assert found([one], port(**fields)) == {}


def test_a_port_that_two_may_have() -> None:
    """A client that two ports may have, as where another pod imitates it, has none; others keep theirs."""
    other = client(uid="u2", mac=OTHER_MAC)
    ports = port(1), port(2), port(3, macs={"net1": OTHER_MAC})
    assert found([client(), other], *ports) == {3: other}


def test_a_port_with_two_clients() -> None:
    """A port that two clients claim, as where a pod reports what another one has, belongs to neither."""
    assert found([client(), client(uid="u2")], port()) == {}


def test_a_port_that_another_pod_claims() -> None:
    """A pod that reports what another one has does not get its port: its own address is not behind it."""
    own, liar = client(addresses=frozenset({"10.0.0.7"})), client(uid="u2", addresses=frozenset({"10.0.0.8"}))
    assert found([own, liar], port(addresses=frozenset({"10.0.0.7", "127.0.0.1"}))) == {1: own}


@pytest.mark.parametrize("present", [True, False], ids=["beside its owner", "alone"])
def test_a_pod_that_never_starts(present: bool) -> None:
    """A pod without an address of its own, which reports what another one has, neither gets nor blocks that port."""
    own, liar = client(addresses=frozenset({"10.0.0.7"})), client(uid="u2")
    behind = frozenset({"10.0.0.7", "127.0.0.1", "169.254.75.10", "fe80::1"})
    assert found([own, liar] if present else [liar], port(addresses=behind)) == ({1: own} if present else {})


def test_a_pod_without_a_pod_network() -> None:
    """A pod that has no address of its own has its port, where nothing but the system's addresses are behind it."""
    assert found([client()], port(addresses=frozenset({"127.0.0.1", "::1", "fe80::1"}))) == {1: client()}


def test_one_address_in_two_networks() -> None:
    """Clients with the same hardware address in two networks each have their own port."""
    one, two = client(BridgeLocation("br0", 20)), client(BridgeLocation("br0", 30), uid="u2")
    assert found([one, two], port(1, vlan=20), port(2, vlan=30)) == {1: one, 2: two}


def nad(**config: Any) -> NetworkAttachmentDefinition:
    """A NAD of that configuration."""
    body = {"metadata": {"name": "lan", "namespace": "default"}, "spec": {"config": json.dumps(config)}}
    return msgspec.convert(body, NetworkAttachmentDefinition)


IPAM = {"type": "lanloom-ipam", "network": "net1"}


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"type": "bridge", "bridge": "br0", "ipam": IPAM}, BridgeLocation("br0")),
        ({"type": "cnv-bridge", "bridge": "br0", "vlan": 7, "ipam": IPAM}, BridgeLocation("br0", 7)),
        ({"type": "bridge", "ipam": IPAM}, BridgeLocation("cni0")),
        (
            {"plugins": [{"type": "bridge", "bridge": "br0", "ipam": IPAM}, {"type": "tuning"}]},
            BridgeLocation("br0"),
        ),
        ({"type": "k8slanveth", "veth": "blue", "ipam": IPAM}, VETH),
        ({"type": "macvtap", "deviceID": "blueM0", "ipam": IPAM}, TAP),
        ({"type": "bridge", "bridge": "br0"}, None),
        ({"type": "bridge", "bridge": "br0", "ipam": {"type": "whereabouts"}}, None),
        ({"type": "bridge", "bridge": 7, "ipam": IPAM}, None),
        ({"type": "bridge", "bridge": "br0", "vlan": "7", "ipam": IPAM}, None),
        ({"type": "macvlan", "master": "eth0", "ipam": IPAM}, None),
        ({"type": ["bridge"], "ipam": IPAM}, None),
        ({"type": "k8slanveth", "veth": 7, "ipam": IPAM}, None),
    ],
)
def test_places(config: Raw, place: Location | None) -> None:
    """A NAD puts a port at a bridge or a spoke; one whose addresses others give, or without a port, puts none."""
    assert location_in(nad(**config)) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "{",
        "[]",
        '["a/b"]',
        '[{"name": "a/b"}]',
        '[{"name": "a/b/c", "interface": "x", "mac": "y"}]',
        "[" * 999,
    ],
)
def test_an_odd_report(text: str) -> None:
    """A report that says too little, or can't be read, names no interface."""
    assert reported(text) == ()


def test_clients_of_pods() -> None:
    """Interfaces at NADs are clients; those of other networks, and of pods that have ended, are not."""
    entries = [
        {"name": "cluster", "interface": "eth0", "mac": OTHER_MAC},
        {"name": "default/lan", "interface": "net1", "mac": MAC.upper()},
        {"name": "default/unserved", "interface": "net2", "mac": MAC},
    ]
    body = pod_body("web")
    body["metadata"]["annotations"][NETWORK_STATUS] = json.dumps(entries)
    running, ended = pod(body, "u1"), pod(body | {"status": {"phase": "Failed"}}, "u2")
    assert nads_of([running]) == {NAD, Key("default", "unserved")}
    assert list(clients_of([running, ended], {NAD: BridgeLocation("br0")})) == [client()]


SUBNET: Raw = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "dhcp": True}


def what_is_given(
    *ips: str, subnets: tuple[Raw, ...] = (SUBNET,), network: str = "net1", version: int = 4, **ipam: Any
) -> Any:
    """What a NIC with these addresses gets over that version of IP."""
    owner = {"kind": "Pod", "name": "web"}
    status = {"network": network, "ips": ips}
    nic = msgspec.convert({"metadata": {"name": "n"}, "spec": {"owner": owner}, "status": status}, Nic)
    body = {"metadata": {"name": "net1", "uid": "u"}, "spec": {"subnets": subnets}}
    config = parse_ipam({"ipam": {**IPAM, **ipam}})
    home = network_of(msgspec.convert(body, Network))
    if version == 6:
        return given6_to(nic, home, config, mtu=1450)
    return given_to(nic, home, config, host="web", mtu=1450)


def test_the_address_of_a_subnet_with_dhcp() -> None:
    """The first IPv4 address in a subnet with dhcp is given; the others are no matter of DHCP."""
    plain, six = {"cidr": "10.0.0.0/24"}, {"cidr": "2001:db8::/64", "dhcp": True}
    found = what_is_given("10.0.0.5", "2001:db8::5", "192.0.2.5", "192.0.2.6", subnets=(plain, six, SUBNET))
    assert (found.address, found.router) == (IPv4Interface("192.0.2.5/24"), IPv4Address("192.0.2.1"))
    assert (found.host, found.mtu, found.seconds) == ("web", 1450, 86_400)


@pytest.mark.parametrize(
    ("ips", "fields"),
    [
        ((), {}),
        (("192.0.2.5",), {"subnets": ({**SUBNET, "dhcp": False},)}),
        (("2001:db8::5",), {"subnets": ({"cidr": "2001:db8::/64", "dhcp": True},)}),
        (("198.51.100.5",), {}),
        (("192.0.2.5",), {"network": "net2"}),
        (("no address",), {}),
    ],
)
def test_nothing_to_give(ips: tuple[str, ...], fields: Raw) -> None:
    """Without an IPv4 address in a subnet with dhcp, of the network that the NAD names, nothing is given."""
    assert what_is_given(*ips, **fields) is None


def test_settings_of_the_nad() -> None:
    """DNS servers, domains and routes are those of the NAD; IPv6 and odd names are left out."""
    dns = {
        "nameservers": ["192.0.2.53", "2001:db8::53"],
        "domain": "example.org",
        "search": ["b.test", "-x", "a..b", "ü.test"],
    }
    routes = [{"dst": "10.0.0.0/8", "gw": "192.0.2.2"}, {"dst": "10.9.0.0/16"}, {"dst": "2001:db8:1::/64"}]
    found = what_is_given("192.0.2.5", dns=dns, routes=routes)
    assert (found.dns, found.domain, found.search) == (
        (IPv4Address("192.0.2.53"),),
        "example.org",
        ("b.test",),
    )
    router = IPv4Address("192.0.2.1")
    assert found.routes == (
        GuestRoute(IPv4Network("10.0.0.0/8"), IPv4Address("192.0.2.2")),
        GuestRoute(IPv4Network("10.9.0.0/16"), router),
        GuestRoute(IPv4Network("0.0.0.0/0"), router),
    )
    bare = what_is_given("192.0.2.5", subnets=({**SUBNET, "gateway": ""},), routes=[{"dst": "10.9.0.0/16"}])
    assert bare.routes == (GuestRoute(IPv4Network("10.9.0.0/16"), ANY),)


SUBNET6: Raw = {"cidr": "2001:db8::/64", "gateway": "2001:db8::1", "dhcp": True, "leaseSeconds": 600}


def test_addresses_of_ipv6() -> None:
    """All IPv6 addresses in the subnet with dhcp are given; the NIC's others are known, and nothing else is."""
    plain = {"cidr": "2001:db8:5::/64"}
    dns = {"nameservers": ["192.0.2.53", "2001:db8::53"], "search": ["b.test", "-x"]}
    ips = "2001:db8:5::5", "192.0.2.5", "2001:db8::6", "2001:db8::5"
    found = what_is_given(*ips, subnets=(plain, SUBNET6, SUBNET), version=6, dns=dns)
    assert found.addresses == (IPv6Address("2001:db8::6"), IPv6Address("2001:db8::5"))
    assert found.owned == {*found.addresses, IPv6Address("2001:db8:5::5")}
    assert (found.prefix, found.mtu, found.seconds) == (IPv6Network("2001:db8::/64"), 1450, 600)
    assert (found.dns, found.search) == ((IPv6Address("2001:db8::53"),), ("b.test",))


@pytest.mark.parametrize(
    ("ips", "fields"),
    [
        ((), {}),
        (("2001:db8::5",), {"subnets": ({**SUBNET6, "dhcp": False},)}),
        (("192.0.2.5",), {"subnets": (SUBNET,)}),
        (("2001:db8:5::5",), {}),
        (("2001:db8::5",), {"network": "net2"}),
        (("no address",), {}),
    ],
)
def test_nothing_to_give_over_ipv6(ips: tuple[str, ...], fields: Raw) -> None:
    """Without an IPv6 address in a subnet with dhcp, of the network that the NAD names, nothing is given."""
    known: Raw = {"subnets": (SUBNET6,)} | fields
    assert what_is_given(*ips, version=6, **known) is None


def test_the_versions_are_apart() -> None:
    """A subnet without dhcp stays unserved, whatever that of the other version has."""
    both = SUBNET, {**SUBNET6, "dhcp": False}
    assert what_is_given("192.0.2.5", "2001:db8::5", subnets=both) is not None
    assert what_is_given("192.0.2.5", "2001:db8::5", subnets=both, version=6) is None


def test_no_more_than_an_answer_holds() -> None:
    """Of many IPv6 addresses the first are given; the rest are still known as the NIC's."""
    ips = [f"2001:db8::{at:x}" for at in range(5, 45)]
    found = what_is_given(*ips, subnets=(SUBNET6,), version=6)
    assert (len(found.addresses), len(found.owned)) == (16, 40)
