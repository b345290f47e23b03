"""What is made for an isolated network: its NAD, its Network of addresses, its ClusterNetwork."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VlanConfig
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.names import READY_LABEL
from lanloom.features.dummy.rules.model import Isolated, is_ours, resource_name
from lanloom.features.dummy.rules.objects import (
    bridge_addresses,
    cluster_network_body,
    implied_cluster_network,
    ipam_network,
    is_as_wanted,
    nad_body,
    nad_config,
    nad_patch,
    uplink_fault,
)
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom_embedded.patches import merge_patch
from tests.features.dummy.rules.made import UID, isolated

ROUTED = isolated(subnet="10.115.0.0/24", gateway="node")
DUAL = isolated(subnet="10.115.0.0/24,fd00:115::/64")


def stored(net: Isolated, config: Any = None, **metadata: Any) -> NetworkAttachmentDefinition:
    """The NAD as a server has it, with another configuration or other metadata."""
    body = nad_body(net)
    body["metadata"] |= {"resourceVersion": "7", **metadata}
    if config is not None:
        body["spec"] = {"config": config if isinstance(config, str) else json.dumps(config)}
    return msgspec.convert(body, NADS.type)


def test_a_network_without_addresses() -> None:
    """The configuration is the bridge plugin's on the network's bridge, and nothing more."""
    assert nad_config(isolated()) == {
        "cniVersion": "0.3.1",
        "name": "dummy-bridge-net",
        "type": "bridge",
        "bridge": "dummy-br",
    }


def test_a_network_with_addresses() -> None:
    """A subnet brings Lanloom's addresses, of the Network that is named after the object; no gateway by itself."""
    config = nad_config(isolated(subnet="10.115.0.0/24"))
    assert config["ipam"] == {"type": "lanloom-ipam", "network": "net1-" + config["ipam"]["network"][-8:]}
    assert parse_ipam(config).network == config["ipam"]["network"]
    assert not {"isGateway", "ipMasq"} & config.keys()


def test_a_network_with_addresses_of_ipv6() -> None:
    """Subnets of both IP versions bring an address of each to every user; one of IPv6 alone, one of it."""
    both = nad_config(DUAL)["ipam"]
    assert both["ips"] == ["pool4", "pool6"]
    assert parse_ipam(nad_config(DUAL)).network == both["network"]
    assert "ips" not in nad_config(isolated(subnet="fd00:115::/64"))["ipam"]
    assert ipam_network(DUAL).body()["spec"] == {
        "subnets": [
            {"cidr": "10.115.0.0/24", "pools": [{"range": "10.115.0.0/24"}]},
            {"cidr": "fd00:115::/64", "pools": [{"range": "fd00:115::/64"}]},
        ]
    }


def test_a_second_ip_version_is_added() -> None:
    """A Network that gets a subnet of IPv6 keeps the one of IPv4 with its UUID."""
    current = stored_network(PLAIN)
    patch = ipam_network(DUAL).repair(current)
    mended = msgspec.convert(merge_patch(msgspec.to_builtins(current), patch), NETWORKS.type)
    assert [item.cidr for item in mended.spec.subnets] == ["10.115.0.0/24", "fd00:115::/64"]
    assert mended.spec.subnets[0].uuid == current.spec.subnets[0].uuid
    assert ipam_network(DUAL).repair(mended) == {}


def test_a_network_with_a_gateway() -> None:
    """A gateway is each node's own bridge, which hides pods behind the node; their default route stays."""
    config = nad_config(ROUTED)
    assert (config["isGateway"], config["ipMasq"]) == (True, True)
    assert "isDefaultGateway" not in config


@pytest.mark.parametrize(
    ("subnet", "addresses", "gateways"),
    [
        ("10.115.0.0/24", "10.115.0.1/24", ["10.115.0.1"]),
        ("fd00:115::/64", "fd00:115::1/64", ["fd00:115::1"]),
        ("10.115.0.0/24,fd00:115::/64", "10.115.0.1/24,fd00:115::1/64", ["10.115.0.1", "fd00:115::1"]),
    ],
)
def test_a_gateway_of_each_ip_version(subnet: str, addresses: str, gateways: list[str]) -> None:
    """Each subnet has a gateway, with IPv6 without the plugin's part in it: it would turn on a node's forwarding."""
    net = isolated(subnet=subnet, gateway="node")
    config = nad_config(net)
    assert (config["ipMasq"], "isGateway" in config) == (True, ":" not in subnet)
    assert bridge_addresses(net) == addresses
    assert [item["gateway"] for item in ipam_network(net).body()["spec"]["subnets"]] == gateways


def test_the_gateway_of_a_former_subnet_goes() -> None:
    """The plugin has to replace the address that the bridge has of a subnet before, instead of failing."""
    assert nad_config(ROUTED)["forceAddress"] is True
    assert "forceAddress" not in nad_config(isolated(subnet="10.115.0.0/24"))


def test_it_is_marked() -> None:
    """The NAD says for which network it was made, and is one that the rules of VLANs understand."""
    made = stored(isolated())
    assert made.metadata.labels == {UID_LABEL: UID, READY_LABEL: "true"}
    assert made.metadata.annotations == {NAME_ANNOTATION: "net1"}
    found = parse_config(made.spec.config)
    assert found is not None
    assert (found.cluster_network, found.vid) == ("dummy", 0)


@pytest.mark.parametrize("net", [isolated(), isolated(subnet="10.115.0.0/24"), ROUTED, DUAL])
def test_what_was_made_is_as_wanted(net: Isolated) -> None:
    """A NAD needs no repair right after it was made."""
    assert is_as_wanted(stored(net), net)
    assert nad_patch(stored(net), net) == {}


SAME: dict[str, dict[str, Any]] = {
    "no addresses, said aloud": {"ipam": {}},
    "no DNS": {"dns": {}},
    "no VLAN": {"vlan": 0},
    "not promiscuous": {"promiscMode": False},
    "null": {"ipam": None},
    "an MTU, as Harvester writes it": {"mtu": 9000},
}


@pytest.mark.parametrize("more", SAME.values(), ids=SAME)
def test_what_says_the_same_is_as_wanted(more: dict[str, Any]) -> None:
    """Order, spaces and members that change nothing are no drift."""
    text = json.dumps(dict(reversed((nad_config(isolated()) | more).items())), indent=4)
    assert is_as_wanted(stored(isolated(), text), isolated())


DRIFT: dict[str, Any] = {
    "another bridge": {"bridge": "mgmt-br"},
    "a VLAN": {"vlan": 5},
    "a trunk": {"vlanTrunk": [{"minID": 1, "maxID": 9}]},
    "a gateway": {"isGateway": True},
    "a gateway that is a number": {"isGateway": 1},
    "false as a number": {"vlan": False},
    "addresses of each node": {"ipam": {"type": "host-local", "subnet": "10.10.0.0/24"}},
    "a plugin": {"type": "macvlan"},
    "a member twice, but for case": {"Bridge": "mgmt-br"},
    "a version": {"cniVersion": "1.0.0"},
    "an unknown member": {"extra": {}},
    "an MTU that is none": {"mtu": "9000"},
}


@pytest.mark.parametrize("change", DRIFT.values(), ids=DRIFT)
def test_what_says_something_else_is_drift(change: dict[str, Any]) -> None:
    """Another configuration is found and mended, on the version that was read."""
    nad = stored(isolated(), nad_config(isolated()) | change)
    patch = nad_patch(nad, isolated())
    assert patch["metadata"]["resourceVersion"] == "7"
    mended = merge_patch(msgspec.to_builtins(nad), patch)
    assert is_as_wanted(msgspec.convert(mended, NADS.type), isolated())


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '"bridge"', "1e999"])
def test_a_broken_configuration_is_drift(text: str) -> None:
    """What can't be read is not as wanted, and is mended like any other change."""
    nad = stored(isolated(), text or " ")
    assert not is_as_wanted(nad, isolated())
    assert json.loads(nad_patch(nad, isolated())["spec"]["config"]) == nad_config(isolated())


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No configuration raises, whatever stands in it."""
    assert not is_as_wanted(stored(isolated(), text), isolated())


def test_harvesters_mtu_survives_a_repair() -> None:
    """A repair keeps the MTU, which Harvester's webhook would not let go."""
    nad = stored(isolated(), {**nad_config(isolated()), "vlan": 3, "mtu": 9000})
    assert json.loads(nad_patch(nad, isolated())["spec"]["config"]) == {**nad_config(isolated()), "mtu": 9000}


@pytest.mark.parametrize("metadata", [{"labels": {}}, {"labels": {UID_LABEL: "other"}}, {"annotations": {}}])
def test_marks_belong_to_it(metadata: dict[str, Any]) -> None:
    """A NAD that does not say whose it is, is not as wanted, whatever it configures."""
    assert not is_as_wanted(stored(isolated(), **metadata), isolated())


def test_others_marks_stay() -> None:
    """What others wrote next to our marks is no drift, and a repair does not touch it."""
    nad = stored(isolated(), "{}", labels={UID_LABEL: UID, "network.harvesterhci.io/ready": "true"})
    mended = merge_patch(msgspec.to_builtins(nad), nad_patch(nad, isolated()))
    assert mended["metadata"]["labels"]["network.harvesterhci.io/ready"] == "true"


PLAIN, GATEWAYED = isolated(subnet="10.115.0.0/24"), isolated(subnet="10.115.0.0/24", gateway="node")


def stored_network(net: Isolated, **subnet: Any) -> Network:
    """The Network as a server has it, its subnet with some fields changed."""
    body = ipam_network(net).body()
    body["metadata"]["resourceVersion"] = "7"
    body["spec"]["subnets"][0] |= {"uuid": str(Random(1).getrandbits(64)), **subnet}
    return msgspec.convert(body, NETWORKS.type)


def test_addresses_are_those_of_the_subnet() -> None:
    """The Network has the subnet with one pool over all of it, under a name that is the object's alone."""
    body = ipam_network(PLAIN).body()
    assert body["metadata"]["name"] == resource_name("net1", UID)
    assert body["spec"] == {"subnets": [{"cidr": "10.115.0.0/24", "pools": [{"range": "10.115.0.0/24"}]}]}
    assert is_ours(stored_network(PLAIN).metadata, UID)
    assert not is_ours(stored_network(PLAIN).metadata, "")


def test_addresses_are_for_the_networks_namespaces() -> None:
    """A Network serves the namespaces of its isolated network, and is repaired to; without a list it is left alone."""
    limited = replace(PLAIN, namespaces=("nets", "team"))
    assert ipam_network(limited).body()["spec"]["namespaces"] == ["nets", "team"]
    for stored_for, wanted, patch in (
        (limited, limited, None),
        (PLAIN, limited, ["nets", "team"]),
        (limited, replace(PLAIN, namespaces=("*",)), ["*"]),
        (limited, PLAIN, None),
    ):
        found = ipam_network(wanted).repair(stored_network(stored_for))
        assert found.get("spec", {}).get("namespaces") == patch


def test_the_gateway_is_the_first_address() -> None:
    """Every node's bridge has the subnet's first address, where a gateway is asked for."""
    assert (bridge_addresses(GATEWAYED), bridge_addresses(PLAIN), bridge_addresses(isolated())) == (
        "10.115.0.1/24",
        "",
        "",
    )
    assert ipam_network(GATEWAYED).body()["spec"]["subnets"][0]["gateway"] == "10.115.0.1"


def test_without_a_subnet_there_is_no_such_network() -> None:
    """Asking for addresses of a network without a subnet is an error."""
    with pytest.raises(ValueError, match="net1 has no subnet"):
        ipam_network(isolated()).body()


@pytest.mark.parametrize("subnet", [{}, {"external": ["10.115.0.9"]}, {"name": "a"}, {"dhcp": True}])
def test_what_an_administrator_adds_stays(subnet: dict[str, Any]) -> None:
    """Reserved addresses, a name and the UUID are no drift."""
    assert ipam_network(PLAIN).repair(stored_network(PLAIN, **subnet)) == {}


@pytest.mark.parametrize(
    "subnet",
    [
        {"cidr": "10.116.0.0/24"},
        {"gateway": "10.115.0.7"},
        {"pools": []},
        {"pools": [{"range": "10.115.0.9"}]},
    ],
)
def test_another_subnet_is_put_right(subnet: dict[str, Any]) -> None:
    """Range, gateway and pool become those of the spec again, on the version that was read."""
    current = stored_network(GATEWAYED, **subnet)
    patch = ipam_network(GATEWAYED).repair(current)
    assert patch["metadata"]["resourceVersion"] == "7"
    mended = msgspec.convert(merge_patch(msgspec.to_builtins(current), patch), NETWORKS.type)
    assert ipam_network(GATEWAYED).repair(mended) == {}
    assert mended.spec.subnets[0].uuid == current.spec.subnets[0].uuid


def test_the_name_is_put_right() -> None:
    """The annotation that tells people the object's name is mended by itself."""
    raw = msgspec.to_builtins(stored_network(PLAIN))
    raw["metadata"]["annotations"] = {}
    patch = ipam_network(PLAIN).repair(msgspec.convert(raw, NETWORKS.type))
    assert patch == {"metadata": {"annotations": {NAME_ANNOTATION: "net1"}, "resourceVersion": "7"}}


def test_a_cluster_network_is_marked() -> None:
    """The ClusterNetwork of a bridge says for which network it was made, and has no uplink."""
    body = cluster_network_body(isolated(), "dummy")
    made = msgspec.convert(body, CLUSTER_NETWORKS.type)
    assert (made.metadata.name, made.metadata.labels) == ("dummy", {UID_LABEL: UID})
    assert "spec" not in body


@pytest.mark.parametrize(
    ("bridge", "implied"),
    [
        ("dummy-br", "dummy"),
        ("abcdefghijkl-br", "abcdefghijkl"),
        ("br-dummy", ""),
        ("br0", ""),
        ("-br", ""),
        ("Dummy-br", ""),
        ("a_b-br", ""),
        ("a--br", ""),
        ("a-br-br", "a-br"),
    ],
)
def test_a_bridge_s_name_implies_a_cluster_network(bridge: str, implied: str) -> None:
    """`<name>-br` implies `<name>`, where a ClusterNetwork can be called so."""
    assert implied_cluster_network(bridge) == implied


def config(name: str, cluster_network: str) -> VlanConfig:
    """A VlanConfig that gives a cluster network an uplink."""
    raw = {"metadata": {"name": name}, "spec": {"clusterNetwork": cluster_network}}
    return msgspec.convert(raw, VLAN_CONFIGS.type)


def test_a_bridge_with_an_uplink_is_not_isolated() -> None:
    """A ClusterNetwork with VlanConfigs is refused, and the message names them; others do not matter."""
    configs = [config("two", "dummy"), config("one", "dummy"), config("three", "other")]
    assert (
        "dummy-br, the bridge of ClusterNetwork dummy, which has an uplink through VlanConfig one, two;"
        in (uplink_fault("dummy-br", configs))
    )
    assert not uplink_fault("dummy-br", [config("three", "other")])
    assert not uplink_fault("br0", [config("three", "")])
    assert " and 4 more;" in uplink_fault("dummy-br", [config(f"c{number}", "dummy") for number in range(9)])
