"""Where NADs put ports, and which VLAN ids these have: as CNI's plugin gives them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.kubevirt import pod_interface_name
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from lanloom.features.liveupdate.rules.announcement import frames
from lanloom.features.liveupdate.rules.launcher import links_in
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget, LanSpoke, UnmovableNad, target_of
from lanloom.features.liveupdate.rules.port import (
    Bridge,
    PodIdentity,
    extra_entries,
    goal_on,
    is_of_pod,
    keeps_flags,
    normal,
)
from lanloom.node.links import KernelLink
from lanloom.node.vlanids import VlanEntry
from tests.features.liveupdate import objects

BRIDGE = Bridge(name="b-br", mtu=1500, filtering=True, default_pvid=1)


def nad(config: Any) -> NetworkAttachmentDefinition:
    """A NAD with a configuration, or with a text that is none."""
    text = config if isinstance(config, str) else json.dumps(config)
    return NetworkAttachmentDefinition(
        metadata=ObjectMeta(name="a", namespace="n"), spec=NetworkAttachmentDefinitionSpec(config=text)
    )


PLACES: dict[str, tuple[Any, Any]] = {
    "spoof check": ({"type": "bridge", "macspoofchk": True}, BridgeTarget(bridge="cni0", macspoofchk=True)),
    "untagged": ({"type": "bridge", "bridge": "b-br"}, BridgeTarget(bridge="b-br")),
    "the plugin's own bridge": ({"type": "bridge"}, BridgeTarget(bridge="cni0")),
    "OpenShift's name": ({"type": "cnv-bridge", "bridge": "b-br"}, BridgeTarget(bridge="b-br")),
    "first of a list": (
        {"plugins": [{"type": "bridge", "bridge": "b", "vlan": 7}, {"type": "tuning"}]},
        BridgeTarget(bridge="b", pvid=7),
    ),
    "a VLAN": ({"type": "bridge", "bridge": "b", "vlan": 7}, BridgeTarget(bridge="b", pvid=7)),
    "without the default": (
        {"type": "bridge", "bridge": "b", "vlan": 7, "preserveDefaultVlan": False},
        BridgeTarget(bridge="b", pvid=7, default_vid=False),
    ),
    "the default is all there is": (
        {"type": "bridge", "bridge": "b", "preserveDefaultVlan": False},
        BridgeTarget(bridge="b"),
    ),
    "a trunk": (
        {"type": "bridge", "bridge": "b", "vlanTrunk": [{"minID": 5, "maxID": 9}, {"id": 12}]},
        BridgeTarget(bridge="b", vids=((5, 9), (12, 12))),
    ),
    "flags": (
        {"type": "bridge", "bridge": "b", "hairpinMode": True, "portIsolation": True, "mtu": 1400},
        BridgeTarget(bridge="b", hairpin=True, isolated=True, mtu=1400),
    ),
    "keys in any case": ({"TYPE": "bridge", "Bridge": "b", "VLAN": 7}, BridgeTarget(bridge="b", pvid=7)),
    "a list with tuning": (
        {"plugins": [{"type": "bridge", "bridge": "b"}, {"type": "tuning"}]},
        BridgeTarget(bridge="b"),
    ),
    "a LAN": ({"type": "k8slanveth", "veth": "web"}, LanSpoke(spoke="web")),
}

UNMOVABLE: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is not valid JSON"),
    "a macvtap": ({"type": "macvtap"}, "whose device the guest holds"),
    "another plugin": ({"type": "sriov"}, 'spec.config.type is "sriov"'),
    "no plugin": ({}, "spec.config.type is null"),
    "no name of a plugin": ({"type": ["bridge"]}, 'spec.config.type is ["bridge"]'),
    "a firewall": (
        {"plugins": [{"type": "bridge"}, {"type": "firewall"}]},
        '"firewall", which can\'t be moved',
    ),
    "an empty list": ({"plugins": []}, "must be a list of objects"),
    "no interface": (
        {"type": "bridge", "disableContainerInterface": True},
        "disableContainerInterface is set",
    ),
    "a hostile bridge": ({"type": "bridge", "bridge": "../x"}, "must be the name of a link"),
    "a long bridge": ({"type": "bridge", "bridge": "b" * 16}, "must be the name of a link"),
    "a VLAN id": ({"type": "bridge", "vlan": 4095}, "spec.config.vlan is 4095"),
    "a VLAN id that is true": ({"type": "bridge", "vlan": True}, "spec.config.vlan is true"),
    "an MTU": ({"type": "bridge", "mtu": 9}, "spec.config.mtu is 9"),
    "a trunk": ({"type": "bridge", "vlanTrunk": [{"minID": 9, "maxID": 5}]}, "spec.config.vlanTrunk[0]"),
    "no spoke": ({"type": "k8slanveth"}, "must be the name of a spoke"),
}


@pytest.mark.parametrize(("config", "place"), PLACES.values(), ids=list(PLACES))
def test_places(config: Any, place: Any) -> None:
    """A configuration that can be moved to is read as its plugin reads it."""
    assert target_of(nad(config)) == place


@pytest.mark.parametrize(("config", "words"), UNMOVABLE.values(), ids=list(UNMOVABLE))
def test_what_can_not_be_moved(config: Any, words: str) -> None:
    """A configuration with more than a port, or with nonsense, is refused with the NAD and the field."""
    with pytest.raises(UnmovableNad) as caught:
        target_of(nad(config))
    assert str(caught.value).startswith("NetworkAttachmentDefinition n/a: ") and words in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@given(ANYTHING)
def test_any_configuration_has_a_place_or_a_reason(config: Any) -> None:
    """Whatever stands in a NAD, nothing but a reason comes of it."""
    shapes = (
        config,
        *({"type": "bridge", key: config} for key in ("type", "vlan", "vlanTrunk", "bridge", "mtu", "ipam")),
    )
    for found in (*shapes, {"plugins": config}, {"type": "k8slanveth", "veth": config}):
        try:
            target_of(nad(json.dumps(found)))
        except UnmovableNad:
            continue


@given(
    pvid=st.integers(0, 4094),
    ranges=st.lists(st.tuples(st.integers(1, 4094), st.integers(0, 40)), max_size=4),
    default=st.booleans(),
)
def test_ids_of_a_port(pvid: int, ranges: list[tuple[int, int]], default: bool) -> None:
    """A port has its untagged id, its tagged ids, and the bridge's default if that is kept, and no other."""
    vids = tuple((first, min(first + more, 4094)) for first, more in ranges)
    place = BridgeTarget(bridge="b-br", pvid=pvid, vids=vids, default_vid=default)
    entries = goal_on(place, BRIDGE, "v").entries
    ids = {vid for item in entries for vid in range(item.first, item.last + 1)}
    tagged = {vid for first, last in vids for vid in range(first, last + 1)}
    assert ids == tagged | ({pvid} - {0}) | ({1} if default else set())
    assert normal(entries) == entries
    assert sum(item.pvid for item in entries) <= 1
    assert extra_entries(entries, entries) == () and extra_entries(entries, ()) == entries


@pytest.mark.parametrize(
    ("before", "wanted", "kept"),
    [
        ((VlanEntry(10, 10, True, True),), (VlanEntry(20, 20, True, True),), True),
        (
            (VlanEntry(1, 1, False, True), VlanEntry(10, 10, True, True)),
            (VlanEntry(1, 1, False, True),),
            True,
        ),
        ((VlanEntry(5, 9), VlanEntry(10, 10, True, True)), (VlanEntry(7, 12),), False),
        ((VlanEntry(5, 9),), (VlanEntry(7, 7, False, True), VlanEntry(8, 9)), False),
        ((), (VlanEntry(1, 4094),), True),
    ],
)
def test_ids_that_keep_their_flags(
    before: tuple[VlanEntry, ...], wanted: tuple[VlanEntry, ...], kept: bool
) -> None:
    """A port keeps the flags of its ids if none that it has and is to have is tagged or a PVID in one case alone."""
    assert keeps_flags(before, wanted) is kept


def test_a_pod_is_known_by_all_marks() -> None:
    """A namespace is a pod's only with its interfaces, their hardware addresses and its own address."""
    mac, other = "02:00:00:00:00:01", "02:00:00:00:00:02"
    own = frozenset({"10.0.0.7"})
    pod = PodIdentity(title="a/b", uid="u", interface="pod1", addresses=own, macs={"pod1": mac})
    links = [KernelLink(index=2, name="pod1", mac=mac)]
    assert is_of_pod(pod, links, frozenset({"10.0.0.7", "fe80::1"}))
    assert not is_of_pod(pod, links, frozenset({"10.0.0.8"}))
    assert not is_of_pod(pod, [KernelLink(index=2, name="pod1", mac=other)], own)
    assert not is_of_pod(pod, [KernelLink(index=2, name="pod2", mac=mac)], own)


@pytest.mark.parametrize(
    ("binding", "entry"),
    [
        ("sriov", {"mac": "02:00:00:00:00:09"}),
        ("sriov", {}),
        ("hostdevice", {"mac": "02:00:00:00:00:09", "device-info": {"type": "pci"}}),
    ],
    ids=["with a MAC", "without", "with device info"],
)
def test_devices_without_a_link(binding: str, entry: dict[str, Any]) -> None:
    """A device that the guest has itself is no mark of the pod's namespace, whatever Multus reports of it."""
    spec = objects.devices(
        [objects.interface("lan"), objects.interface("vf", binding)],
        [objects.network("lan", "a"), objects.network("vf", "b")],
    )
    lan, vf = pod_interface_name("lan"), pod_interface_name("vf")
    seen = json.loads(objects.network_status({"lan": "vms/a"}))
    text = json.dumps([*seen, {"name": "vms/b", "interface": vf, **entry}])
    pod = objects.as_pod(objects.launcher("u", {}, text=text))
    links = links_in(pod, objects.as_instance(objects.instance(spec)))
    assert links.keys() == {"eth0", lan}
    assert links[lan] == "02:00:00:00:00:01"


def test_frames() -> None:
    """The frames are a RARP request, a gratuitous ARP request and an unsolicited advertisement, in order."""
    rarp, arp, advertisement = frames("02:00:00:00:00:07", ["192.0.2.4/24", "2001:db8::4", "x", "127.0.0.1"])
    source = bytes.fromhex("020000000007")
    assert all(frame[6:12] == source and len(frame) >= 60 for frame in (rarp, arp, advertisement))
    assert (rarp[12:14].hex(), arp[12:14].hex(), advertisement[12:14].hex()) == ("8035", "0806", "86dd")
    assert arp[28:32] == arp[38:42] == bytes([192, 0, 2, 4])
    body = advertisement[54:86]
    assert _sum(advertisement[22:54] + (32).to_bytes(4, "big") + (58).to_bytes(4, "big") + body) == 0xFFFF
    assert (body[0], body[4] & 0x20, body[24:26].hex()) == (136, 0x20, "0201")


def _sum(data: bytes) -> int:
    """The Internet's checksum of data, with what it has for one: all bits are set if that is right."""
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_bridge_without_filter_has_no_ids() -> None:
    """A port of a bridge that does not filter VLANs has none."""
    plain = Bridge(name="b-br", mtu=1500)
    assert goal_on(BridgeTarget(bridge="b-br"), plain, "v").entries == ()
    assert goal_on(BridgeTarget(bridge="b-br"), BRIDGE, "v").entries == (VlanEntry(1, 1, True, True),)
