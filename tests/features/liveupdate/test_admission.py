"""The webhook of swaps, asked as the API server asks it. `docs/validation.md` is written from the refusals."""

import asyncio
import copy
from random import Random
from typing import Any, NamedTuple

import pytest

from lanloom.api.admission import AdmissionRequest, GroupVersionResource, UserInfo, Verdict
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.admission import LiveUpdateAdmission
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.patches import merge
from tests.features.liveupdate.objects import MIGRATABLE
from tests.features.liveupdate.swap.scene import FROM, MACHINE, NIC, NODE, PLACE, TO, SwapCluster, spec_body
from tests.harness.admission import request
from tests.harness.cluster import play
from tests.harness.refusals import ROOT, check_group, check_page, unshown

Raw = dict[str, Any]
MANAGER, AGENT, USER = "a manager", "system:lanloom:node:", "jane"
SPEC: Raw = {"machine": MACHINE, "uid": "u1", "network": NIC, "from": FROM, "to": TO}


class Case(NamedTuple):
    """What is asked for, and the whole message.

    `new` is merged into a swap that is right, or into the one that is there if `old` is not None; None deletes that.
    `isolated` is a manager with namespace isolation. With `machine`, a VirtualMachine gets that NAD instead.
    """

    message: str
    new: Raw | None = {}
    old: Raw | None = None
    user: str = USER
    status: bool = False
    there: Raw | None = None
    isolated: bool = False
    machine: str = ""


def swap(name: str, **parts: Any) -> Raw:
    """A swap that is right, unless given otherwise."""
    body = {
        "metadata": {"name": name, "namespace": PLACE},
        "spec": SPEC,
        "status": {"phase": "Moving", "node": NODE},
    }
    return merge(body, parts)  # type: ignore[no-any-return]


def answer(case: Case) -> str:
    """The message that the webhook really gives; empty if it allows the request."""
    return verdict(case).message


def verdict(case: Case, *, running: bool = False, refuse: bool = False) -> Verdict:
    """What the webhook really says, of a machine that is `running` if need be."""
    told: list[Verdict] = []

    async def tell(on: SwapCluster) -> None:
        if running:
            await on.furnish()
            await on.instance_is(conditions=[MIGRATABLE])
        informers = Informers(on.client, Random(1))

        async def is_manager(user: UserInfo) -> bool:
            return user.username == MANAGER

        admission = LiveUpdateAdmission(
            on.client,
            informers.get(NETWORK_SWAPS, optional=True),
            is_manager,
            lambda _pod: "",
            InFlight(),
            NamespaceIsolation(enabled=case.isolated),
            refuse_edits=refuse,
        )
        if case.there is not None:
            await on.keep(NETWORK_SWAPS, swap("first", **case.there))
        tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
        await all_synced(informers.all())
        asked = admission.refer if case.machine else admission.validate
        told.append(await asked(request_of(case)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(tell, SwapCluster)
    assert told[0].allowed == (not told[0].message)
    return told[0]


def machine(spec: Raw, place: str) -> Raw:
    """A VirtualMachine with that spec of its template."""
    return {"metadata": {"name": MACHINE, "namespace": place}, "spec": {"template": {"spec": spec}}}


def request_of(case: Case) -> AdmissionRequest:
    """What the API server asks."""
    if case.machine:
        before, after = machine(spec_body(FROM), PLACE), machine(spec_body(case.machine), PLACE)
        return request(VIRTUAL_MACHINES, after, before, user=case.user)
    old = swap("move", **case.old) if case.old is not None else None
    new = merge(copy.deepcopy(old or swap("move", status=None)), case.new) if case.new is not None else None
    return AdmissionRequest(
        uid="r1",
        resource=GroupVersionResource(NETWORK_SWAPS.group, NETWORK_SWAPS.version, NETWORK_SWAPS.plural),
        namespace=PLACE,
        operation="DELETE" if new is None else "UPDATE" if old is not None else "CREATE",
        user_info=UserInfo(username=case.user),
        object=new,
        old_object=old,
        sub_resource="status" if case.status else "",
    )


SWAP_CASES = {
    "the machine": Case(
        'NetworkSwap default/move: spec.machine is "DB"; it must be the name of a VirtualMachineInstance',
        {"spec": {"machine": "DB"}},
    ),
    "the machine's uid": Case(
        "NetworkSwap default/move: spec.uid is empty; it must be the uid of the VirtualMachineInstance db",
        {"spec": {"uid": ""}},
    ),
    "the network": Case(
        'NetworkSwap default/move: spec.network is "a/b"; it must be the name of a network in the machine\'s '
        "spec.networks",
        {"spec": {"network": "a/b"}},
    ),
    "both NADs": Case(
        'NetworkSwap default/move: spec.to is "vlan20"; it must be namespace/name of a NAD',
        {"spec": {"to": "vlan20"}},
    ),
    "another network": Case(
        'NetworkSwap default/move: spec.to is "default/vlan10", and so is spec.from; name another network',
        {"spec": {"to": FROM}},
    ),
    "until the restart, with the machine": Case(
        "NetworkSwap default/move: spec.untilRestart is true, so spec.record must be true: at its restart, the machine "
        "gets what the VirtualMachine names",
        {"spec": {"untilRestart": True, "record": False}},
    ),
    "no other network until the restart": Case(
        "NetworkSwap default/move: NetworkSwap default/first keeps the NIC lan0 of db on default/vlan20 until the "
        "machine is restarted; restart it, or delete that NetworkSwap, which takes the NIC back to default/vlan10",
        there={"status": {"phase": "UntilRestart"}},
    ),
    "one move of a NIC at a time": Case(
        "NetworkSwap default/move: NetworkSwap default/first moves the NIC lan0 of db already (to default/vlan20); "
        "wait until it has ended",
        there={},
    ),
    "with namespace isolation, no NAD of another namespace": Case(
        "NetworkSwap default/move: spec.to: secret/hidden is in another namespace; with namespace isolation, a machine "
        "in namespace default uses NetworkAttachmentDefinitions of default only; name one of these",
        {"spec": {"to": "secret/hidden"}},
        isolated=True,
    ),
    "no changes": Case(
        "NetworkSwap default/move: spec can't be changed; delete the NetworkSwap once it has ended, and create another",
        {"spec": {"to": FROM}},
        old={},
    ),
    "no deletion half-way": Case(
        "NetworkSwap default/move is Moving; delete it when it has ended, at most some minutes from now",
        None,
        old={},
    ),
    "the status is Lanloom's": Case(
        "NetworkSwap default/move: status is written by Lanloom only",
        {"status": {"phase": "Succeeded"}},
        old={},
        status=True,
    ),
    "an agent's own node": Case(
        'NetworkSwap default/move: the NIC is on node "node1"; the agent of node2 reports its own only',
        {"status": {"port": {"node": "node2"}}},
        old={},
        status=True,
        user=f"{AGENT}node2",
    ),
    "an agent's own field": Case(
        "NetworkSwap default/move: an agent is allowed to write status.port only",
        {"status": {"phase": "Succeeded"}},
        old={},
        status=True,
        user=f"{AGENT}node1",
    ),
    "an agent's own name": Case(
        "NetworkSwap default/move: status.port.node must be node1, the agent's own node",
        {"status": {"port": {"node": "node2"}}},
        old={},
        status=True,
        user=f"{AGENT}node1",
    ),
}

ALLOWED = {
    "a swap": Case(""),
    "a swap after another one": Case("", there={"status": {"phase": "Succeeded"}}),
    "a swap of another NIC": Case("", {"spec": {"network": "lan1"}}, there={}),
    "an agent's report": Case(
        "",
        {"status": {"port": {"node": NODE, "nad": TO}}},
        old={},
        status=True,
        user=f"{AGENT}{NODE}",
    ),
    "a manager's phase": Case("", {"status": {"phase": "Recording"}}, old={}, status=True, user=MANAGER),
    "a NAD of another namespace": Case("", {"spec": {"to": "secret/hidden"}}),
    "the way from a NAD of another namespace": Case("", {"spec": {"from": "secret/hidden"}}, isolated=True),
    "labels": Case("", {"metadata": {"labels": {"a": "b"}}}, old={}),
    "the deletion of one that ended": Case("", None, old={"status": {"phase": "Failed"}}),
    "the deletion of one that lasts until the restart": Case(
        "", None, old={"status": {"phase": "UntilRestart"}}
    ),
    "a manager's deletion": Case("", None, old={}, user=MANAGER),
}


@pytest.mark.parametrize("case", SWAP_CASES.values(), ids=list(SWAP_CASES))
def test_swaps_that_are_refused(case: Case) -> None:
    """What can't be, or is not the writer's to write, is refused with the object and the field."""
    assert answer(case) == case.message


@pytest.mark.parametrize("case", ALLOWED.values(), ids=list(ALLOWED))
def test_swaps_that_are_allowed(case: Case) -> None:
    """What can be done passes; whether it can be done now is reported in the status."""
    assert answer(case) == ""


MACHINE_CASES = {
    "with namespace isolation, no NAD of another namespace is added": Case(
        "VirtualMachine default/db: spec.template.spec.networks[1].multus.networkName: secret/hidden is in another "
        "namespace; with namespace isolation, a machine in namespace default uses NetworkAttachmentDefinitions of "
        "default only; name one of these",
        isolated=True,
        machine="secret/hidden",
    ),
}


@pytest.mark.parametrize("case", MACHINE_CASES.values(), ids=list(MACHINE_CASES))
def test_machines_that_are_refused(case: Case) -> None:
    """An edit that Multus would not let start is refused with the object and the field."""
    assert answer(case) == case.message


GROUPS = (
    ("Moves of NICs in place", test_swaps_that_are_refused, SWAP_CASES),
    ("Networks of virtual machines", test_machines_that_are_refused, MACHINE_CASES),
)


def test_the_table_is_what_the_webhook_says() -> None:
    """The page has every rule with its message; LANLOOM_GOLDEN=rewrite writes it again."""
    check_page(GROUPS, "tests/features/liveupdate/test_admission.py")


def test_each_message_has_a_test() -> None:
    """The messages of the page are really given."""
    check_group(test_swaps_that_are_refused, SWAP_CASES, answer)
    check_group(test_machines_that_are_refused, MACHINE_CASES, answer)


def test_each_refusal_is_on_the_page() -> None:
    """There is no way to be refused that none of the page's cases takes."""
    assert unshown([ROOT / "src/lanloom/features/liveupdate/rules/admit.py"], GROUPS, answer) == []


@pytest.mark.parametrize(
    ("nad", "user", "running", "warned"),
    [
        ("missing", USER, True, True),
        ("missing", USER, False, False),
        ("missing", MANAGER, True, False),
        (TO, USER, True, False),
        (FROM, USER, True, False),
    ],
)
def test_warnings_of_an_edit(nad: str, user: str, running: bool, warned: bool) -> None:
    """The owner of a running machine is warned at the edit; a machine that does not run, or a manager, is not."""
    found = verdict(Case("", machine=nad, user=user), running=running)
    assert found.allowed
    assert any("default/missing does not exist" in text for text in found.warnings) == warned
    assert warned or not found.warnings


@pytest.mark.parametrize(("nad", "user"), [("missing", USER), (TO, USER), ("missing", MANAGER)])
def test_refusals_of_an_edit(nad: str, user: str) -> None:
    """By option, what an owner would be warned of is refused, with the option; what Lanloom edits itself is not."""
    found = verdict(Case("", machine=nad, user=user), running=True, refuse=True)
    assert found.allowed == (nad == TO or user == MANAGER)
    assert found.allowed or "default/missing does not exist; create it" in found.message
    assert found.allowed or "--live-update-edits=refuse" in found.message
