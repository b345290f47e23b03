"""What may stand in the spec of a DummyClusterNetwork, and what of it may change."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.dummy import DummyClusterNetworkSpec, DummyClusterNetworkStatus, DummyResource
from lanloom.api.meta import Key
from lanloom.features.dummy.rules.model import Settings
from lanloom.features.dummy.rules.spec import (
    bridge_fault,
    changes,
    changes_while_used,
    label_fault,
    parse,
    subnet_fault,
)
from lanloom.features.vlan.rules.desired.names import is_link
from lanloom.nads.references import User
from lanloom.refusals import Denied, Malformed
from tests.features.dummy.rules.made import UID, dcn

GOOD_BRIDGES = (
    "dummy-br",
    "br0",
    "br-dummy",
    "a",
    "Isolated_1",
    "a23456789012345",
    "ethernet",
    "taps",
    "end-br",
)
BAD_BRIDGES = {
    "": "is missing",
    "a234567890123456": "at most 15",
    "a/b": "can't be the name of a bridge",
    "a b": "can't be the name of a bridge",
    "a.1": "can't be the name of a bridge",
    "-br": "can't be the name of a bridge",
    "--name": "can't be the name of a bridge",
    "br%d": "can't be the name of a bridge",
    "brü": "can't be the name of a bridge",
    "br1\n": "can't be the name of a bridge",
    "0br": "can't be the name of a bridge",
    "lo": "is reserved for other links",
    "all": "is reserved for other links",
    "default": "is reserved for other links",
    "mgmt-br": "is reserved for other links",
    "mgmt-bo": "is reserved for other links",
    "eth0": "is reserved for other links",
    "enp3s0": "is reserved for other links",
    "enx0242ac11": "is reserved for other links",
    "bond0": "is reserved for other links",
    "cni0": "is reserved for other links",
    "docker0": "is reserved for other links",
    "lanloom-new": "is reserved for other links",
    "lanloom-00c0ffe": "is reserved for other links",
    "veth12ab": "is reserved for other links",
    "cali12ab": "is reserved for other links",
    "storage-bo": "is reserved for bonds of uplinks",
    "Storage-br": "which is no valid name of one",
    "a_b-br": "which is no valid name of one",
    "a--br": "which is no valid name of one",
}
GOOD_SUBNETS = (
    "",
    "10.115.0.0/24",
    "10.0.0.0/8",
    "192.0.2.4/30",
    "172.16.0.0/12",
    "100.64.0.0/10",
    "fd00:115::/64",
    "2001:db8::/126",
    "10.115.0.0/24,fd00:115::/64",
    "fd00:115::/64, 10.115.0.0/24",
)
BAD_SUBNETS = {
    "10.115.0.0": "is not a CIDR",
    "10.115.0.0/": "is not a CIDR",
    "10.115.0.0/33": "is not a CIDR",
    "10.115.0.0/255.255.255.0": "is not a CIDR",
    "10.115.0.0/24 ": "is not a CIDR",
    "ten": "is not a CIDR",
    "10.115.0.1/24": "did you mean 10.115.0.0/24?",
    "fd00::1/64": "did you mean fd00::/64?",
    "fd00::%eth0/64": "is not a CIDR",
    "FD00::/64": "did you mean fd00::/64?",
    "fd00::/63": "prefix length from /64 to /126",
    "fd00::/127": "prefix length from /64 to /126",
    "fe80::/64": "link-local",
    "ff02::/64": "multicast",
    "::/64": "addresses of this host",
    "::ffff:a00:0/120": "reserved addresses",
    "10.1.0.0/24,10.2.0.0/24": "at most one subnet of IPv4 and one of IPv6, such as 10.115.0.0/24,fd00:115::/64",
    "fd00:1::/64,fd00:2::/64": "at most one subnet of IPv4 and one of IPv6",
    "10.1.0.0/24,fd00:1::/64,fd00:2::/64": "at most one subnet of IPv4 and one of IPv6",
    "10.1.0.0/24,": "at most one subnet of IPv4 and one of IPv6",
    ",": "at most one subnet of IPv4 and one of IPv6",
    "10.1.0.0/24 fd00:1::/64": "is not a CIDR",
    "10.115.0.0/31": "prefix length from /8 to /30",
    "10.115.0.0/32": "prefix length from /8 to /30",
    "0.0.0.0/0": "prefix length from /8 to /30",
    "127.0.0.0/24": "loopback",
    "169.254.0.0/24": "link-local",
    "224.0.0.0/24": "multicast",
    "255.255.255.0/24": "multicast and reserved",
}


def test_a_whole_spec_is_understood() -> None:
    """Everything that a valid object says is in what the rules see of it."""
    net = parse(dcn(subnet="10.115.0.0/24", gateway="node"))
    assert (net.name, net.uid, net.bridge) == ("net1", UID, "dummy-br")
    assert net.nad == Key("harvester-system", "dummy-bridge-net")
    assert (net.subnets, net.gateway, net.scope) == ((IPv4Network("10.115.0.0/24"),), "node", "node")
    assert parse(dcn()).subnets == ()


def test_the_defaults_of_the_settings_are_valid() -> None:
    """The network that is made at start passes its own rules."""
    known = Settings()
    parse(dcn(known.name, bridgeName=known.bridge, nadName=known.nad, nadNamespace=known.nad_namespace))


@pytest.mark.parametrize("name", GOOD_BRIDGES)
def test_bridges_may_be_called_so(name: str) -> None:
    """A name that a bridge can have, and that no other program gives to a link, is accepted."""
    assert not bridge_fault(name)


@pytest.mark.parametrize(("name", "why"), BAD_BRIDGES.items())
def test_bridges_may_not_be_called_so(name: str, why: str) -> None:
    """A name that no bridge can have, or that is reserved for other links, is refused with the reason."""
    with pytest.raises(Malformed, match=re.escape("net1: spec.bridgeName ")) as caught:
        parse(dcn(bridgeName=name))
    assert why in str(caught.value)


@given(st.text(max_size=20))
def test_whatever_is_accepted_is_a_name_of_a_link(name: str) -> None:
    """No text passes that the kernel refuses, that ends a command's options, or that a path could be made of."""
    if not bridge_fault(name):
        assert is_link(name)
        assert name[0].isalpha()
        assert not {*name} & {"/", ".", "%", ":", " "}


@pytest.mark.parametrize("name", ["a", "a-b", "1", "x" * 63])
def test_good_names_of_nads(name: str) -> None:
    """Labels of DNS-1123 are accepted."""
    assert not label_fault(name, "a NAD", "net")


@pytest.mark.parametrize("name", ["A", "a.b", "-a", "a-", "a_b", "x" * 64, "a/b", "a@b", "a\n", "ä"])
@pytest.mark.parametrize("field", ["nadName", "nadNamespace"])
def test_bad_names_of_nads_and_namespaces(field: str, name: str) -> None:
    """Anything but a label is refused by the field's name."""
    with pytest.raises(Malformed, match=f"spec.{field} is"):
        parse(dcn(**{field: name}))


@pytest.mark.parametrize("text", GOOD_SUBNETS)
def test_good_subnets(text: str) -> None:
    """A range of each IP version with room for one address at least is accepted; none is, too."""
    assert not subnet_fault(text)


@pytest.mark.parametrize(("text", "why"), BAD_SUBNETS.items())
def test_bad_subnets(text: str, why: str) -> None:
    """A subnet that can't be used is refused with the reason."""
    with pytest.raises(Malformed, match=re.escape(f'spec.subnet is "{text}"')) as caught:
        parse(dcn(subnet=text))
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["10.115.0.0/24,fd00:115::/64", "fd00:115::/64, 10.115.0.0/24"])
def test_subnets_of_both_ip_versions(text: str) -> None:
    """The subnet of IPv4 is the first, in whatever order both are written."""
    assert parse(dcn(subnet=text)).subnets == (IPv4Network("10.115.0.0/24"), IPv6Network("fd00:115::/64"))


@given(
    st.text(max_size=25)
    | st.ip_addresses(v=4).map(lambda address: f"{address}/24")
    | st.ip_addresses(v=6).map(lambda address: f"{address}/64")
)
def test_any_text_is_judged_as_a_subnet(text: str) -> None:
    """Whatever is accepted is a network in its own form; nothing else is raised."""
    if text and not subnet_fault(text):
        assert str(ip_network(text)) == text


@pytest.mark.parametrize("subnet", ["fd00:115::/64", "10.115.0.0/24,fd00:115::/64"])
def test_a_gateway_of_ipv6(subnet: str) -> None:
    """A gateway on each node's bridge may be of IPv6, alone or in addition to IPv4."""
    assert parse(dcn(subnet=subnet, gateway="node")).gateway == "node"


def test_every_wrong_field_is_named() -> None:
    """One message says all that has to be corrected, and how."""
    with pytest.raises(Malformed) as caught:
        parse(dcn(bridgeName="", nadName="", nadNamespace="", gateway="node", scope="cluster"))
    text = str(caught.value)
    for field in (
        "bridgeName is missing",
        "nadName is missing",
        "nadNamespace is missing",
        "gateway",
        "scope",
    ):
        assert f"spec.{field}" in text
    assert text.startswith("DummyClusterNetwork net1: ")


def test_a_gateway_needs_a_subnet() -> None:
    """A gateway without a subnet, of which it could have an address, is refused."""
    with pytest.raises(Malformed, match=r"requires spec\.subnet for its address"):
        parse(dcn(gateway="node"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.underlay is missing"),
        ({"underlay": "../eth0"}, "can't be the name of an underlay link"),
        ({"underlay": "sixteen-letters1"}, "can't be the name of an underlay link"),
        ({"underlay": "eth0", "mtu": 100}, "spec.mtu is 100"),
        ({"underlay": "eth0", "mtu": 9001}, "spec.mtu is 9001"),
        (
            {"underlay": "eth0", "mtu": 1279, "subnet": "fd00:115::/64"},
            "spec.mtu is 1279, and IPv6 needs 1280",
        ),
        (
            {"underlay": "eth0", "subnet": "10.1.0.0/24", "gateway": "node"},
            "all nodes would have the gateway's",
        ),
    ],
)
def test_networks_over_all_nodes(spec: dict[str, Any], words: str) -> None:
    """A network over all nodes needs an underlay, and has no gateway on each node."""
    with pytest.raises(Malformed) as caught:
        parse(dcn(scope="cluster", **spec))
    assert words in str(caught.value)


@pytest.mark.parametrize("spec", [{"underlay": "eth0"}, {"underlayFamily": "IPv6"}, {"mtu": 1400}])
def test_networks_of_each_node_have_no_underlay(spec: dict[str, Any]) -> None:
    """Fields of the scope cluster are refused with the scope node."""
    with pytest.raises(Malformed, match='is of the scope "cluster" only'):
        parse(dcn(**spec))


@pytest.mark.parametrize(
    ("namespaces", "served", "in_team", "elsewhere"),
    [
        ([], (), True, True),
        (["*"], ("*",), True, True),
        (["team", "*"], ("*",), True, True),
        (["team"], ("harvester-system", "team"), True, False),
        (["harvester-system"], ("harvester-system",), False, False),
    ],
)
def test_whom_a_network_is_for(
    namespaces: list[str], served: tuple[str, ...], in_team: bool, elsewhere: bool
) -> None:
    """The namespace of the NAD is always among those that the network is for; without a list all are."""
    network = dcn(namespaces=namespaces)
    assert parse(network).namespaces == served
    assert network.spec.admits("harvester-system")
    assert (network.spec.admits("team"), network.spec.admits("other")) == (in_team, elsewhere)


@pytest.mark.parametrize("namespaces", [[""], ["Team"], ["a", "b_c"], ["*x"], ["n"] * 1001])
def test_namespaces_that_can_not_be(namespaces: list[str]) -> None:
    """Each entry is the name of a namespace or *, and there are not more of them than can be shown."""
    with pytest.raises(Malformed, match=r"spec\.namespaces"):
        parse(dcn(namespaces=namespaces))


def test_packets_on_a_network_over_all_nodes() -> None:
    """Packets fit a usual underlay unless the network says how large they are."""
    assert parse(dcn(scope="cluster", underlay="mgmt-br")).mtu == 1430
    assert parse(dcn(scope="cluster", underlay="eth0", mtu=8950)).mtu == 8950
    assert parse(dcn()).mtu == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bridgeName", "other-br"),
        ("nadName", "other"),
        ("nadNamespace", "default"),
        ("scope", "cluster"),
        ("underlayFamily", "IPv6"),
    ],
)
def test_what_is_made_of_a_network_stays(field: str, value: str) -> None:
    """Bridge, NAD and scope can't change; the message names the field, both values and the way out."""
    with pytest.raises(
        Denied,
        match=f'net1: spec.{field} is immutable: it is ".*" and can\'t be changed to "{value}"; delete',
    ):
        changes(dcn(), dcn(**{field: value}))


@pytest.mark.parametrize("change", [{"subnet": "10.116.0.0/24"}, {"gateway": "node"}, {"subnet": ""}, {}])
def test_addresses_may_change(change: dict[str, Any]) -> None:
    """Subnet and gateway can change, while the network is not in use."""
    old = dcn(subnet="10.115.0.0/24")
    new = replace(old, spec=dcn(**{"subnet": "10.115.0.0/24"} | change).spec)
    changes(old, new)
    changes_while_used(old, new, ())


def test_addresses_of_users_stay() -> None:
    """While the network is in use, subnet and gateway can't change, and the message says who."""
    user = User("VirtualMachine", "default", "a")
    old, new = dcn(subnet="10.115.0.0/24"), dcn(subnet="10.116.0.0/24", gateway="node")
    with pytest.raises(
        Denied,
        match=r"spec\.subnet .* and spec\.gateway .*VirtualMachine default/a; remove the network from them first",
    ):
        changes_while_used(old, new, (user,))
    changes_while_used(old, old, (user,))


def test_many_users_are_counted() -> None:
    """A message lists ten users and tells how many more there are."""
    users = [User("Pod", "default", f"p{number:02}") for number in range(13)]
    with pytest.raises(Denied, match=r"Pod default/p09 and 3 more;"):
        changes_while_used(dcn(subnet="10.115.0.0/24"), dcn(), users)


def test_what_is_wrong_can_be_mended() -> None:
    """An invalid object for which nothing was made may change in every field; one for which something was may not."""
    wrong = dcn(bridgeName="")
    changes(wrong, dcn())
    made = DummyClusterNetworkStatus(resources=(DummyResource(api_version="v1", kind="A", name="a"),))
    with pytest.raises(Denied):
        changes(replace(wrong, status=made), dcn())


@given(st.builds(DummyClusterNetworkSpec, bridge_name=st.text(), nad_name=st.text(), subnet=st.text()))
def test_any_object_is_judged(spec: DummyClusterNetworkSpec) -> None:
    """Whatever stands in an object, it is understood or refused; nothing else happens."""
    try:
        parse(replace(dcn(), spec=spec))
    except Malformed as error:
        assert "spec." in str(error)
