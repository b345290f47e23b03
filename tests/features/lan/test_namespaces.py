"""NADs next to a LAN: whose may name its spokes."""

import json
from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LAN, LAN_NODES, LANS, UID_LABEL, Spoke
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.kube.patches import merge
from tests.features.lan.manager.scene import PLACE
from tests.features.lan.reviews import MANAGER, Raw, Reviews, raw, reviewed
from tests.features.lan.samples import entry

ELSEWHERE = "vms"
VETH: Raw = {"type": "k8slanveth", "veth": "a"}
NAMING: dict[str, tuple[Raw, str]] = {
    "veth": (VETH, ""),
    "bridge": ({**VETH, "binding": "bridge"}, ""),
    "device": ({"type": "macvtap", "deviceID": "aM0"}, ""),
    "resource": ({"type": "macvtap"}, "macvtap.k8slan.io/k8slan-mac-a"),
    "first": ({"plugins": [VETH, {"type": "tuning"}]}, ""),
    "later": ({"plugins": [{"type": "tuning"}, VETH]}, ""),
}
"""Each way in which a NAD names the spoke `a`: its configuration, and its resource."""

OTHERS: list[tuple[Raw | str, str]] = [
    ({"type": "k8slanveth", "veth": "free"}, ""),
    ({"type": "k8slanveth"}, ""),
    ({"type": "k8slanveth", "veth": ["a"]}, ""),
    ({"type": "bridge", "veth": "a"}, "macvtap.k8slan.io/k8slan-veth-a"),
    ({"type": "macvtap", "deviceID": "M0"}, "macvtap.network.kubevirt.io/eth0"),
    ({"type": "macvtap", "deviceID": 7}, ""),
    ({"plugins": "a"}, ""),
    ("[]", ""),
    ("{", ""),
]
"""What names no spoke of the LAN."""


def nad(config: Raw | str, resource: str = "", *, name: str = "own", namespace: str = ELSEWHERE) -> Raw:
    """A NAD as its author writes it."""
    text = config if isinstance(config, str) else json.dumps({"cniVersion": "0.3.1", "name": name, **config})
    annotations = {RESOURCE_NAME: resource} if resource else {}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return {"metadata": metadata, "spec": {"config": text}}


@pytest.mark.parametrize("way", NAMING)
def test_a_nad_of_another_namespace(way: str) -> None:
    """A NAD outside the LAN's namespace that names a spoke is refused, new or edited, and the message names no LAN."""

    async def story(on: Reviews) -> None:
        await on.add_lan()
        await on.follow()
        new, plain = nad(*NAMING[way]), nad({"type": "bridge"})
        for verdict in (await on.ask(NADS, new), await on.ask(NADS, new, plain)):
            assert not verdict.allowed
            assert (
                "NetworkAttachmentDefinition vms/own: spec.config: the spoke a is of a LAN of"
                in verdict.message
            )
            assert "add vms to spec.namespaces of that LAN" in verdict.message
            assert "blue" not in verdict.message and PLACE not in verdict.message
        assert (await on.ask(NADS, merge(new, {"metadata": {"labels": {"x": "y"}}}), new)).allowed
        assert (await on.ask(NADS, plain, new)).allowed
        assert (await on.ask(NADS, None, new)).allowed

    reviewed(story)()


@pytest.mark.parametrize("namespaces", [[ELSEWHERE], ["other", ELSEWHERE], ["*"]])
@pytest.mark.parametrize("way", NAMING)
def test_a_namespace_that_is_admitted(namespaces: list[str], way: str) -> None:
    """`spec.namespaces` admits NADs of the namespaces that it lists, and `*` those of all."""

    async def story(on: Reviews) -> None:
        await on.add_lan(namespaces=namespaces)
        await on.follow()
        assert (await on.ask(NADS, nad(*NAMING[way]))).allowed
        third = await on.ask(NADS, nad(*NAMING[way], namespace="third"))
        assert third.allowed is (namespaces == ["*"])

    reviewed(story)()


@pytest.mark.parametrize("way", NAMING)
def test_the_lans_own_namespace(way: str) -> None:
    """NADs of the LAN's namespace may name its spokes, whatever `spec.namespaces` says."""

    async def story(on: Reviews) -> None:
        await on.add_lan(namespaces=["other"])
        await on.follow()
        assert (await on.ask(NADS, nad(*NAMING[way], namespace=PLACE))).allowed

    reviewed(story)()


@pytest.mark.parametrize(("config", "resource"), OTHERS)
def test_what_names_no_spoke(config: Raw | str, resource: str) -> None:
    """NADs of other plugins, of spokes that no LAN has, and unreadable ones are no LAN's business."""

    async def story(on: Reviews) -> None:
        await on.add_lan()
        await on.follow()
        assert (await on.ask(NADS, nad(config, resource))).allowed

    reviewed(story)()


@reviewed
async def test_a_lan_of_the_same_spokes_in_another_namespace(on: Reviews) -> None:
    """A LAN that is created again elsewhere takes its spokes with it: NADs of its old namespace are refused."""
    await on.follow()
    assert (await on.ask(NADS, nad(VETH, namespace=PLACE))).allowed
    await on.client.create(LANS, {"metadata": {"name": "blue"}, "spec": (await _spec(on))}, ELSEWHERE)
    assert not (await on.ask(NADS, nad(VETH, namespace=PLACE))).allowed
    assert (await on.ask(NADS, nad(VETH))).allowed


async def _spec(on: Reviews) -> Any:
    made: LAN = await on.add_lan()
    await on.client.delete(LANS, "blue", PLACE)
    return {
        "ns": made.spec.ns,
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": 7,
        "spokes": ["a"],
        "defaultVxlanDev": "e",
    }


@reviewed
async def test_namespaces_change_at_any_time(on: Reviews) -> None:
    """Namespaces come and go; wrong names are refused."""
    old = {"metadata": {"name": "blue", "namespace": PLACE}, "spec": _raw_spec(await on.add_lan())}
    await on.follow()
    for names in (["vms"], ["*"], []):
        assert (await on.ask(LANS, merge(old, {"spec": {"namespaces": names}}), old)).allowed
    for names, message in (
        (["VMs"], 'spec.namespaces[0] is "VMs", which can\'t be the name of a namespace'),
        (["a", "a"], 'spec.namespaces names "a" more than once'),
        ([f"n{number}" for number in range(1001)], "spec.namespaces has 1001 entries; at most 1000"),
    ):
        assert message in (await on.ask(LANS, merge(old, {"spec": {"namespaces": names}}), old)).message


def _raw_spec(lan: LAN) -> Raw:
    spec = lan.spec
    return {
        "ns": spec.ns,
        "bridge": spec.bridge,
        "vxlan": spec.vxlan,
        "vni": spec.vni,
        "vxlanGrp": spec.vxlan_grp,
        "defaultVxlanDev": spec.default_vxlan_dev,
        "spokes": list(spec.spokes),
    }


@reviewed
async def test_a_nad_that_names_a_foreign_lan_as_its_owner(on: Reviews) -> None:
    """A user who knows the uid of a LAN of another namespace does not get its name, and can delete what names it."""
    lan = await on.add_lan()
    await on.follow()
    claimed = merge(nad({"type": "bridge"}), {"metadata": {"labels": {UID_LABEL: lan.metadata.uid}}})
    refused = await on.ask(NADS, claimed)
    assert "names a LAN of another namespace, which wants no such NAD" in refused.message
    assert (await on.ask(NADS, None, claimed)).allowed
    assert (await on.ask(NADS, None, claimed, user=MANAGER)).allowed


@reviewed
async def test_claims_of_others(on: Reviews) -> None:
    """A LAN whose names are another namespace's is refused without a word about whose they are."""
    made = await on.add_lan()
    await on.follow()
    new = {"metadata": {"name": "mine", "namespace": ELSEWHERE}, "spec": _raw_spec(made)}
    refused = await on.ask(LANS, new)
    assert 'spec.ns: "blue" is the network namespace of a LAN of another namespace already' in refused.message
    assert PLACE not in refused.message


@reviewed
async def test_who_is_warned_of(on: Reviews) -> None:
    """A deletion warns of users of own NADs and of pods that nodes report, each once, and a spoke in use stays."""
    lan = await on.add_lan()
    await on.client.create(NADS, nad(VETH, namespace=PLACE), PLACE)
    meta = {"name": "web", "annotations": {MULTUS_NETWORKS: "own"}}
    body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    await on.client.create(PODS, body, PLACE)
    await on.client.create(LAN_NODES, {"metadata": {"name": "node1"}})
    spokes = tuple(
        Spoke(name=name, mode="veth", pod=pod) for name, pod in (("a", "nets/web"), ("b", "vms/thief"))
    )
    await on.client.patch(
        LAN_NODES, "node1", {"status": {"lans": [raw(entry(lan, spokes=spokes))]}}, subresource="status"
    )
    await on.follow()
    verdict = await on.ask(LANS, None, raw(lan))
    assert "LAN nets/blue is used by Pod nets/web, Pod vms/thief; it stays" in verdict.warnings[0]
    for spoke, message in (
        ("b", 'the spoke "a" is used by Pod nets/web'),
        ("a", "node node1 has Pod vms/thief"),
    ):
        assert (
            message in (await on.ask(LANS, merge(raw(lan), {"spec": {"spokes": [spoke]}}), raw(lan))).message
        )


@reviewed
async def test_an_mtu_tells_nothing_of_others(on: Reviews) -> None:
    """A NAD that asks for too much of another namespace's LAN is refused first because the LAN is not for it."""
    await on.add_lan(mtu=1400)
    await on.follow()
    refused = await on.ask(NADS, nad({**VETH, "mtu": 9000}))
    assert "does not admit namespace vms" in refused.message and "1400" not in refused.message


@reviewed
async def test_subnets_change_at_any_time(on: Reviews) -> None:
    """Subnets come and go; those that nothing could use are refused, each with its field and the remedy."""
    old = {"metadata": {"name": "blue", "namespace": PLACE}, "spec": _raw_spec(await on.add_lan())}
    await on.follow()
    four: Raw = {"cidr": "10.7.0.0/24", "gateway": "10.7.0.1"}
    six: Raw = {"cidr": "fd07::/64", "gateway": "fd07::1"}
    for subnets in ([four], [four | {"dhcp": True}, six | {"dhcp": True}], [{"cidr": "10.7.0.0/30"}], []):
        assert (await on.ask(LANS, merge(old, {"spec": {"subnets": subnets}}), old)).allowed
    refused: tuple[tuple[list[Raw], str], ...] = (
        ([{"cidr": "blue"}], 'spec.subnets[0].cidr is "blue", which is not a CIDR: use one such as'),
        ([{"cidr": "10.7.0.1"}], 'spec.subnets[0].cidr is "10.7.0.1", which is not a CIDR'),
        ([{"cidr": "fd00:7::%eth0/64"}], "which is not a CIDR"),
        ([{"cidr": "::ffff:a07:0/120"}], "but those are reserved addresses: choose a private range"),
        ([{"cidr": "10.7.0.9/24"}], "which is not the form of a subnet: did you mean 10.7.0.0/24?"),
        ([{"cidr": "10.7.0.0/31"}], "it must have a prefix length from /8 to /30"),
        ([{"cidr": "fd07::/48"}], "it must have a prefix length from /64 to /126"),
        ([{"cidr": "127.0.0.0/24"}], "but those are loopback addresses: choose a private range"),
        ([four, {"cidr": "10.7.0.0/25"}], "spec.subnets[1].cidr is 10.7.0.0/25, which overlaps 10.7.0.0/24"),
        (
            [four | {"gateway": "x"}],
            'spec.subnets[0].gateway is "x", which is no IP address: use one such as 10.7.0.1',
        ),
        ([four | {"gateway": "10.8.0.1"}], 'is "10.8.0.1": use an address of 10.7.0.0/24, e.g. 10.7.0.1'),
        ([four | {"gateway": "10.7.0.255"}], "which no host of 10.7.0.0/24 can have"),
        ([{"cidr": f"10.{number}.0.0/24"} for number in range(9)], "spec.subnets has 9 entries; at most 8"),
    )
    for wrong, message in refused:
        assert message in (await on.ask(LANS, merge(old, {"spec": {"subnets": wrong}}), old)).message
