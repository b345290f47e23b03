"""Who may do what to the NADs of isolated networks."""

from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.api.dummy import ADMITTED, DRAINING, NAME_ANNOTATION
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.multus import NADS
from lanloom.nads.guard import REQUEST_SECONDS
from tests.features.dummy.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.dummy.admission.requests import MANAGER, Present, leaving, nad, network, pod, told
from tests.harness.admission import request
from tests.harness.virtual import START

DRAINED = {DRAINING: "2026-01-01T00:00:00Z"}
ALIVE: Present = (DCNS, network())
LEAVING: Present = (DCNS, leaving(network()))
OTHER = {"cniVersion": "0.3.1", "name": "red", "type": "bridge", "bridge": "mgmt-br"}
COMING = f'[{{"uid":"u","version":0,"until":{START + REQUEST_SECONDS},"title":"Pod default/late"}}]'

SHARED = {"spec": nad("red")["spec"]}

NAD_CASES: Cases = {
    "a network that is not there": Case(
        request(NADS, nad(of="red")),
        (),
        'NetworkAttachmentDefinition nets/red: metadata.labels[network.harvester.io/dummy-uid] is "uid of red", but no '
        "DummyClusterNetwork has that uid; remove the label",
    ),
    "a network that wants another one": Case(
        request(NADS, nad("blue", of="red")),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/blue: metadata.labels[network.harvester.io/dummy-uid] is the uid of "
        "DummyClusterNetwork red, whose NAD has another name; remove the label, because Lanloom "
        "creates its NADs itself",
    ),
    "a network that is being deleted": Case(
        request(NADS, nad(of="red")),
        (LEAVING,),
        "NetworkAttachmentDefinition nets/red: metadata.labels[network.harvester.io/dummy-uid] is the uid of "
        "DummyClusterNetwork red, which is being deleted; wait until it no longer exists",
    ),
    "the place of a network's own": Case(
        request(NADS, nad()),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/red: metadata.name: DummyClusterNetwork red reserves this name for its own "
        "NAD; choose another name, or delete the DummyClusterNetwork first",
    ),
    "the bridge of a network that is not for the namespace": Case(
        request(NADS, {**nad("own"), "metadata": {"name": "own", "namespace": "other"}} | SHARED),
        ((DCNS, network(namespaces=["team"])),),
        "NetworkAttachmentDefinition other/own: spec.config: bridge red-br is an isolated network's: "
        "DummyClusterNetwork red does not admit namespace other; use another network, or ask an administrator to add "
        "other to spec.namespaces of DummyClusterNetwork red",
    ),
    "the label stays": Case(
        request(NADS, nad(), nad(of="red")),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/red: metadata.labels[network.harvester.io/dummy-uid] is immutable: the NAD "
        "belongs to DummyClusterNetwork red; keep the label unchanged",
    ),
    "the configuration follows from the network": Case(
        request(NADS, nad(of="red", config=OTHER), nad(of="red")),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/red: spec.config is derived from DummyClusterNetwork red; change its "
        "spec.subnet or spec.gateway instead, or create another DummyClusterNetwork for another bridge",
    ),
    "draining without a deletion": Case(
        request(NADS, nad(of="red", marks=DRAINED), nad(of="red"), user=MANAGER),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/red: metadata.annotations[network.harvester.io/draining] marks "
        "DummyClusterNetwork red as being deleted, but it is not; remove the annotation",
    ),
    "draining is for good": Case(
        request(NADS, nad(of="red"), nad(of="red", marks=DRAINED), user=MANAGER),
        (LEAVING,),
        "NetworkAttachmentDefinition nets/red: metadata.annotations[network.harvester.io/draining] must stay "
        "until DummyClusterNetwork red no longer exists; keep it unchanged",
    ),
    "notes are the manager's": Case(
        request(NADS, nad(of="red", marks={ADMITTED: "[]"}), nad(of="red")),
        (ALIVE,),
        "NetworkAttachmentDefinition nets/red: metadata.annotations[network.harvester.io/admitted] is written by "
        "Lanloom's manager only; keep it unchanged",
    ),
}

DELETION_CASES: Cases = {
    "a network that is there": Case(
        request(NADS, None, nad(of="red")),
        (ALIVE, (NADS, nad(of="red"))),
        "NetworkAttachmentDefinition nets/red: it belongs to DummyClusterNetwork red; delete the network "
        "instead (kubectl delete dcn red)",
    ),
    "a network that goes": Case(
        request(NADS, None, nad(of="red", marks=DRAINED)),
        (LEAVING, (NADS, nad(of="red", marks=DRAINED))),
        "NetworkAttachmentDefinition nets/red: it is deleted automatically with DummyClusterNetwork red, which is "
        "being deleted; for the reason of the wait, run kubectl get dcn red -o wide",
    ),
    "users of a network that is gone": Case(
        request(NADS, None, nad(of="red")),
        ((PODS, pod()),),
        "NetworkAttachmentDefinition nets/red: it is used by 1 of other namespaces; remove the network from them, "
        "or delete them",
    ),
    "those who may still come": Case(
        request(NADS, None, nad(of="red", marks={ADMITTED: COMING})),
        (),
        "NetworkAttachmentDefinition nets/red: 1 of other namespaces may still be stored and use it; try again in "
        "a minute",
    ),
}


@each(NAD_CASES)
def test_nads_that_can_not_be(case: Case) -> None:
    """What does not follow from the network is not written onto its NAD, by any user."""
    assert answer(case) == case.message


@each(DELETION_CASES)
def test_nads_that_stay(case: Case) -> None:
    """A NAD is not deleted while its network lives, nor from under a user."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    ("asked", "present"),
    [
        (request(NADS, nad(of="red"), user=MANAGER), (ALIVE,)),
        (request(NADS, nad(of="red", marks={ADMITTED: "[]"}), nad(of="red"), user=MANAGER), (ALIVE,)),
        (request(NADS, nad(of="red", marks=DRAINED), nad(of="red"), user=MANAGER), (LEAVING,)),
        (request(NADS, nad(of="red"), nad(of="red", config=OTHER), user=MANAGER), (ALIVE,)),
        (request(NADS, None, nad(of="red", marks=DRAINED), user=MANAGER), (LEAVING,)),
        (request(NADS, None, nad(of="red", marks=DRAINED), user=MANAGER), ((PODS, pod()),)),
    ],
    ids=["make", "note", "drain", "repair", "delete", "delete an orphan"],
)
def test_what_a_manager_does_passes(asked: Any, present: tuple[Present, ...]) -> None:
    """A manager can do what it has to, also where its webhooks' watches lag behind."""
    assert told(asked, *present).allowed
    assert told(asked, *present, seen=[]).allowed


@pytest.mark.parametrize(
    ("asked", "present"),
    [
        (request(NADS, nad("blue")), (ALIVE,)),
        (request(NADS, nad(), nad(config=OTHER)), (ALIVE,)),
        (request(NADS, None, nad()), (ALIVE,)),
        (request(NADS, nad(), nad(of="red")), ()),
        (request(NADS, None, nad(of="red")), ()),
        (request(NADS, nad(of="red", marks={NAME_ANNOTATION: "x"}), nad(of="red")), (ALIVE,)),
    ],
    ids=["new", "changed", "deleted", "orphan freed", "orphan deleted", "other annotations"],
)
def test_what_is_nobodys_business_passes(asked: Any, present: tuple[Present, ...]) -> None:
    """NADs of others, and those that are not needed any more, are their owners' to change."""
    assert told(asked, *present).allowed


def test_a_network_that_the_watches_do_not_show_keeps_its_nad() -> None:
    """The NAD of a network that was created a moment ago is not taken for one that was left behind."""
    assert not told(request(NADS, nad(), nad(of="red")), ALIVE, seen=[]).allowed
    assert not told(request(NADS, None, nad(of="red")), ALIVE, seen=[]).allowed
