"""What the webhooks answer about networks as such, word for word: these are the messages that users see."""

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
from tests.features.vlan.admission.requests import (
    STATIC,
    Raw,
    annotated,
    network,
    overlay_config,
    report,
    static,
    with_label,
    world,
)
from tests.features.vlan.cluster import cluster_network, nad
from tests.harness.admission import request

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE = "can't update NetworkAttachmentDefinition default/net because "
P = names.PREFIX


def new(body: Raw, why: str, *more: Raw) -> Case:
    """A new network that is refused."""
    return Case(request(NADS, body), world(*more), CREATE + why)


def labelled(body: Raw, vid: str) -> Raw:
    """A network with that VLAN id in its labels."""
    body["metadata"]["labels"][names.VLAN_ID_LABEL] = vid
    return body


FOREIGN: Raw = {
    "metadata": {"namespace": "default", "name": "net"},
    "spec": {"config": '{"type": "macvlan", "master": "eth0"}'},
}
"""A network of another plugin, without labels."""


NETWORK_CASES: Cases = {
    "spec.config is JSON": new(
        network(config="{"), "spec.config is not valid JSON; it must hold a CNI configuration"
    ),
    "spec.config is an object": new(
        network(config="[]"), "spec.config must be a JSON object with a CNI configuration"
    ),
    "a VLAN id is 0 to 4094": new(
        network(config={"vlan": 4095}),
        "spec.config.vlan is 4095; it must be a number from 0 to 4094, and for node addresses at least 2",
    ),
    "a VLAN id is a number": new(
        network(config={"vlan": True}),
        "spec.config.vlan is true; it must be a number from 0 to 4094, and for node addresses at least 2",
    ),
    "a trunk is a list of ranges": new(
        network(mode="", config={"vlanTrunk": "10-20"}),
        "spec.config.vlanTrunk must be a list of ranges with minID and maxID, or of single ids",
    ),
    "a range of a trunk is an object": new(
        network(mode="", config={"vlanTrunk": [10]}),
        "spec.config.vlanTrunk[0] must be an object with minID and maxID, or with id",
    ),
    "the ids of a trunk are 1 to 4094": new(
        network(mode="", config={"vlanTrunk": [{"minID": 20, "maxID": 10}]}),
        'spec.config.vlanTrunk[0] is {"minID": 20, "maxID": 10}; ids must be numbers from 1 to 4094, minID no higher '
        "than maxID",
    ),
    "the cluster network exists": new(
        network(cluster_network="nowhere"),
        'its cluster network "nowhere" does not exist; create the ClusterNetwork first',
    ),
    "also in an edit": Case(
        request(NADS, nad("net", "nowhere", 5), FOREIGN),
        world(),
        f'{UPDATE}its cluster network "nowhere" does not exist; create the ClusterNetwork first',
    ),
    "the cluster network of an overlay network exists": new(
        nad("net", "nowhere", config=overlay_config("net")),
        'its cluster network "nowhere" does not exist; create the ClusterNetwork first',
    ),
    "a number of spec.config has a reasonable length": new(
        network(config=f'{{"type": "bridge", "bridge": "cluster-1-br", "vlan": {"1" * 5000}}}'),
        "spec.config has a number of 5000 digits, 11111111…; at most 20 are allowed",
    ),
    "spec.config has no numbers that JSON does not know": new(
        network(config='{"type": "bridge", "bridge": "cluster-1-br", "mtu": NaN}'),
        "spec.config is not valid JSON: it contains NaN, which JSON does not allow; write a number",
    ),
    "labels say what spec.config says": new(
        with_label("vlan-id", "2013"),
        f'its label {P}vlan-id is "2013" but spec.config has "2012"; make them equal',
    ),
    "an untagged network has no VLAN id in its labels": new(
        labelled(nad("net", "cluster-1"), "100"),
        f'its label {P}vlan-id is "100" but spec.config has no single VLAN id, because its type is UntaggedNetwork; '
        "remove the label",
    ),
    "a trunk has no VLAN id in its labels": new(
        labelled(nad("net", "cluster-1", config={"vlanTrunk": [{"id": 5}]}), "2012"),
        f'its label {P}vlan-id is "2012" but spec.config has no single VLAN id, because its type is '
        "L2VlanTrunkNetwork; remove the label",
    ),
    "an overlay network has no VLAN id in its labels": new(
        labelled(nad("net", "cluster-1", config=overlay_config("net")), "5"),
        f'its label {P}vlan-id is "5" but spec.config has no single VLAN id, because its type is OverlayNetwork; '
        "remove the label",
    ),
    "the label of a cluster network needs its bridge": new(
        nad("net", "cluster-1", config={"bridge": "br0"}),
        f'its label {P}clusternetwork is "cluster-1" but spec.config names no bridge of it; remove the label, or set '
        '"bridge" to "cluster-1-br"',
    ),
    "the cluster network of a network is immutable": Case(
        request(NADS, network(cluster_network="cluster-2"), network()),
        world(cluster_network("cluster-2"), report("cluster-2", "node1")),
        f'{UPDATE}the cluster network of a network is immutable (it is "cluster-1", not "cluster-2"); '
        "delete and recreate the network",
    ),
    "also not for another plugin": Case(
        request(NADS, FOREIGN, network(mode="")),
        world(),
        f'{UPDATE}spec.config, of type "macvlan", names no bridge of its cluster network "cluster-1" any more; the '
        "cluster network of a network is immutable; delete and recreate the network",
    ),
}


@each(NETWORK_CASES)
def test_networks_that_are_refused(case: Case) -> None:
    """A network that no node could carry is refused with the object, the field, what is allowed, and what to do."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    "body",
    [
        network(),
        static(STATIC),
        network(mode="", vid=100),
        nad("trunk", "cluster-1", config={"vlanTrunk": [{"minID": 10, "maxID": 20}]}),
        nad("early", "bare", 100),
        nad("overlay", "cluster-1", config=overlay_config("overlay")),
        annotated(network(), node_ip_map=""),
        {**nad("foreign", "cluster-1", config='{"type": "macvlan"}'), "metadata": {"name": "foreign"}},
        FOREIGN | {"spec": {}},
        FOREIGN | {"spec": {"config": ""}},
    ],
)
def test_networks_that_are_allowed(body: Raw) -> None:
    """What a node could carry, and what is none of Lanloom's business, is allowed without a warning."""
    assert check_request(request(NADS, body), world()) == Verdict()


def test_a_network_of_nowhere_can_be_repaired() -> None:
    """A network from before, whose cluster network does not exist, can be edited elsewhere."""
    old = nad("net", "nowhere", 5)
    assert check_request(request(NADS, nad("net", "nowhere", 6), old), world()).message == ""


def test_a_label_from_before_hinders_no_repair() -> None:
    """A label that contradicted before is left alone, so that something else can be put right first."""
    old = labelled(nad("net", "cluster-1"), "100")
    new = annotated(deepcopy(old), mode="static")
    assert check_request(request(NADS, new, old), world()).message == ""
    worse = labelled(deepcopy(old), "101")
    assert "remove the label" in check_request(request(NADS, worse, old), world()).message


def test_networks_on_the_management_vlan_are_told() -> None:
    """Machines on the management VLAN reach the nodes: such a network is allowed with a warning."""
    where = "the VLAN of the management network: machines on it reach the nodes there; to prevent this, choose other "
    untagged = (
        "the network carries the untagged frames of mgmt, which may be the management network: machines on it may "
        "reach the nodes there; to prevent this, use a VLAN id"
    )
    trunk = nad("net", "mgmt", config={"vlanTrunk": [{"minID": 2, "maxID": 4094}]})
    silent = report("mgmt", "node1")
    silent["status"]["management"] = {"vlanId": 0, "interface": "mgmt-br", "cidr": "10.115.252.135/23"}
    for body, more, warnings in (
        (nad("net", "mgmt", 2021), (), (f"spec.config.vlan is 2021, {where}VLAN ids",)),
        (trunk, (), (f"spec.config.vlanTrunk holds 2021, {where}VLAN ids",)),
        (nad("net", "mgmt"), (silent,), (untagged,)),
        (nad("net", "mgmt"), (), ()),
        (nad("net", "mgmt", 2022), (), ()),
        (nad("net", "cluster-1", 2021), (), ()),
    ):
        assert check_request(request(NADS, body), world(*more)) == Verdict(warnings=warnings)


def test_an_mtu_above_the_uplink_s_is_told() -> None:
    """Frames that the uplink would drop are no reason to refuse a network, and reported."""
    wide = annotated(cluster_network("wide"), uplink_mtu="1500")
    for mtu, warnings in (
        (1500, ()),
        (
            9000,
            (
                "spec.config.mtu is 9000, more than the MTU 1500 of the uplinks of wide, which drop larger frames; "
                "choose at most 1500, or change the MTU of its VlanConfigs",
            ),
        ),
    ):
        body = nad("net", "wide", 7, config={"mtu": mtu})
        assert check_request(request(NADS, body), world(wide)) == Verdict(warnings=warnings)


def reported(network: str, mtu: int, mode: str) -> Raw:
    """A report of a node whose bridge has this MTU; alongside Harvester, that one made it."""
    body = report(network, f"node-{mtu}")
    body["status"] |= {"mtu": mtu, "mode": mode}
    return body


SHRINKS = (
    "unless an administrator has set the MTU of that bridge, it shrinks on each node that runs a pod or VM of this "
    "network, with all links of the node on it; those stay small afterwards, and lose their IPv6 addresses below 1280; "
    "to prevent this, set spec.config.mtu to {mtu}, and a smaller MTU in the guest"
)


@pytest.mark.parametrize(
    ("network", "mtu", "present", "mode", "told"),
    [
        ("mgmt", 1300, 0, "", "spec.config.mtu is 1300, less than the MTU 1500 of mgmt-br"),
        ("mgmt", 1300, 1500, "alone", "spec.config.mtu is 1300, less than the MTU 1500 of mgmt-br"),
        ("mgmt", 1500, 9000, "alone", "spec.config.mtu is 1500, less than the MTU 9000 of mgmt-br"),
        (
            "mgmt",
            0,
            9000,
            "alone",
            "the default of spec.config.mtu is 1500, less than the MTU 9000 of mgmt-br",
        ),
        ("mgmt", 9000, 9000, "alone", ""),
        ("mgmt", 0, 1500, "alone", ""),
        ("mgmt", 0, 0, "", ""),
        ("wide", 1300, 1500, "beside", "spec.config.mtu is 1300, less than the MTU 1500 of wide-br"),
        ("wide", 1300, 1500, "alone", ""),
        ("wide", 1300, 0, "", ""),
    ],
)
def test_an_mtu_that_shrinks_a_bridge_of_others_is_told(
    network: str, mtu: int, present: int, mode: str, told: str
) -> None:
    """A network whose ports are smaller than a bridge that Lanloom did not make is let in with a warning."""
    around = [cluster_network("wide")] + ([reported(network, present, mode)] if present else [])
    body = nad("net", network, 2017, config={"mtu": mtu} if mtu else {})
    warnings = (f"{told}: {SHRINKS.format(mtu=present or 1500)}",) if told else ()
    assert check_request(request(NADS, body), world(*around)) == Verdict(warnings=warnings)


def test_what_is_being_deleted_is_let_go() -> None:
    """An object whose deletion was asked for passes whatever stands in it, so that finalizers can be removed."""
    broken = network(config="{")
    broken["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert check_request(request(NADS, broken, broken), world()).allowed
    assert check_request(request(NADS, None, network()), world()).allowed


OLD = {
    "configuration": network(config="{"),
    "annotation": annotated(network(), node_ip_map="nonsense"),
    "label": with_label("vlan-id", "2013"),
}
"""Networks from before the webhooks, which would be refused today."""


@pytest.mark.parametrize("old", OLD.values(), ids=list(OLD))
def test_edits_beside_what_is_judged_pass(old: Raw) -> None:
    """The manager's label, a finalizer or another writer's annotation comes onto a network whatever stands in it."""
    edited = deepcopy(old)
    edited["metadata"].setdefault("labels", {})[names.READY_LABEL] = "false"
    edited["metadata"].setdefault("annotations", {})[P + "route"] = "{}"
    edited["metadata"]["finalizers"] = ["example.com/theirs"]
    assert check_request(request(NADS, edited, old), world()) == Verdict()
    edited["metadata"]["annotations"][names.MODE] = "neither"
    assert not check_request(request(NADS, edited, old), world()).allowed


def test_labels_that_are_filled_in_change_nothing() -> None:
    """A broken network that had no labels gets them with the next edit, which is no reason to refuse that."""
    labelled = annotated(nad("net", "cluster-1", 2012), node_ip_map="nonsense")
    bare = {**labelled, "metadata": {**labelled["metadata"], "labels": {}}}
    assert check_request(request(NADS, labelled, bare), world()) == Verdict()
