"""What the agent of a node may do to NICs."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import NETWORKS, NICS, NODE, STICKY_FOR, Nic
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.names import NODE_USER_PREFIX
from lanloom.features.ipam.admission.owners import find_pod
from lanloom.kube.errors import NotFound
from tests.features.ipam.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.ipam.admission.requests import (
    ADMIN,
    AGENT,
    MANAGER,
    Present,
    Raw,
    network,
    nic,
    uid_of,
    verdict_of,
)
from tests.harness.admission import request
from tests.harness.virtual import run

POD_UID, INSTANCE_UID = uid_of(PODS, "web"), uid_of(VIRTUAL_MACHINE_INSTANCES, "vm")
MACHINE_UID = uid_of(VIRTUAL_MACHINES, "vm")


def reference(kind: str, name: str, uid: str) -> Raw:
    """An owner reference."""
    version = "v1" if kind == "Pod" else "kubevirt.io/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}


def owned(kind: str, name: str, uid: str, *ips: str, **more: Any) -> Raw:
    """A NIC as an agent makes it."""
    meta = {"ownerReferences": [reference(kind, name, uid)]}
    return nic(f"{name}-eth0", *ips, owner={"kind": kind, "name": name, "uid": uid}, meta=meta, **more)


def pod(name: str, node: str = "node1", instance: str = "", phase: str = "Running") -> Present:
    """A pod on a node; with an instance, the one in which that runs."""
    meta: Raw = {"name": name, "namespace": "default"}
    if instance:
        meta["labels"] = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": instance}
        meta["ownerReferences"] = [reference("VirtualMachineInstance", "vm", instance)]
    spec = {"containers": [{"name": "main", "image": "image"}], "nodeName": node}
    return PODS, {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def instance(machine: str = MACHINE_UID) -> Present:
    """The instance of the machine vm, or one of its own."""
    owners = [reference("VirtualMachine", "vm", machine)] if machine else []
    return VIRTUAL_MACHINE_INSTANCES, {
        "metadata": {"name": "vm", "namespace": "default", "ownerReferences": owners}
    }


OF_POD = owned("Pod", "web", POD_UID, "pool")
OF_MACHINE = owned("VirtualMachine", "vm", MACHINE_UID, "pool")


def named(kind: str, name: str, **meta: Any) -> Raw:
    """A NIC of a name as an agent makes it."""
    marks = {"annotations": {STICKY_FOR: "1h"}, **meta}
    return nic(f"{name}-eth0", "pool", owner={"kind": kind, "name": name}, meta=marks)


OF_NAME = named("Pod", "web")
MAC = "aa:00:00:00:00:01"
NET: Present = (NETWORKS, network())
HERE: tuple[Present, ...] = (
    NET,
    pod("web"),
    (VIRTUAL_MACHINES, {"metadata": {"name": "vm", "namespace": "default"}}),
    instance(),
    pod("source", instance=INSTANCE_UID),
    pod("target", "node2", instance=INSTANCE_UID),
)


def case(
    message: str,
    new: Raw | None,
    old: Raw | None = None,
    *,
    user: str = AGENT,
    present: tuple[Present, ...] = HERE,
) -> Case:
    """What an agent asks for and does not get."""
    return Case(request(NICS, new, old, user=user), present, message)


ELSEWHERE = f"{NODE_USER_PREFIX}node3"
AGENT_CASES: Cases = {
    "an agent makes NICs of its node's pods": case(
        (
            'can\'t create Nic default/web-eth0 because Pod "web" does not run on node "node3", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        OF_POD,
        user=ELSEWHERE,
    ),
    "an agent makes NICs of its node's machines": case(
        (
            'can\'t create Nic default/vm-eth0 because VirtualMachine "vm" does not run on node '
            '"node3", whose agent is allowed to write only NICs of workloads on that node'
        ),
        OF_MACHINE,
        user=ELSEWHERE,
    ),
    "an agent makes NICs of pods only that are there": case(
        (
            'can\'t create Nic default/other-eth0 because Pod "other" does not run on node "node1", '
            "whose agent is allowed to write only NICs of workloads on that node"
        ),
        owned("Pod", "other", "gone", "pool"),
    ),
    "an agent makes no NICs of pods that have ended": case(
        (
            'can\'t create Nic default/web-eth0 because Pod "web" does not run on node "node1", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        OF_POD,
        present=(NET, pod("web", phase="Succeeded")),
    ),
    "an agent makes no NICs of others": case(
        (
            'can\'t create Nic default/web-eth0 because Instance "web" does not run on node "node1", '
            "whose agent is allowed to write only NICs of workloads on that node"
        ),
        owned("Instance", "web", "1", "pool"),
    ),
    "an agent names the owner's uid": case(
        (
            "can't create Nic default/web-0 because an agent must name its owner with the uid, in "
            "spec.owner and as an owner reference, or by its name alone with annotation ipam.lanloom.io/sticky-for"
        ),
        nic(owner={"kind": "Pod", "name": "web"}),
    ),
    "an agent makes NICs that go with their owner": case(
        (
            "can't create Nic default/web-eth0 because an agent must name its owner with the uid, in "
            "spec.owner and as an owner reference, or by its name alone with annotation ipam.lanloom.io/sticky-for"
        ),
        nic("web-eth0", owner={"kind": "Pod", "name": "web", "uid": POD_UID}),
    ),
    "an agent makes NICs of the names of its node's pods": case(
        (
            'can\'t create Nic default/web-eth0 because Pod "web" does not run on node "node3", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        OF_NAME,
        user=ELSEWHERE,
    ),
    "an agent makes no NICs of names of others": case(
        (
            "can't create Nic default/web-eth0 because an agent must name its owner with the uid, in "
            "spec.owner and as an owner reference, or by its name alone with annotation ipam.lanloom.io/sticky-for"
        ),
        named("Instance", "web"),
    ),
    "an agent deletes no NICs that are kept for a name": case(
        (
            'can\'t delete Nic default/web-eth0 because Pod "web" does not run on node "node1", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        None,
        OF_NAME,
        present=(NET,),
    ),
    "an agent insists on nothing": case(
        (
            "can't create Nic default/web-eth0 because an agent is not allowed to request reserved addresses; "
            "omit spec.force"
        ),
        owned("Pod", "web", POD_UID, "192.0.2.1", force=True),
    ),
    "an agent changes only what is asked for": case(
        (
            "can't update Nic default/web-eth0 because an agent is allowed to change only the "
            "requested network and addresses"
        ),
        OF_POD | {"spec": OF_POD["spec"] | {"mac": "aa:00:00:00:00:01"}},
        OF_POD,
    ),
    "an agent lets go of nothing": case(
        (
            "can't update Nic default/web-eth0 because an agent is allowed to change only the "
            "requested network and addresses"
        ),
        {**OF_POD, "metadata": {**OF_POD["metadata"], "finalizers": []}},
        OF_POD,
    ),
    "an agent changes NICs of its node's pods": case(
        (
            'can\'t update Nic default/web-eth0 because Pod "web" does not run on node "node3", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        owned("Pod", "web", POD_UID, "front"),
        OF_POD,
        user=ELSEWHERE,
    ),
    "an agent deletes NICs of its node's pods": case(
        (
            'can\'t delete Nic default/web-eth0 because Pod "web" does not run on node "node3", whose '
            "agent is allowed to write only NICs of workloads on that node"
        ),
        None,
        OF_POD,
        user=ELSEWHERE,
    ),
    "an agent deletes no NICs of machines elsewhere": case(
        (
            'can\'t delete Nic default/vm-eth0 because VirtualMachine "vm" does not run on node '
            '"node3", whose agent is allowed to write only NICs of workloads on that node'
        ),
        None,
        OF_MACHINE,
        user=ELSEWHERE,
    ),
    "an agent of no known node has no pods": case(
        (
            'can\'t create Nic default/web-eth0 because Pod "web" does not run on node "", whose agent '
            "is allowed to write only NICs of workloads on that node"
        ),
        OF_POD,
        user=NODE_USER_PREFIX,
        present=(NET, pod("web", "")),
    ),
}


LEAVING: Present = (
    PODS,
    {
        **pod("web")[1],
        "metadata": {
            "name": "web",
            "namespace": "default",
            "finalizers": ["example.org/slow"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
    },
)
OWNER_CASES: Cases = {
    "a pod's uid is its own": Case(
        request(NICS, owned("Pod", "web", "1", "pool")),
        HERE,
        (
            "Nic default/web-eth0: spec.owner.uid: the existing Pod web has another uid; "
            "use that uid, or omit it"
        ),
    ),
    "a machine's uid is its own or its instance's": Case(
        request(NICS, owned("VirtualMachine", "vm", "1", "pool")),
        HERE,
        (
            "Nic default/vm-eth0: spec.owner.uid: the existing VirtualMachine vm has another uid; "
            "use that uid, or omit it"
        ),
    ),
    "an instance's uid is its own": Case(
        request(NICS, owned("VirtualMachine", "vm", "1", "pool")),
        (NET, instance("")),
        (
            "Nic default/vm-eth0: spec.owner.uid: the existing VirtualMachine vm has another uid; "
            "use that uid, or omit it"
        ),
    ),
    "a pod is there before its NIC": Case(
        request(NICS, owned("Pod", "other", "1", "pool")),
        HERE,
        (
            "Nic default/other-eth0: spec.owner: Pod default/other does not exist; create it before its NIC, "
            "or use the kind Instance for an owner outside of this cluster"
        ),
    ),
    "a machine is there before its NIC": Case(
        request(NICS, owned("VirtualMachine", "other", "", "pool")),
        HERE,
        (
            "Nic default/other-eth0: spec.owner: VirtualMachine default/other does not exist; create it before "
            "its NIC, or use the kind Instance for an owner outside of this cluster"
        ),
    ),
    "an owner in deletion gets no NIC": Case(
        request(NICS, owned("Pod", "web", POD_UID, "pool")),
        (NET, LEAVING),
        ("Nic default/web-eth0: spec.owner: Pod default/web is being deleted; wait until another one exists"),
    ),
    "NICs of nodes are the manager's": Case(
        request(NICS, owned(NODE, "node1", "", "pool4")),
        HERE,
        (
            "Nic default/node1-eth0: spec.owner.kind: NICs of nodes are written by Lanloom's manager only; set "
            "the source of node addresses in annotation network.harvesterhci.io/l3-connectivity of the NAD"
        ),
    ),
    "a uid that becomes known is the owner's": Case(
        request(NICS, owned("Pod", "web", "1", "pool"), owned("Pod", "web", "", "pool")),
        HERE,
        (
            "Nic default/web-eth0: spec.owner.uid: the existing Pod web has another uid; "
            "use that uid, or omit it"
        ),
    ),
}


@each(OWNER_CASES)
def test_owners_that_can_not_be(case: Case) -> None:
    """No user creates a NIC for what is not there, for its namesake, or for a node."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    "body",
    [
        owned("Pod", "web", POD_UID, "pool"),
        owned("Pod", "web", "", "pool"),
        owned("VirtualMachine", "vm", MACHINE_UID, "pool"),
        owned("VirtualMachine", "vm", INSTANCE_UID, "pool"),
        owned("VirtualMachine", "vm", "", "pool"),
        owned("Instance", "elsewhere", "", "pool"),
    ],
    ids=["pod", "no uid", "machine", "instance", "machine without uid", "instance of nothing but NICs"],
)
def test_owners_that_are_right(body: Raw) -> None:
    """An owner that is there may be named by its uid or without it; an instance is nothing but its NICs."""
    assert verdict_of(request(NICS, body), *HERE).message == ""


@each(AGENT_CASES)
def test_what_agents_may_not(case: Case) -> None:
    """A compromised agent can't harm what runs on other nodes."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    ("new", "old", "user"),
    [
        (OF_POD, None, AGENT),
        (OF_MACHINE, None, AGENT),
        (OF_MACHINE, None, f"{NODE_USER_PREFIX}node2"),
        (owned("Pod", "web", POD_UID, "front"), OF_POD, AGENT),
        (None, OF_POD, AGENT),
        (None, OF_MACHINE, f"{NODE_USER_PREFIX}node2"),
        (None, owned("Pod", "web", "an-earlier-one"), ELSEWHERE),
        (None, owned("Pod", "gone", "gone"), ELSEWHERE),
        (OF_NAME, None, AGENT),
        (named("VirtualMachine", "vm"), None, f"{NODE_USER_PREFIX}node2"),
        (named("Pod", "web", annotations={STICKY_FOR: "2h"}), OF_NAME, AGENT),
    ],
    ids=[
        "make",
        "machine's",
        "target's",
        "change",
        "delete",
        "machine's too",
        "namesake's",
        "nobody's",
        "name's",
        "machine's name's",
        "period",
    ],
)
def test_what_agents_may(new: Raw | None, old: Raw | None, user: str) -> None:
    """An agent looks after the NICs of what runs on its node, and clears up those of pods that are gone."""
    assert verdict_of(request(NICS, new, old, user=user), *HERE).message == ""


def test_the_nic_of_a_pod_that_has_ended() -> None:
    """An agent may delete the NIC of a pod that will never run again, as it does when runtimes collect garbage."""
    assert (
        verdict_of(request(NICS, None, OF_POD, user=AGENT), NET, pod("web", phase="Succeeded")).message == ""
    )


def test_an_instance_without_a_machine_has_nics() -> None:
    """Where an instance has no machine, its own uid is the owner's."""
    meta = {"ownerReferences": [reference("VirtualMachineInstance", "vm", INSTANCE_UID)]}
    body = nic("vm-eth0", owner={"kind": "VirtualMachine", "name": "vm", "uid": INSTANCE_UID}, meta=meta)
    present = (NET, instance(""), pod("source", instance=INSTANCE_UID))
    assert verdict_of(request(NICS, body, user=AGENT), *present).message == ""


@pytest.mark.parametrize("user", [ADMIN, MANAGER])
def test_an_owner_may_go(user: str) -> None:
    """The NIC of an owner that is gone can be changed and deleted, whatever the owner is."""
    for kind in ("Pod", "VirtualMachine", "Instance"):
        body = owned(kind, "gone", "1", "pool")
        assert verdict_of(
            request(NICS, owned(kind, "gone", "1", "pool", mac=MAC), body, user=user), NET
        ).allowed
        assert verdict_of(request(NICS, None, body, user=user), NET).allowed


def test_nics_of_nodes() -> None:
    """The manager alone makes and changes a node's NIC; others may delete it, and change what is not of its spec."""
    body, other = owned(NODE, "node1", "", "pool4"), owned(NODE, "node1", "", "192.0.2.50")
    labelled = {**body, "metadata": {**body["metadata"], "labels": {"some": "label"}}}
    for new, old in ((body, None), (other, body)):
        assert verdict_of(request(NICS, new, old, user=MANAGER), NET).allowed
        assert not verdict_of(request(NICS, new, old), NET).allowed
    assert verdict_of(request(NICS, labelled, body), NET).allowed
    assert verdict_of(request(NICS, None, body), NET).allowed


def test_others_are_no_agents() -> None:
    """An administrator may ask for reserved addresses."""
    assert verdict_of(request(NICS, nic("web-0", "192.0.2.1", force=True)), NET).allowed


NAMESAKE = pod("web", node="node2")


@pytest.mark.parametrize(
    ("real", "seen", "allowed"),
    [
        (pod("web"), (), True),
        (pod("web"), (NAMESAKE,), True),
        (pod("web"), (pod("web", phase="Succeeded"),), True),
        (NAMESAKE, (pod("web"),), False),
        (pod("web", phase="Succeeded"), (), False),
    ],
    ids=["not seen", "a namesake", "a namesake that ended", "a namesake here", "ended"],
)
def test_a_pod_is_known_by_its_uid(real: Present, seen: tuple[Present, ...], allowed: bool) -> None:
    """What the watch has brought of another pod of that name decides nothing."""
    others = [*seen, NET]  # made in another order than the real ones, so with other uids
    assert verdict_of(request(NICS, OF_POD, user=AGENT), NET, real, seen=others).allowed is allowed


@pytest.mark.parametrize(("state", "reads"), [({}, 0), ({"phase": "Failed"}, 1), ({"node": ""}, 1)])
def test_a_pod_that_was_seen_is_not_read_again(state: dict[str, Any], reads: int) -> None:
    """The owner's own pod, alive and on a node, as the watch has brought it is enough; any other is read."""
    _, body = pod("web", **state)
    known = msgspec.convert(body, Pod)
    known = replace(known, metadata=replace(known.metadata, uid="1"))
    client = Reads()
    item = msgspec.convert(owned("Pod", "web", "1"), Nic)
    found = run(find_pod(client, lambda _: known, item))  # type: ignore[arg-type]
    assert (client.reads, found is known) == (reads, not reads)


class Reads:
    """An API server without pods."""

    reads = 0

    async def get(self, _resource: object, name: str, _namespace: str) -> object:
        """Count the read."""
        self.reads += 1
        raise NotFound(404, "NotFound", f"{name} not found", {"details": {"name": name}})
