"""References to isolated networks: who is let in is written down before, and no new users are let in when a network
goes.
"""

import asyncio
import copy
from typing import Any

import msgspec
import pytest

from lanloom.api.admission import AdmissionRequest
from lanloom.api.core import PODS
from lanloom.api.dummy import DRAINING
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, rfc3339
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SET_TEMPLATES
from lanloom.kube.errors import Conflict
from lanloom.nads.guard import (
    REQUEST_SECONDS,
    Reservation,
    reservations_of,
    with_reservations,
)
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.dummy.admission.requests import (
    NETWORKS_ANNOTATION,
    Present,
    admission_of,
    first_storage,
    leaving,
    machine,
    nad,
    network,
    pod,
    server,
    told,
    uid_of,
    with_uids,
)
from tests.features.dummy.admission.reviews import (
    GOING,
    OURS,
    annotated,
    reviewed,
)
from tests.harness.admission import request
from tests.harness.virtual import START, run

REFERENCE_CASES: Cases = {
    "a pod on a network that goes": Case(
        request(PODS, pod()),
        GOING,
        "Pod default/web: metadata.annotations[k8s.v1.cni.cncf.io/networks]: NetworkAttachmentDefinition nets/red "
        "does not accept new users: its DummyClusterNetwork red is being deleted. Existing workloads can "
        "still restart; for a new one, name another network or none",
        refer=True,
    ),
    "a machine on a network that goes": Case(
        request(VIRTUAL_MACHINES, machine("db", "nets/red"), machine("db")),
        GOING,
        "VirtualMachine default/db: spec.template.spec.networks[0].multus.networkName: NetworkAttachmentDefinition "
        "nets/red does not accept new users: its DummyClusterNetwork red is being deleted. Existing workloads can "
        "still restart; for a new one, name another network or none",
        refer=True,
    ),
    "a pod of a namespace that the network does not admit": Case(
        request(PODS, pod()),
        ((DCNS, network(namespaces=["team"])), (NADS, nad(of="red"))),
        "Pod default/web: metadata.annotations[k8s.v1.cni.cncf.io/networks]: DummyClusterNetwork red does not admit "
        "namespace default; use another network, or ask an administrator to add default to spec.namespaces of "
        "DummyClusterNetwork red",
        refer=True,
    ),
}


@each(REFERENCE_CASES)
def test_references_that_are_refused(case: Case) -> None:
    """No new users are let onto a network that is being deleted."""
    assert answer(case) == case.message


class Contested(LocalClient):
    """A client whose patches always come too late."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.tries = 0

    async def patch(self, *_arguments: Any, **_options: Any) -> Any:
        """As the port says."""
        await asyncio.sleep(0.01)
        self.tries += 1
        raise Conflict(409, "Conflict", "the object has been modified")


def test_who_is_let_in_is_noted() -> None:
    """A pod that refers to an isolated network is noted on its NAD with its uid, before it is allowed."""
    found = reviewed(request(PODS, pod()))
    assert found.messages == [""]
    assert found.notes == [("new web", 0, "Pod default/web")]


def test_a_machine_that_gets_a_network_is_noted_with_its_version() -> None:
    """A machine that newly refers to the network is noted with the version that the change is based on."""
    old = machine("db", uid="known", resourceVersion="41")
    found = reviewed(request(VIRTUAL_MACHINES, machine("db", "nets/red", uid="known"), old))
    assert found.notes == [("known", 41, "VirtualMachine default/db")]


def test_many_at_once_are_noted_together() -> None:
    """Reviews that come at once share their writes."""
    found = reviewed(*(request(PODS, pod(f"p{number:02}")) for number in range(50)))
    assert found.messages == [""] * 50
    assert len(found.notes) == 50
    assert len(found.asked) <= 3


def test_what_is_nobodys_business_costs_nothing() -> None:
    """Who names no network, one of others, or one that it had already, is allowed without asking the API server."""
    old = machine("db", "nets/red", resourceVersion="3")
    found = reviewed(
        request(PODS, pod(networks="")),
        request(PODS, pod(networks="nets/other")),
        request(VIRTUAL_MACHINES, machine("db", "nets/red"), old),
        present=(*OURS, (NADS, nad("other"))),
        broken=True,
    )
    assert found.messages == ["", "", ""]
    assert found.asked == [] and found.notes == []


def test_a_nad_that_is_not_known_is_read_once() -> None:
    """A NAD that the watches do not show is looked at; one that is not there is not judged."""
    missing = reviewed(request(PODS, pod(networks="nets/gone")))
    assert (missing.messages, missing.asked) == ([""], ["get NetworkAttachmentDefinition"])
    assert reviewed(request(PODS, pod()), seen=[]).notes == [("new web", 0, "Pod default/web")]


def test_watches_that_lag_behind_let_nobody_in() -> None:
    """A NAD that was marked as draining a moment ago is closed, although the watches show it open."""
    found = reviewed(request(PODS, pod()), present=GOING, seen=OURS)
    assert "is being deleted" in found.messages[0]
    assert found.notes == []


def test_watches_that_lag_behind_keep_nobody_out() -> None:
    """A NAD that was created again a moment ago is open, although the watches show the one that was draining."""
    assert reviewed(request(PODS, pod()), seen=GOING).messages == [""]


def test_what_can_not_be_noted_is_refused() -> None:
    """Where the API server takes no note the pod is to come again."""
    found = reviewed(request(PODS, pod()), broken=True)
    assert "try again" in found.messages[0] and "connection refused" in found.messages[0]


def test_a_nad_that_always_changes_is_given_up() -> None:
    """Where others are always faster the pod is to come again, and its request ends."""
    storage = first_storage()

    async def ask() -> tuple[str, int]:
        real, uids = await server(OURS, copy.deepcopy(storage))
        client, tasks = Contested(real), list["asyncio.Task[None]"]()
        admission = await admission_of(client, LocalClient(real), tasks)
        verdict = await admission.refer(with_uids(uids, request(PODS, pod()), AdmissionRequest))
        await asyncio.sleep(1)
        tries = client.tries
        await asyncio.sleep(60)
        for task in tasks:
            task.cancel()
        return verdict.message, client.tries - tries

    message, more = run(ask())
    assert "try again" in message and more == 0


def test_a_dry_run_writes_nothing() -> None:
    """A dry run is judged, and nothing is noted."""
    assert reviewed(request(PODS, pod(), dry_run=True)).notes == []
    assert not told(request(PODS, pod(), dry_run=True), *GOING, refer=True).allowed


def test_a_default_network_without_a_namespace_may_be_ours() -> None:
    """Where an annotation leaves the namespace open, the isolated networks of that name are noted."""
    default = pod(networks="")
    default["metadata"]["annotations"] = {"v1.multus-cni.io/default-network": "red"}
    assert reviewed(request(PODS, default)).notes == [("new web", 0, "Pod default/web")]


def test_what_can_not_be_read_is_allowed() -> None:
    """Networks that can't be read are for Multus to refuse."""
    assert reviewed(request(PODS, pod(networks="[{")), broken=True).messages == [""]


def made_by(kind: Resource[Any], body: dict[str, Any]) -> dict[str, Any]:
    """The metadata of what the object db of that kind makes."""
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "db", "controller": True}
    metadata: dict[str, Any] = {**body["metadata"], "ownerReferences": [{**owner, "uid": uid_of("db")}]}
    return {**body, "metadata": metadata}


def instance(*networks: str) -> dict[str, Any]:
    """The instance of the machine db."""
    body = machine("db", *networks)
    return {"metadata": body["metadata"], "spec": body["spec"]["template"]["spec"]}


def daemons(created: str) -> Present:
    """A DaemonSet db whose pods use the network."""
    labels = {"app": "db"}
    template = {**pod(), "metadata": {"annotations": {NETWORKS_ANNOTATION: "nets/red"}, "labels": labels}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "db", "namespace": "default", "creationTimestamp": created}
    return DAEMON_SET_TEMPLATES, {"metadata": metadata, "spec": spec}


def draining(since: float) -> tuple[Present, ...]:
    """A network that is being deleted, and accepts no new users since then."""
    return (GOING[0], (NADS, nad(of="red", marks={DRAINING: rfc3339(since)})))


LAUNCHER = request(PODS, made_by(VIRTUAL_MACHINE_INSTANCES, pod()))


def test_a_machine_may_move_to_another_node_while_its_network_waits_for_it() -> None:
    """A new pod for an instance that is on the network is let in and noted although the network goes; no other is."""
    on, off = (VIRTUAL_MACHINE_INSTANCES, instance("nets/red")), (VIRTUAL_MACHINE_INSTANCES, instance())
    found = reviewed(LAUNCHER, present=(*GOING, on))
    assert found.messages == [""] and found.notes == [("new web", 0, "Pod default/web")]
    assert not told(LAUNCHER, *GOING, off, refer=True).allowed
    assert not told(LAUNCHER, *GOING, refer=True).allowed


def test_a_machine_may_start_again_while_its_network_waits_for_it() -> None:
    """A new instance of a machine that is on the network is let in and noted; one of another machine is not."""
    asked = request(VIRTUAL_MACHINE_INSTANCES, made_by(VIRTUAL_MACHINES, instance("nets/red")))
    found = reviewed(asked, present=(*GOING, (VIRTUAL_MACHINES, machine("db", "nets/red"))))
    assert found.messages == [""] and found.notes == [("new db", 0, "VirtualMachineInstance default/db")]
    assert not told(asked, *GOING, (VIRTUAL_MACHINES, machine("db", "nets/blue")), refer=True).allowed
    alone = request(VIRTUAL_MACHINE_INSTANCES, instance("nets/red"))
    assert not told(alone, *GOING, (VIRTUAL_MACHINES, machine("db", "nets/red")), refer=True).allowed


@pytest.mark.parametrize(("since", "allowed"), [(START + 1, True), (START, False), (START - 1, False)])
def test_pods_of_workloads_that_are_older_are_replaced(since: float, allowed: bool) -> None:
    """A pod of a workload that was there before the mark is let in; workloads that come later are not reviewed."""
    asked = request(PODS, made_by(DAEMON_SET_TEMPLATES, pod()))
    found = reviewed(asked, present=(*draining(since), daemons(rfc3339(START))))
    assert (found.messages == [""]) == allowed
    assert bool(found.notes) == allowed


def test_nobody_is_let_back_in_without_a_note() -> None:
    """A NAD that a user deletes takes no notes any more, so also those who used it are refused."""
    marks = {DRAINING: rfc3339(START)}
    gone = leaving(nad(of="red", marks=marks))
    on = (VIRTUAL_MACHINE_INSTANCES, instance("nets/red"))
    assert not told(LAUNCHER, GOING[0], (NADS, gone), on, refer=True).allowed


def test_a_dry_run_of_a_restart_writes_nothing() -> None:
    """A user that would be let back in gets that answer, and is not noted."""
    on = (VIRTUAL_MACHINE_INSTANCES, instance("nets/red"))
    asked = request(PODS, made_by(VIRTUAL_MACHINE_INSTANCES, pod()), dry_run=True)
    found = reviewed(asked, present=(*GOING, on))
    assert found.messages == [""] and found.notes == []


def test_notes_that_are_settled_go() -> None:
    """What was seen, or must have been given up, is left out when the next note is written."""
    old = [
        Reservation("seen", 0, START + 50, "Pod default/a"),
        Reservation("over", 0, START, "Pod default/b"),
        Reservation("waits", 7, START + 50, "Pod default/c"),
    ]
    seen = {"seen": 12, "waits": 7}
    text = with_reservations(annotated(msgspec.json.encode(old).decode()), (), seen.get, START + 1)
    assert [item.uid for item in reservations_of(annotated(text))] == ["waits"]


def test_of_two_requests_about_one_object_the_newer_counts() -> None:
    """A request that is based on a newer version takes the place of one that can't be stored any more."""
    known = annotated(msgspec.json.encode([Reservation("u", 9, START + 5, "a")]).decode())
    newer = with_reservations(known, [Reservation("u", 12, START + 50, "a")], lambda _: 9, START)
    assert [item.version for item in reservations_of(annotated(newer))] == [12]
    older = with_reservations(known, [Reservation("u", 4, START + 50, "a")], lambda _: 9, START)
    assert [item.version for item in reservations_of(annotated(older))] == [9]


def test_notes_that_can_not_be_read_stand_for_somebody() -> None:
    """Instead of what can't be read there is a user that may come until a request must have ended."""
    (item,) = reservations_of(annotated(with_reservations(annotated("{"), (), lambda _: None, START)))
    assert item.until == START + REQUEST_SECONDS


def test_the_nad_of_a_key() -> None:
    """A NAD is found in the namespace of the object that refers to it, unless another one is named."""
    inside = pod(networks="red", namespace="nets")
    assert reviewed(request(PODS, inside)).notes == [("new web", 0, f"Pod {Key('nets', 'web')}")]
