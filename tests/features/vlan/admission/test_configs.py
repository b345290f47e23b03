"""What the webhooks refuse in a new `spec.config`, because its readers would not agree on it, word for word."""

import json
from copy import deepcopy

import pytest

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import Raw, annotated, network, overlay_config, world
from tests.features.vlan.cluster import nad
from tests.harness.admission import request

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE = "can't update NetworkAttachmentDefinition default/net because "
LABEL = "storage-network.settings.harvesterhci.io/exclusivevlan"
ITSELF = f'which uses it exclusively (label {LABEL}: "true"); choose other VLAN ids'


KELVIN = "\u212a"
"""The sign of the unit, whose lower case is a k."""


def plain(**config: object) -> Raw:
    """A network of cluster-1 without node addresses; its configuration has these fields besides the usual."""
    return nad("net", "cluster-1", config=config)


def new(body: Raw, why: str, *more: Raw) -> Case:
    """A new network that is refused."""
    name = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
    return Case(request(NADS, body), world(*more), CREATE.replace("default/net", name) + why)


def misspelt(place: str, key: str, field: str) -> str:
    """What is said of a key in another case."""
    readers = f'which CNI plugins read as "{field}" and other readers ignore'
    return f'{place} has the key "{key}", {readers}; write "{field}"'


def storage(vid: int = 100, namespace: str = names.HARVESTER_NAMESPACE, exclusive: str = "true") -> Raw:
    """The NAD of Harvester's storage network on cluster-1."""
    body = nad("storagenetwork-abcde", "cluster-1", vid, namespace=namespace)
    body["metadata"]["labels"][LABEL] = exclusive
    return body


NO_BRIDGE = (
    "which is not a valid bridge name; for a cluster network it must be the name of the ClusterNetwork "
    "followed by -br, "
    'such as "mgmt-br"'
)
NO_MTU = "it must be a whole number of bytes, such as 1500, or 0"
STORAGE = "of the storage network, "
CONFIG_CASES: Cases = {
    "a trunk has no VLAN id of its own": new(
        plain(vlan=5, vlanTrunk=[{"minID": 10, "maxID": 20}]),
        "spec.config.vlan is 5 but must be 0 when vlanTrunk is set; remove one of the two",
    ),
    "the keys of spec.config have their case": new(plain(Vlan=300), misspelt("spec.config", "Vlan", "vlan")),
    "also next to the same key in its case": new(
        plain(vlan=300, BRIDGE="mgmt-br"), misspelt("spec.config", "BRIDGE", "bridge")
    ),
    "also the key type": new(
        network(config='{"Type": "bridge", "bridge": "cluster-1-br"}'),
        misspelt("spec.config", "Type", "type"),
    ),
    "also with letters that only look like theirs": new(
        nad("net", "cluster-1", config={f"vlanTrun{KELVIN}": [{"id": 5}]}),
        misspelt("spec.config", "vlanTrun\\u212a", "vlanTrunk"),
    ),
    "also in an edit of spec.config": Case(
        request(NADS, plain(MTU=9000), plain()), world(), UPDATE + misspelt("spec.config", "MTU", "mtu")
    ),
    "the keys of a range have their case": new(
        plain(vlanTrunk=[{"id": 5}, {"minId": 7, "maxID": 9}]),
        misspelt("spec.config.vlanTrunk[1]", "minId", "minID"),
    ),
    "a bridge's name is a link's": new(
        plain(bridge="../x-br"), f'spec.config.bridge is "../x-br", {NO_BRIDGE}'
    ),
    "a bridge's name has no space": new(
        plain(bridge="cluster-1-br "), f'spec.config.bridge is "cluster-1-br ", {NO_BRIDGE}'
    ),
    "a bridge's name is a string": new(plain(bridge=7), f"spec.config.bridge is 7, {NO_BRIDGE}"),
    "a bridge's name begins with the cluster network's": new(
        plain(bridge="-br"),
        'spec.config.bridge is "-br", which names no cluster network; write the name of the ClusterNetwork before it, '
        'such as "mgmt-br"',
    ),
    "an MTU is a number": new(plain(mtu="abc"), f'spec.config.mtu is "abc"; {NO_MTU}'),
    "an MTU is a whole number": new(plain(mtu=1500.5), f"spec.config.mtu is 1500.5; {NO_MTU}"),
    "an MTU is not negative": new(plain(mtu=-5), f"spec.config.mtu is -5; {NO_MTU}"),
    "an id in another case is in range too": new(
        plain(vlanTrunk=[{"ID": 4096}]),
        'spec.config.vlanTrunk[0] is {"id": 4096}; ids must be numbers from 1 to 4094, minID no higher than maxID',
    ),
    "an overlay network has a provider": new(
        network(mode="", config='{"type": "kube-ovn"}'),
        'spec.config.provider is missing; for this NAD it must be "net.default.ovn"',
    ),
    "the provider is the NAD itself": new(
        network(mode="", config=overlay_config("other")),
        'spec.config.provider is "other.default.ovn"; for this NAD it must be "net.default.ovn"',
    ),
    "the name of an overlay network has no dot": new(
        nad("a.b", "cluster-1", config=overlay_config("a.b")),
        'metadata.name is "a.b"; a NAD of type kube-ovn must have a name without dots, because its provider is split '
        "at dots; choose another name",
    ),
    "the VLAN of an exclusive storage network is taken": new(
        nad("net", "cluster-1", 100), f"spec.config.vlan is 100, the VLAN id {STORAGE}{ITSELF}", storage()
    ),
    "a trunk leaves out the VLAN of an exclusive storage network": new(
        plain(vlanTrunk=[{"id": 5}, {"minID": 90, "maxID": 105}]),
        f"spec.config.vlanTrunk holds 100, the VLAN id {STORAGE}{ITSELF}",
        storage(),
    ),
    "the untagged frames of an exclusive storage network are taken": new(
        plain(), f"it carries the untagged frames {STORAGE}{ITSELF}", storage(0)
    ),
    "an edit moves no network to an exclusive storage network": Case(
        request(NADS, nad("net", "cluster-1", 100), nad("net", "cluster-1", 101)),
        world(storage()),
        f"{UPDATE}spec.config.vlan is 100, the VLAN id {STORAGE}{ITSELF}",
    ),
}


@each(CONFIG_CASES)
def test_configurations_that_are_refused(case: Case) -> None:
    """A configuration that others would read otherwise, or take for theirs, is refused with what to write instead."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    "body",
    [
        plain(vlan=0, vlanTrunk=[{"minID": 10, "maxID": 20}]),
        plain(vlan=None, vlanTrunk=[{"minID": None, "maxID": None, "id": 5}]),
        plain(vlan=5, vlanTrunk=[]),
        plain(custom=True, Custom=False, ipam={"Type": "static"}),
        nad("foreign", "cluster-1", config='{"type": "macvlan", "Master": "eth0", "MTU": 9000}'),
        nad("net", "cluster-1", config=overlay_config("net")),
    ],
    ids=["trunk", "nulls", "empty trunk", "unknown keys", "another plugin", "overlay"],
)
def test_configurations_that_are_allowed(body: Raw) -> None:
    """What every reader reads alike is allowed, and so are keys and plugins that are none of Lanloom's business."""
    del body["metadata"]["labels"]
    assert check_request(request(NADS, body), world()) == Verdict()


EARLIER = {
    "another case": plain(Vlan=300),
    "two modes": plain(vlan=5, vlanTrunk=[{"id": 7}]),
    "overlay without a provider": nad("net", "cluster-1", config='{"type": "kube-ovn"}'),
    "storage VLAN": nad("net", "cluster-1", 100),
}


@pytest.mark.parametrize("old", EARLIER.values(), ids=list(EARLIER))
def test_configurations_from_before_stay(old: Raw) -> None:
    """A network from before these rules can be edited elsewhere, and be deleted."""
    edited = annotated(deepcopy(old), mode="dhcp")
    assert check_request(request(NADS, edited, old), world(storage())).allowed
    assert check_request(request(NADS, None, old), world(storage())).allowed


@pytest.mark.parametrize(
    ("body", "present"),
    [
        (nad("net", "cluster-1", 101), storage()),
        (nad("net", "cluster-1", 100), storage(exclusive="false")),
        (nad("net", "cluster-1", 100), storage(namespace="shop")),
        (nad("net", "bare", 100), storage()),
        (nad("net", "cluster-1", config=overlay_config("net")), storage(0)),
        (nad("storagenetwork-new", "cluster-1", 100, namespace=names.HARVESTER_NAMESPACE), storage()),
        (nad("rwx-network-new", "cluster-1", 100, namespace=names.HARVESTER_NAMESPACE), storage()),
        (storage(), storage()),
    ],
    ids=[
        "another VLAN",
        "not exclusive",
        "in a namespace of users",
        "another cluster network",
        "overlay",
        "the next storage network",
        "for shared volumes",
        "itself",
    ],
)
def test_networks_beside_a_storage_network(body: Raw, present: Raw) -> None:
    """A storage network keeps others off its own VLAN of its cluster network only, and only if Harvester says so."""
    assert check_request(request(NADS, body), world(present)).message == ""


def test_a_network_that_an_annotation_makes_harvesters() -> None:
    """In Harvester's namespace the annotation tells its networks as well as the name does; elsewhere it does not."""
    for namespace, allowed in ((names.HARVESTER_NAMESPACE, True), ("shop", False)):
        body = nad("net", "cluster-1", 100, namespace=namespace)
        body["metadata"]["annotations"] = {"storage-network.settings.harvesterhci.io": "true"}
        assert check_request(request(NADS, body), world(storage())).allowed == allowed


def test_a_storage_network_that_can_not_be_read_takes_nothing() -> None:
    """An exclusive network whose configuration is broken has no VLAN that others could be on."""
    broken = storage()
    broken["spec"]["config"] = json.dumps({"type": "bridge", "bridge": "cluster-1-br", "vlan": "x"})
    assert check_request(request(NADS, nad("net", "cluster-1", 100)), world(broken)).allowed
