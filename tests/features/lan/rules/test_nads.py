"""The NADs of a LAN."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.lan import SpokeOptions
from lanloom.api.lannads import RESOURCE_NAME, spoke_of
from lanloom.api.meta import Key, ObjectMeta, OwnerReference
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.reading import convert
from lanloom.features.lan.rules.nads import (
    body_of,
    is_as_wanted,
    is_config_wanted,
    owner_of,
    repair,
    wanted_nads,
)
from lanloom.kube.patches import merge
from tests.features.lan.samples import lan

LAN = lan()
MACHINES, PODS, *_ = wanted_nads(LAN)


def _stored(body: dict[str, Any]) -> NetworkAttachmentDefinition:
    return convert(merge(body, {"metadata": {"namespace": "default"}}), NADS.type)


def test_each_spoke_has_two() -> None:
    """Names, configurations and resources are those that pods and machines were written for."""
    assert [nad.key for nad in wanted_nads(LAN)] == [
        Key("default", name) for name in ("k8slan-mac-a", "k8slan-veth-a", "k8slan-mac-b", "k8slan-veth-b")
    ]
    assert json.loads(MACHINES.config) == {"cniVersion": "0.3.1", "name": "k8slan-mac-a", "type": "macvtap"}
    assert json.loads(PODS.config) == {
        "cniVersion": "0.3.1",
        "name": "k8slan-veth-a",
        "type": "k8slanveth",
        "veth": "a",
    }
    body = body_of(LAN, PODS)
    assert (
        body["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"]
        == "macvtap.k8slan.io/k8slan-veth-a"
    )
    assert body["metadata"]["ownerReferences"][0]["uid"] == LAN.metadata.uid
    assert owner_of(_stored(body).metadata) == LAN.metadata.uid


def test_what_is_right_is_left_alone() -> None:
    """A NAD as it was created needs no repair, however its configuration is laid out and whatever else it carries."""
    body = merge(body_of(LAN, PODS), {"metadata": {"labels": {"team": "net"}, "annotations": {"note": "x"}}})
    body["spec"]["config"] = json.dumps(json.loads(PODS.config), indent=2)
    assert repair(LAN, PODS, _stored(body)) == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"metadata": {"labels": None}},
        {"metadata": {"annotations": None}},
        {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/gpu"}}},
        {"metadata": {"ownerReferences": None}},
        {"spec": {"config": "{}"}},
        {"spec": {"config": "[" * 5000}},
        {
            "spec": {
                "config": '{"cniVersion": "0.3.1", "name": "k8slan-veth-a", "type": "k8slanveth", "veth": "b"}'
            }
        },
    ],
)
def test_damage_is_repaired(damage: dict[str, Any]) -> None:
    """Whatever of a NAD was changed, the repair brings back what should be, and nothing else."""
    whole = body_of(LAN, PODS)
    damaged = merge(whole, damage)
    patch = repair(LAN, PODS, _stored(damaged))
    assert patch
    mended = merge(damaged, patch)
    assert repair(LAN, PODS, _stored(mended)) == {}
    assert json.loads(mended["spec"]["config"]) == json.loads(PODS.config)


def test_a_nad_that_drains_again_takes_users() -> None:
    """A spoke that was taken out and put back is open to all users again."""
    body = merge(body_of(LAN, PODS), {"metadata": {"annotations": {"network.harvester.io/draining": "now"}}})
    assert repair(LAN, PODS, _stored(body)) == {
        "metadata": {"annotations": {"network.harvester.io/draining": None}}
    }


def test_other_owners_stay() -> None:
    """An owner reference of another writer survives the repair; only another controller's gives way."""
    others = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c", "blockOwnerDeletion": True},
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True},
    ]
    body = merge(body_of(LAN, PODS), {"metadata": {"ownerReferences": others}})
    patch = repair(LAN, PODS, _stored(body))
    assert [item["uid"] for item in patch["metadata"]["ownerReferences"]] == ["c", LAN.metadata.uid]


def test_a_nad_of_k8slan_is_known_by_its_owner() -> None:
    """k8slan's operator writes no label; the NAD is as wanted and belongs to the LAN all the same."""
    owner = OwnerReference(api_version="lan.k8slan.io/v1beta1", kind="LAN", name="blue", uid="u")
    assert owner_of(ObjectMeta(owner_references=(owner,))) == "u"
    assert (
        owner_of(
            ObjectMeta(owner_references=(OwnerReference(api_version="v1", kind="LAN", name="x", uid="u"),))
        )
        == ""
    )
    plain = _stored(merge(body_of(LAN, PODS), {"metadata": {"labels": None, "ownerReferences": None}}))
    assert is_as_wanted(PODS, plain)
    assert not is_as_wanted(MACHINES, plain)


def test_a_spoke_for_machines_that_migrate() -> None:
    """With the bridge binding the NAD for pods names no resource, also if it named one before; the other one does."""
    options = {LAN.spec.spokes[0]: SpokeOptions(binding="bridge")}
    bridged = replace(LAN, spec=replace(LAN.spec, spoke_options=options))
    machines, pods, *others = wanted_nads(bridged)
    assert (machines, *others) == tuple(each for each in wanted_nads(LAN) if each != PODS)
    assert json.loads(pods.config) == json.loads(PODS.config) | {"binding": "bridge"}
    made = _stored(body_of(bridged, pods))
    assert RESOURCE_NAME not in made.metadata.annotations and is_as_wanted(pods, made)
    assert repair(bridged, pods, made) == {}
    patch = repair(bridged, pods, _stored(body_of(LAN, PODS)))
    assert patch["metadata"]["annotations"] == {RESOURCE_NAME: None}
    assert patch["spec"] == {"config": pods.config}
    assert repair(LAN, PODS, made)["metadata"]["annotations"] == {RESOURCE_NAME: PODS.resource}


def test_what_is_no_configuration() -> None:
    """Text that is no JSON is not what is wanted."""
    assert not any(is_config_wanted(PODS, text) for text in ("", "x", "[]", "[" * 5000))


def test_the_spoke_in_a_name() -> None:
    """Only names of spokes' NADs name a spoke."""
    names = ("k8slan-mac-a", "k8slan-veth-b-c", "web", "k8slan-mac-")
    assert [spoke_of(name) for name in names] == ["a", "b-c", "", ""]
