"""What goes wrong between the manager and the API server, and what others do meanwhile."""

import asyncio
from typing import Any

import msgspec
import pytest

from lanloom.api.clusterranges import SERVICES
from lanloom.api.core import CRDS, PODS
from lanloom.api.crds import manifest
from lanloom.api.dummy import ADMITTED, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.errors import ApiError, from_status
from lanloom.nads.guard import Reservation
from lanloom_embedded.engine.storage import Change
from tests.features.dummy.manager.judge import Judge
from tests.features.dummy.manager.scene import (
    IMAGE,
    PLACE,
    SPEC,
    Scene,
    in_a_scene,
    play,
)
from tests.features.dummy.manager.troubled import ready, troubled
from tests.harness.interceptor import Verb

UNKNOWN = from_status(404, {"message": "404 page not found"})
FORBIDDEN = from_status(403, {"message": "no"})
UNWELL = from_status(503, {"message": "etcd is unwell"})


@pytest.mark.parametrize("error", [FORBIDDEN, UNWELL], ids=["refused", "unwell"])
def test_users_that_cannot_be_listed_keep_the_network(error: ApiError) -> None:
    """Whatever keeps the manager from seeing all users keeps the network; the status says what, until it is mended."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        client = await ready(each)
        client.fail(error, "list", of=PODS)
        await each.delete()
        await each.rest(3600)
        status = (await each.get()).status
        assert status.phase == "DeletionBlocked"
        assert str(error) in status.message
        assert await each.nad() is not None
        client.calm()
        await each.rest(70)
        assert await each.is_gone()
        assert judge.wrong == []

    play(story, "n1")


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("patch", DUMMY_CLUSTER_NETWORKS), ("patch", NADS), ("delete", NADS), ("delete", CLUSTER_NETWORKS)],
    ids=lambda item: item if isinstance(item, str) else item.kind,
)
def test_a_server_that_starts(verb: Verb, resource: Resource[Any]) -> None:
    """What a server that starts does not serve yet is not taken for gone: the deletion goes on when it does."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        client = await ready(each)
        client.fail(UNKNOWN, verb, of=resource)
        await each.delete()
        await each.rest(30)
        assert not await each.is_gone()
        client.calm()
        await each.rest(70)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    play(story, "n1")


def test_a_user_who_comes_at_the_last_moment() -> None:
    """A machine that is stored right before the last look is found by it, though no watch has brought it."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        client = await ready(each)
        client.before(each.add_machine, "list", of=VIRTUAL_MACHINES)
        await each.delete()
        await each.rest()
        assert (await each.get()).status.users == ("VirtualMachine vms/vm",)
        await each.remove_machine()
        await each.rest()
        assert await each.is_gone()
        assert judge.wrong == []

    play(story, "n1")


def test_a_user_who_edits_meanwhile() -> None:
    """A network that is changed between look and write is looked at again; no change is lost."""

    async def story(each: Scene) -> None:
        client = await ready(each)

        async def edit() -> None:
            patch = {"metadata": {"labels": {"team": "blue"}}}
            await each.client.patch(DUMMY_CLUSTER_NETWORKS, "net", patch)

        client.before(edit, "patch", of=DUMMY_CLUSTER_NETWORKS)
        client.before(edit, "delete", of=NADS)
        await each.add_machine()
        await each.delete()
        await each.rest()
        assert (await each.get()).metadata.labels == {"team": "blue"}
        await each.remove_machine()
        await each.rest()
        assert await each.is_gone()

    play(story, "n1")


def test_a_status_speaks_of_what_was_judged() -> None:
    """A spec that changes between look and write is judged before anything is said of it."""

    async def story(each: Scene) -> None:
        client = await ready(each)
        stale: list[int] = []

        def notice(change: Change) -> None:
            network = change.resource.plural == DUMMY_CLUSTER_NETWORKS.plural
            if change.before is None or change.after is None or not network:
                return
            before, after = change.before.raw(), change.after.raw()
            written = before.get("status") != after.get("status")
            if written and after["status"]["observedGeneration"] < after["metadata"]["generation"]:
                stale.append(after["metadata"]["generation"])

        each.engine.ledger.listen(notice)
        change = {"spec": {"subnet": "10.52.0.0/16"}}
        client.before(
            lambda: each.client.patch(DUMMY_CLUSTER_NETWORKS, "net", change),
            "patch",
            of=DUMMY_CLUSTER_NETWORKS,
        )
        await each.client.patch(DUMMY_CLUSTER_NETWORKS, "net", {"spec": {"subnet": "10.51.0.0/16"}})
        await each.rest()
        network = await each.get()
        assert network.status.observed_generation == network.metadata.generation
        assert stale == []

    play(story, "n1")


@pytest.mark.parametrize("plural", [NADS.plural, DAEMON_SETS.plural, CLUSTER_NETWORKS.plural])
def test_what_is_gone_already_need_not_be_deleted(plural: str) -> None:
    """A user deletes each part right before the manager does; it goes on with the rest."""

    async def story(each: Scene) -> None:
        client = await ready(each)
        places: dict[str, tuple[Resource[Any], str, str]] = {
            NADS.plural: (NADS, "isolated", PLACE),
            DAEMON_SETS.plural: (DAEMON_SETS, (await each.daemon_sets())[0].metadata.name, "lanloom-bridges"),
            CLUSTER_NETWORKS.plural: (CLUSTER_NETWORKS, "dummy", ""),
        }
        resource, name, namespace = places[plural]
        client.before(lambda: each.client.delete(resource, name, namespace), "delete", of=resource)
        await each.delete()
        await each.rest()
        assert await each.is_gone()
        assert await each.left() == []

    play(story, "n1")


def test_another_nad_in_the_place_of_ours_is_not_deleted() -> None:
    """The NAD is deleted by its uid: one that took its place in the last moment stays."""

    async def story(each: Scene) -> None:
        client = await ready(each)

        async def replace() -> None:
            await each.client.delete(NADS, "isolated", PLACE)
            body = {"metadata": {"name": "isolated"}, "spec": {"config": "{}"}}
            await each.client.create(NADS, body, PLACE)

        client.before(replace, "delete", of=NADS)
        await each.delete()
        await each.rest()
        assert await each.is_gone()
        nad = await each.nad()
        assert nad is not None
        assert UID_LABEL not in nad.metadata.labels

    play(story, "n1")


def test_a_cluster_network_that_others_use_is_left_to_them() -> None:
    """A ClusterNetwork that may not be deleted any more loses our mark, and the network goes."""

    async def story(each: Scene) -> None:
        client = await ready(each)
        client.fail(FORBIDDEN, "delete", of=CLUSTER_NETWORKS)
        await each.delete()
        await each.rest()
        assert await each.is_gone()
        left = await each.client.get(CLUSTER_NETWORKS, "dummy")
        assert left.metadata.labels == {}

    play(story, "n1")


def test_a_refused_action_is_said_and_tried_again() -> None:
    """What the API server refuses is in the status in its words; the retries are few, and tell nothing new."""

    async def story(each: Scene) -> None:
        client = troubled(each)
        await each.whole.wait()
        client.fail(FORBIDDEN, "create", of=NADS)
        await each.add()
        await each.rest(3600)
        status = (await each.get()).status
        assert (status.phase, status.message) == (
            "ErrorEnsuringNAD",
            "the NetworkAttachmentDefinition vms/isolated can't be created: no",
        )
        assert len(each.reconciled) < 150
        assert (await each.reasons()) == {"ErrorEnsuringNAD"}
        client.calm()
        await each.rest(70)
        assert (await each.get()).status.phase == "Ready"

    play(story, "n1")


@in_a_scene("n1")
async def test_a_subnet_of_the_services(each: Scene) -> None:
    """A subnet in which services have addresses is not made, though no webhook was asked."""
    body = {"metadata": {"name": "kubernetes"}, "spec": {"clusterIP": "10.43.0.1", "ports": [{"port": 443}]}}
    await each.client.create(SERVICES, body, "default")
    await each.add(subnet="10.43.0.0/16")
    await each.rest()
    status = (await each.get()).status
    assert status.phase == "InvalidSpec"
    assert "service default/kubernetes" in status.message
    assert await each.left() == []


@in_a_scene("n1")
async def test_a_namespace_that_is_missing(each: Scene) -> None:
    """A NAD in a namespace that is not there is named as the reason, and made once it is there."""
    await each.add(nadNamespace="nowhere")
    await each.rest()
    status = (await each.get()).status
    assert status.phase == "ErrorEnsuringNAD"
    assert "namespace nowhere or the kind does not exist" in status.message


@in_a_scene("n1")
async def test_a_daemon_set_of_somebody_elses(each: Scene) -> None:
    """A DaemonSet without our label in the place of ours is in conflict, and left alone."""
    await each.add()
    await each.rest()
    (own,) = await each.daemon_sets()
    name, place = own.metadata.name, own.metadata.namespace
    await each.client.patch(DAEMON_SETS, name, {"metadata": {"labels": {UID_LABEL: None}}}, place)
    await each.rest()
    status = (await each.get()).status
    assert status.phase == "ErrorEnsuringDaemonSet"
    assert "was not created for this network" in status.message
    assert "Conflict" in await each.reasons()


def test_other_settings_reach_the_daemon_set() -> None:
    """Another image is rolled out, and another namespace moves the DaemonSet without losing a bridge."""

    async def story(each: Scene) -> None:
        each.lead()
        await each.add()
        await each.rest()
        await each.kill("manager")
        each.settings = Settings(image=IMAGE.replace("0" * 64, "1" * 64), namespace="default")
        each.lead()
        await each.rest()
        (moved,) = await each.daemon_sets()
        assert moved.metadata.namespace == "default"
        assert moved.spec.template["spec"]["containers"][0]["image"].endswith("1" * 64)
        assert (await each.get()).status.phase == "Ready"

    play(story, "n1")


def test_two_managers_at_once() -> None:
    """A leader that does not know of its fall does nothing that the other one would not do."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        each.lead(name="one")
        await each.whole.wait()
        each.lead(name="two")
        await each.add(**SPEC | {"subnet": "10.52.0.0/16"})
        await each.rest()
        assert (await each.get()).status.phase == "Ready"
        await each.add_machine()
        await each.delete()
        await each.rest()
        await each.remove_machine()
        await each.rest(30)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    play(story, "n1", "n2")


def test_no_kubevirt() -> None:
    """A cluster without KubeVirt has no machines that could use a network; its pods count."""

    async def story(each: Scene) -> None:
        for kind in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
            await each.client.delete(CRDS, kind.full_name)
        await asyncio.sleep(5)
        each.lead()
        await each.add()
        await each.rest()
        await each.add_pod()
        await each.delete()
        await each.rest()
        assert (await each.get()).status.users == ("Pod vms/pod",)
        await each.client.delete(PODS, "pod", PLACE, grace=0)
        await each.rest()
        assert await each.is_gone()

    play(story, "n1")


def test_kubevirt_that_comes_and_goes() -> None:
    """Machines of a kind that is new keep the network, and a kind that goes for good takes its machines along."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        for kind in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
            await each.client.delete(CRDS, kind.full_name)
        await asyncio.sleep(5)
        each.lead()
        await each.add()
        await each.rest()
        for kind in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
            await each.client.create(CRDS, manifest(kind))
        await each.rest(1)
        await each.add_machine()
        await each.delete()
        await each.rest(60)
        assert (await each.get()).status.users == ("VirtualMachine vms/vm",)
        for kind in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
            await each.client.delete(CRDS, kind.full_name)
        await each.rest(120)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    play(story, "n1")


def test_who_is_let_back_in_when_the_nad_is_about_to_go_keeps_it() -> None:
    """A note that is written between the last look and the deletion holds the NAD until its user has come and gone."""

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        client = await ready(each)
        note = Reservation("a", 0, each.now() + 75, "VirtualMachineInstance vms/vm")
        text = msgspec.json.encode([note]).decode()
        let_in = {"metadata": {"annotations": {ADMITTED: text}}}
        client.before(lambda: each.client.patch(NADS, "isolated", let_in, PLACE), "delete", of=NADS)
        await each.delete()
        await each.rest()
        dcn = await each.get()
        assert (dcn.status.phase, "VirtualMachineInstance vms/vm" in dcn.status.message) == (
            "DeletionBlocked",
            True,
        )
        await each.add_machine()
        await each.rest(100)
        assert (await each.get()).status.users == (f"VirtualMachine {PLACE}/vm",)
        assert await each.nad() is not None
        await each.remove_machine()
        await each.rest()
        assert await each.is_gone()
        assert judge.wrong == []

    play(story, "n1")


def test_a_webhook_that_refuses_is_quoted() -> None:
    """Where another's webhook refuses the NAD, whatever its code, status and Event say so in its words."""
    said = (
        'admission webhook "validator.harvester-system.harvester-network-webhook" denied the request: '
        "can't create nad because the suffix of the bridge name is not -br"
    )

    async def story(each: Scene) -> None:
        client = troubled(each)
        await each.whole.wait()
        client.fail(from_status(500, {"message": said, "reason": "InternalError"}), "create", of=NADS)
        await each.add()
        await each.rest(90)
        status = (await each.get()).status
        assert said in status.message
        ready = next(item for item in status.conditions if item.type == "Ready")
        assert (ready.status, said in ready.message) == ("False", True)
        client.calm()
        await each.rest(130)
        assert (await each.get()).status.phase == "Ready"

    play(story, "n1")
