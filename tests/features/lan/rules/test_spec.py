"""What a LAN's spec may say."""

import re
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.lan import LANSpec, SpokeOptions, StormControl
from lanloom.features.lan.rules.admit import check_reported
from lanloom.features.lan.rules.spec import (
    check,
    check_changes,
    default_group,
    defaults,
    faults,
    is_rerouted,
    link_fault,
    ns_fault,
    spoke_fault,
)
from lanloom.refusals import Denied, Malformed
from tests.features.lan.samples import entry, lan, lan_node, spec

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"ns": ""}, "spec.ns is missing"),
    ({"ns": ".."}, "spec.ns is"),
    ({"ns": "a/b"}, "spec.ns is"),
    ({"ns": "a" * 64}, "at most 63"),
    ({"ns": "cni-1b2f"}, "container runtime"),
    ({"ns": "0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f"}, "container runtime"),
    ({"bridge": ""}, "spec.bridge is missing"),
    ({"bridge": "a" * 14}, "at most 13"),
    ({"bridge": "br 0"}, "spec.bridge is"),
    ({"bridge": "-br"}, "spec.bridge is"),
    ({"bridge": "br0\n"}, "spec.bridge is"),
    ({"bridge": "bř"}, "spec.bridge is"),
    ({"bridge": "lo"}, "kernel keeps"),
    ({"vxlan": "all"}, "kernel keeps"),
    ({"vxlan": "default"}, "kernel keeps"),
    ({"vxlan": "."}, "spec.vxlan is"),
    ({"vxlan": "br0"}, "name of spec.bridge as well"),
    ({"bridge": "aM0"}, 'a link of the spoke "a"'),
    ({"vxlan": "bV0"}, 'a link of the spoke "b"'),
    ({"vni": 0}, "spec.vni is 0; it must be from 1 to 16777215"),
    ({"vni": 1 << 24}, "spec.vni is 16777216"),
    ({"vxlan_grp": ""}, "spec.vxlanGrp is missing"),
    ({"vxlan_grp": "all-nodes"}, "no IP address"),
    ({"vxlan_grp": "ff02::1%eth0"}, "no IP address"),
    ({"vxlan_grp": "10.0.0.1"}, "no multicast group"),
    ({"vxlan_port": 0}, "spec.vxlanPort is 0"),
    ({"vxlan_port": 65536}, "from 1 to 65535"),
    ({"default_vxlan_dev": ""}, "spec.defaultVxlanDev is missing"),
    ({"default_vxlan_dev": "eth0; reboot"}, "spec.defaultVxlanDev is"),
    ({"default_vxlan_dev": "lo"}, "spec.defaultVxlanDev is"),
    (
        {"underlay_family": "IPv4", "replication": "multicast"},
        'spec.underlayFamily is "IPv4", and spec.vxlanGrp',
    ),
    ({"vxlan_dev_map": {"node1": "a" * 16}}, 'spec.vxlanDevMap["node1"] is'),
    ({"vxlan_dev_map": {"node1": ""}}, 'spec.vxlanDevMap["node1"] is'),
    ({"max_learned_macs": -1}, "spec.maxLearnedMacs is -1"),
    ({"max_learned_macs": 65536}, "from 1 to 65535; leave it out"),
    ({"storm_control": StormControl(packets_per_second=-1)}, "spec.stormControl.packetsPerSecond is -1"),
    ({"storm_control": StormControl(packets_per_second=10_000_001)}, "from 1 to 10000000, or 0"),
    ({"mtu": 67}, "spec.mtu is 67"),
    ({"mtu": 65536}, "from 68 to 65535 bytes"),
    (
        {"spoke_options": {"c": SpokeOptions()}},
        'spec.spokeOptions names "c", which spec.spokes does not have',
    ),
    ({"spoke_options": {"a": SpokeOptions(mtu=1)}}, 'spec.spokeOptions["a"].mtu is 1'),
    (
        {"spoke_options": {"a": SpokeOptions(max_learned_macs=-2)}},
        'spec.spokeOptions["a"].maxLearnedMacs is -2',
    ),
    ({"mtu": 1400, "spoke_options": {"a": SpokeOptions(mtu=1401)}}, "and spec.mtu is 1400"),
    ({"port_security": True, "spoke_options": {"a": SpokeOptions(max_learned_macs=2)}}, "exactly one MAC"),
    ({"spokes": ()}, "spec.spokes has 0 entries; it must have from 1 to 4095"),
    ({"spokes": tuple(f"s{number}" for number in range(4096))}, "has 4096 entries"),
    ({"spokes": ("a", "a")}, 'spec.spokes names "a" more than once'),
    ({"spokes": ("a", "")}, "spec.spokes[1] is empty"),
    ({"spokes": ("A",)}, "lower-case"),
    ({"spokes": ("a.b",)}, "lower-case"),
    ({"spokes": ("a" * 14,)}, "at most 13"),
]


def test_the_plain_one_is_right() -> None:
    """A LAN with all fields in their ranges is taken, with a group of either family."""
    assert not faults(spec())
    assert not faults(spec(vxlan_grp="239.1.2.3", vni=(1 << 24) - 1, vxlan_port=65535, ns="a" * 63))
    assert not faults(spec(default_vxlan_dev="", vxlan_dev_map={"node1": "bond0.100"}))
    assert not faults(spec(underlay_family="IPv4"))
    assert not faults(spec(underlay_family="IPv6", replication="multicast"))
    assert not faults(spec(bridge="aM2", vxlan="cM0"))


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_every_field_is_judged(changes: dict[str, Any], message: str) -> None:
    """What is wrong is said of the LAN and the field, on one printable line."""
    with pytest.raises(Malformed) as error:
        check(lan(**changes))
    assert message in str(error.value)
    assert str(error.value).startswith("LAN default/blue: spec.")
    assert str(error.value).isprintable()


def test_every_fault_is_told_at_once() -> None:
    """Several wrong fields are one message."""
    assert len(faults(LANSpec())) == 7


@given(st.text(max_size=20))
def test_accepted_names_are_safe(text: str) -> None:
    """What is accepted as a name is one path component and one word of a command line."""
    for fault in (link_fault(text, "br0"), ns_fault(text), spoke_fault(text)):
        if not fault:
            assert text.isascii() and text not in (".", "..") and text[0] not in "-."
            assert not set(text) & set("/ \t\n:%*$`'\"\\")


@given(st.integers(1, (1 << 24) - 1), st.integers(1, (1 << 24) - 1))
def test_each_vni_has_its_own_group(one: int, two: int) -> None:
    """Groups of two VNIs differ, also in the 32 bits that reach the Ethernet address."""
    groups = [ip_address(default_group(vni)) for vni in (one, two)]
    assert all(group.is_multicast and group.version == 6 for group in groups)
    assert (one == two) == (int(groups[0]) & 0xFFFFFFFF == int(groups[1]) & 0xFFFFFFFF)


def test_what_is_left_out_is_filled_in() -> None:
    """Group and port have defaults; an update that leaves them out keeps what they were."""
    assert defaults({"vni": 222}, None) == {"vxlanPort": 4789, "vxlanGrp": default_group(222)}
    assert defaults({"vni": 222, "vxlanGrp": None, "vxlanPort": None}, None) == defaults({"vni": 222}, None)
    assert defaults({"vni": 222, "vxlanGrp": "ff02::14", "vxlanPort": 1}, None) == {}
    before = {"vni": 222, "vxlanGrp": "ff02::14", "vxlanPort": 8472}
    assert defaults({"vni": 222}, before) == {"vxlanPort": 8472, "vxlanGrp": "ff02::14"}


@pytest.mark.parametrize("vni", [None, 0, -1, 1 << 24, "7", 7.5])
def test_a_group_of_a_wrong_vni(vni: object) -> None:
    """A VNI that is none gets a placeholder, so that the fault names the VNI; a mended one gets its own group."""
    before = {"vni": vni, **defaults({"vni": vni}, None)}
    assert ip_address(before["vxlanGrp"]).is_multicast
    assert defaults({"vni": 7}, before)["vxlanGrp"] == default_group(7)


FIXED: dict[str, Any] = {
    "ns": "green",
    "bridge": "br1",
    "vxlan": "vx1",
    "vni": 9,
    "vxlan_grp": "ff05::1",
    "vxlan_port": 4790,
}


@pytest.mark.parametrize("field", FIXED)
def test_a_field_that_stays(field: str) -> None:
    """What the LAN is built of on the nodes can't change; the refusal names the field and the remedy."""
    with pytest.raises(Denied, match=r"^LAN default/blue: spec\.\w+ is .* can't become .*; delete the LAN"):
        check_changes(lan(), lan(**{field: FIXED[field]}))


def test_fields_that_may_change() -> None:
    """Spokes come and go, and nodes get their own underlay; a LAN that is invalid is mended in any field."""
    check_changes(lan(), lan(spokes=("c",), vxlan_dev_map={"node1": "eth1"}))
    check_changes(lan(), lan(default_vxlan_dev="eth9", replication="multicast", underlay_family="IPv6"))
    check_changes(lan(), lan(port_security=True, max_learned_macs=9, mtu=1400))
    check_changes(lan(), lan(storm_control=StormControl(packets_per_second=0)))
    check_changes(lan(), lan(spoke_options={"a": SpokeOptions(isolated=True)}))
    check_changes(lan(ns=""), lan(vni=9))


REROUTED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"replication": "multicast"}, 'spec.replication is "head-end" and can\'t become "multicast"'),
    ({}, {"underlay_family": "IPv6"}, 'spec.underlayFamily is "" and can\'t become "IPv6"'),
    ({}, {"default_vxlan_dev": "eth9"}, 'defaultVxlanDev: the underlay of node node1 is "eth0"'),
    ({}, {"vxlan_dev_map": {"node1": "eth1"}}, 'vxlanDevMap: the underlay of node node1 is "eth0"'),
    ({"vxlan_dev_map": {"node1": "eth1"}}, {}, 'vxlanDevMap: the underlay of node node1 is "eth1"'),
    ({}, {"vxlan_dev_map": {"node1": "eth0"}}, ""),
    ({}, {"vxlan_dev_map": {"node2": "eth1"}}, ""),
    (
        {"vxlan_dev_map": {"node1": "eth1"}},
        {"default_vxlan_dev": "e", "vxlan_dev_map": {"node1": "eth1"}},
        "",
    ),
]


@pytest.mark.parametrize(("before", "after", "refusal"), REROUTED)
def test_how_frames_come_to_nodes(before: dict[str, Any], after: dict[str, Any], refusal: str) -> None:
    """Underlay and replication change where no node that they concern has the LAN ready, attached or not."""
    old, new = lan(**before), lan(**after)
    assert is_rerouted(old.spec, new.spec)
    if refusal:
        with pytest.raises(Denied, match=re.escape(refusal)) as error:
            check_reported(old, new, [lan_node("node1", entry(old))])
        assert str(error.value).endswith("while node node1 has the LAN ready; move its pods away first")
    else:
        check_reported(old, new, [lan_node("node1", entry(old))])
    check_reported(old, new, [])
    check_reported(old, new, [lan_node("node1", entry(old, ready=False)), lan_node("n", entry(lan("x")))])
