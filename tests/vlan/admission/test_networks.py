"""What the webhooks answer about networks as such, word for word: these are the messages that users see."""

from copy import deepcopy

import pytest

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.multus import NADS
from lanloom.vlan.admission import judge
from tests.vlan.admission.cases import Case, Cases, answer, each
from tests.vlan.admission.requests import (
    STATIC,
    Raw,
    annotated,
    network,
    overlay_config,
    report,
    request,
    static,
    with_label,
    world,
)
from tests.vlan.cluster import cluster_network, nad

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE = "can't update NetworkAttachmentDefinition default/net because "
P = names.PREFIX


def new(body: Raw, why: str, *more: Raw) -> Case:
    """A new network that is refused."""
    return Case(request(NADS, body), world(*more), CREATE + why)


NETWORK_CASES: Cases = {
    "spec.config is JSON": new(
        network(config="{"), "spec.config is not valid JSON; it must hold a CNI configuration"
    ),
    "spec.config is an object": new(
        network(config="[]"), "spec.config must be a JSON object with a CNI configuration"
    ),
    "a VLAN id is 0 to 4094": new(
        network(config={"vlan": 4095}), "spec.config.vlan is 4095; it must be a number from 0 to 4094"
    ),
    "a VLAN id is a number": new(
        network(config={"vlan": True}), "spec.config.vlan is true; it must be a number from 0 to 4094"
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
    "labels say what spec.config says": new(
        with_label("vlan-id", "2013"),
        f'its label {P}vlan-id is "2013" but spec.config says "2012"; make them equal',
    ),
    "the label of a cluster network needs its bridge": new(
        nad("net", "cluster-1", config={"bridge": "br0"}),
        f'its label {P}clusternetwork is "cluster-1" but spec.config names no bridge of it; remove the label, or set '
        '"bridge" to "cluster-1-br"',
    ),
    "the cluster network of a network is for ever": Case(
        request(NADS, network(cluster_network="cluster-2"), network()),
        world(cluster_network("cluster-2"), report("cluster-2", "node1")),
        f'{UPDATE}the cluster network of a network can\'t change (it is "cluster-1", not "cluster-2"); delete the '
        "network and create it anew",
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
    ],
)
def test_networks_that_are_allowed(body: Raw) -> None:
    """What a node could carry, and what is none of Lanloom's business, is allowed without a warning."""
    assert judge(request(NADS, body), world()) == Verdict()


def test_what_is_being_deleted_is_let_go() -> None:
    """An object whose deletion was asked for passes whatever stands in it, so that finalizers can be removed."""
    broken = network(config="{")
    broken["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judge(request(NADS, broken, broken), world()).allowed
    assert judge(request(NADS, None, network()), world()).allowed


OLD = {
    "configuration": network(config="{"),
    "annotation": annotated(network(), node_ip_map="nonsense"),
    "label": with_label("vlan-id", "2013"),
}
"""Networks from before the webhooks, which would be refused today."""


@pytest.mark.parametrize("old", OLD.values(), ids=list(OLD))
def test_edits_beside_what_is_judged_pass(old: Raw) -> None:
    """The manager's label, a finalizer or somebody else's annotation comes onto a network whatever stands in it."""
    edited = deepcopy(old)
    edited["metadata"].setdefault("labels", {})[names.READY_LABEL] = "false"
    edited["metadata"].setdefault("annotations", {})[P + "route"] = "{}"
    edited["metadata"]["finalizers"] = ["example.com/theirs"]
    assert judge(request(NADS, edited, old), world()) == Verdict()
    edited["metadata"]["annotations"][names.MODE] = "neither"
    assert not judge(request(NADS, edited, old), world()).allowed


def test_labels_that_are_filled_in_change_nothing() -> None:
    """A broken network that had no labels gets them with the next edit, which is no reason to refuse that."""
    labelled = annotated(nad("net", "cluster-1", 2012), node_ip_map="nonsense")
    bare = {**labelled, "metadata": {**labelled["metadata"], "labels": {}}}
    assert judge(request(NADS, labelled, bare), world()) == Verdict()
