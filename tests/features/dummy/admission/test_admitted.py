"""The users that a network with `spec.namespaces` lets in, by every way in, whatever else is going on."""

from typing import Any, NamedTuple

import pytest

from lanloom.api.admission import AdmissionRequest
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from tests.features.dummy.admission.requests import (
    Present,
    leaving,
    machine,
    nad,
    network,
    on_bridge,
    pod,
    told,
    uid_of,
)
from tests.harness.admission import request

Raw = dict[str, Any]


def placed(body: Raw, namespace: str) -> Raw:
    """The object in another namespace."""
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def swap(source: str, target: str) -> Raw:
    """A move of a machine's NIC."""
    spec = {"machine": "db", "uid": "u", "network": "n0", "from": source, "to": target}
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": spec}


def instance(owner: str = "") -> Raw:
    """An instance on the network, of a machine if it has an owner."""
    owners = [{"kind": "VirtualMachine", "name": "db", "uid": owner, "controller": True}]
    meta = {"ownerReferences": [owners[0] | {"apiVersion": "kubevirt.io/v1"}]} if owner else {}
    networks = [{"name": "n0", "multus": {"networkName": "nets/red"}}]
    metadata = {"name": "db", "namespace": "default", "uid": "new db", **meta}
    return {"metadata": metadata, "spec": {"networks": networks}}


class Try(NamedTuple):
    """A request, whether it is allowed on a network for namespace `team`, and what else there is."""

    asked: AdmissionRequest
    allowed: bool
    refer: bool = True
    more: tuple[Present, ...] = ()


def at_own(namespace: str = "default", nad: str = "default/own") -> Raw:
    """A pod on a NAD that is not the network's."""
    return placed(pod(networks=nad), namespace)


CHAIN = on_bridge(plugins=[{"type": "bridge", "bridge": "red-br"}], bridge=None)
VM = machine("db", "nets/red")
OUTSIDE: tuple[Present, ...] = ((NADS, on_bridge()),)
LINK = on_bridge("", type="macvlan", master="red-br")
TRIES = {
    "a pod": Try(request(PODS, pod()), False),
    "a pod of the namespace of the NAD": Try(request(PODS, placed(pod(), "nets")), True),
    "a pod of a namespace of the list": Try(request(PODS, placed(pod(), "team")), True),
    "a pod by a short name, which is another NAD": Try(request(PODS, pod(networks="red")), True),
    "a dry run": Try(request(PODS, pod(), dry_run=True), False),
    "a machine": Try(request(VIRTUAL_MACHINES, VM), False),
    "a machine that gets the network": Try(request(VIRTUAL_MACHINES, VM, machine("db")), False),
    "a machine that has it already": Try(request(VIRTUAL_MACHINES, {**VM, "extra": 1}, VM), True),
    "a machine that leaves it": Try(request(VIRTUAL_MACHINES, machine("db"), VM), True),
    "an instance of no machine": Try(request(VIRTUAL_MACHINE_INSTANCES, instance()), False),
    "an instance of a machine that is gone": Try(
        request(VIRTUAL_MACHINE_INSTANCES, instance("made up")), False
    ),
    "an instance of a machine that has it already": Try(
        request(VIRTUAL_MACHINE_INSTANCES, instance(uid_of("db"))), True, more=((VIRTUAL_MACHINES, VM),)
    ),
    "a move to it": Try(request(NETWORK_SWAPS, swap("default/x", "nets/red")), False, refer=False),
    "a move from it": Try(request(NETWORK_SWAPS, swap("nets/red", "default/x")), True, refer=False),
    "another NAD at its bridge": Try(request(NADS, on_bridge()), False, refer=False),
    "a chain of plugins at its bridge": Try(request(NADS, CHAIN), False, refer=False),
    "a NAD that is edited to be at its bridge": Try(
        request(NADS, on_bridge(), on_bridge("other")), False, refer=False
    ),
    "an edit of a NAD that was there": Try(
        request(NADS, on_bridge(mtu=1400), on_bridge()), True, refer=False
    ),
    "a macvlan on its bridge": Try(request(NADS, LINK), False, refer=False),
    "a pod at another NAD at its bridge": Try(request(PODS, at_own()), False, more=OUTSIDE),
    "a pod at a macvlan on its bridge": Try(request(PODS, at_own()), False, more=((NADS, LINK),)),
    "a machine at another NAD at its bridge": Try(
        request(VIRTUAL_MACHINES, machine("db", "default/own")), False, more=OUTSIDE
    ),
    "a move to another NAD at its bridge": Try(
        request(NETWORK_SWAPS, swap("default/x", "default/own")), False, refer=False, more=OUTSIDE
    ),
    "a pod at a NAD of a namespace of the list": Try(
        request(PODS, at_own(nad="team/own")), False, more=((NADS, placed(on_bridge(), "team")),)
    ),
    "a pod of the list at a NAD at its bridge": Try(request(PODS, at_own("team")), True, more=OUTSIDE),
    "a pod at a NAD at another bridge": Try(
        request(PODS, at_own()), True, more=((NADS, on_bridge("other")),)
    ),
    "another NAD of a namespace of the list": Try(
        request(NADS, placed(on_bridge(), "team")), True, refer=False
    ),
}
OWN: Present = (NADS, nad(of="red"))


@pytest.mark.parametrize("title", TRIES)
def test_who_is_let_in(title: str) -> None:
    """Only new users of other namespaces are refused, by whichever object they come; without a list none is."""
    found = TRIES[title]
    restricted: Present = (DCNS, network(namespaces=["team"]))
    assert told(found.asked, restricted, OWN, *found.more, refer=found.refer).allowed == found.allowed
    for namespaces in ([], ["*"], ["team", "default"]):
        everybody: Present = (DCNS, network(namespaces=namespaces))
        assert told(found.asked, everybody, OWN, *found.more, refer=found.refer).allowed


def test_a_watch_that_lags_behind_refuses_nobody() -> None:
    """A namespace that was admitted a moment ago is let in; one that no longer is, when the watch has brought that."""
    narrow, wide = ((DCNS, network(namespaces=spaces)) for spaces in (["team"], ["team", "default"]))
    assert told(request(PODS, pod()), wide, OWN, seen=(narrow, OWN), refer=True).allowed
    assert not told(request(PODS, pod()), narrow, OWN, seen=(narrow, OWN), refer=True).allowed


def test_a_network_in_deletion_admits_nobody_else() -> None:
    """The list counts while the network waits for its users, too."""
    going: Present = (DCNS, leaving(network(namespaces=["team"])))
    assert "does not admit namespace default" in told(request(PODS, pod()), going, OWN, refer=True).message


def test_a_nad_that_left_the_bridge_a_moment_ago_refuses_nobody() -> None:
    """A pod at a NAD which the watch still has at the bridge is let in."""
    narrow: Present = (DCNS, network(namespaces=["team"]))
    seen, now = (narrow, (NADS, on_bridge())), (narrow, (NADS, on_bridge("other")))
    assert told(request(PODS, at_own()), *now, seen=seen, refer=True).allowed
    assert not told(request(PODS, at_own()), *seen, refer=True).allowed


def test_a_new_network_finds_no_outsiders() -> None:
    """A network is not made around a NAD of a namespace that it excludes."""
    asked = request(DCNS, network(namespaces=["team"]))
    assert not told(asked, (NADS, on_bridge())).allowed
    assert told(asked, seen=((NADS, on_bridge()),)).allowed
    for allowed in (on_bridge("other"), placed(on_bridge(), "team"), placed(on_bridge(), "nets")):
        assert told(asked, (NADS, allowed)).warnings == ()
    assert told(request(DCNS, network()), (NADS, on_bridge())).allowed


def test_a_shorter_list_names_outsiders() -> None:
    """NADs at the bridge whose namespaces leave the list are named in a warning."""
    asked = request(DCNS, network(namespaces=["team"]), network(namespaces=["team", "default"]))
    there: Present = (DCNS, network(namespaces=["team", "default"]))
    assert told(asked, there, (NADS, on_bridge())).warnings == (
        "spec.namespaces: bridge red-br is named by NetworkAttachmentDefinition default/own of a namespace that is not "
        "listed; its machines keep the network, and new users are rejected",
    )
