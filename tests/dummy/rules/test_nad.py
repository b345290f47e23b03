"""The NAD of an isolated network: what stands in it, and what counts as changed."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.names import READY_LABEL
from lanloom.apiserver.patches import merge_patch
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.nad import is_as_wanted, nad_body, nad_config, nad_patch
from lanloom.ipam.agent.config import parse_ipam
from tests.dummy.rules.made import UID, isolated

ROUTED = isolated(subnet="10.115.0.0/24", gateway="node")


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


def test_a_network_with_a_gateway() -> None:
    """A gateway is each node's own bridge, which hides pods behind the node; their default route stays."""
    config = nad_config(ROUTED)
    assert (config["isGateway"], config["ipMasq"]) == (True, True)
    assert "isDefaultGateway" not in config


def test_the_gateway_of_a_former_subnet_goes() -> None:
    """The plugin is told to replace the address that the bridge has of a subnet before, instead of failing."""
    assert nad_config(ROUTED)["forceAddress"] is True
    assert "forceAddress" not in nad_config(isolated(subnet="10.115.0.0/24"))


def test_it_is_marked() -> None:
    """The NAD says for whom it was made, and is one that the rules of VLANs understand."""
    made = stored(isolated())
    assert made.metadata.labels == {UID_LABEL: UID, READY_LABEL: "true"}
    assert made.metadata.annotations == {NAME_ANNOTATION: "net1"}
    found = parse_config(made.spec.config)
    assert found is not None
    assert (found.cluster_network, found.vid) == ("dummy", 0)


@pytest.mark.parametrize("net", [isolated(), isolated(subnet="10.115.0.0/24"), ROUTED])
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
    "a member that nobody knows": {"extra": {}},
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
    """What others wrote beside our marks is no drift, and a repair does not touch it."""
    nad = stored(isolated(), "{}", labels={UID_LABEL: UID, "network.harvesterhci.io/ready": "true"})
    mended = merge_patch(msgspec.to_builtins(nad), nad_patch(nad, isolated()))
    assert mended["metadata"]["labels"]["network.harvesterhci.io/ready"] == "true"
