"""Which networks are woken by what: those that a change concerns, and none for the others' sake."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lanloom.api.core import NODES, PODS
from lanloom.api.dummy import ADMITTED, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import rfc3339
from lanloom.api.multus import NADS
from tests.features.dummy.manager.scene import (
    PLACE,
    Scene,
    in_a_scene,
    play,
)

COUNT = 6


async def _networks(each: Scene) -> None:
    """Networks net-0 to net-5, of which net-0 and net-1 are used and being deleted."""
    for number in range(COUNT):
        await each.add(f"net-{number}", bridgeName=f"b{number}-br", nadName=f"nad-{number}")
    await each.rest()
    for number in range(2):
        await each.add_machine(f"keeper-{number}", f"{PLACE}/nad-{number}")
        await each.delete(f"net-{number}")
    await each.rest()
    each.reconciled.clear()


@in_a_scene("n1")
async def test_a_machine_wakes_only_the_deletion_that_it_concerns(each: Scene) -> None:
    """A user who comes or goes wakes the network whose deletion waits for users of that NAD, and no other."""
    await _networks(each)
    await each.add_machine("vm", f"{PLACE}/nad-1")
    await each.rest()
    assert set(each.reconciled) == {"net-1"}
    assert len(each.reconciled) == 2  # the machine, and the list of users that was written for it
    each.reconciled.clear()
    await each.remove_machine("vm")
    await each.rest()
    assert set(each.reconciled) == {"net-1"}


@in_a_scene("n1")
async def test_users_of_networks_that_stay_wake_nobody(each: Scene) -> None:
    """A user of a network that is not deleted changes nothing for it; nor does one on no network at all."""
    await _networks(each)
    await each.add_machine("vm", f"{PLACE}/nad-3")
    await each.add_machine("other", "elsewhere/nad-1")
    await each.add_pod("pod", f"{PLACE}/nad-4")
    await each.add_pod("bare", "")
    await each.remove_machine("vm")
    await each.rest()
    assert each.reconciled == []


@in_a_scene("n1")
async def test_what_changes_of_a_user_but_not_his_networks_wakes_nobody(each: Scene) -> None:
    """A machine that reports, or a pod that gets another annotation, still uses what it used."""
    await _networks(each)
    for number in range(5):
        patch = {"metadata": {"annotations": {"example.org/beat": str(number)}}}
        await each.client.patch(VIRTUAL_MACHINES, "keeper-0", patch, PLACE)
    await each.rest()
    assert each.reconciled == []


@in_a_scene("n1")
async def test_a_note_of_a_request_wakes_only_who_waits_for_it(each: Scene) -> None:
    """Webhooks write on the NAD of every network that is used; that is news only for one that is being deleted."""
    await _networks(each)
    for number in (1, 3):
        note = {"metadata": {"annotations": {ADMITTED: "[]"}}}
        await each.client.patch(NADS, f"nad-{number}", note, PLACE)
    await each.rest()
    assert set(each.reconciled) == {"net-1"}


@pytest.mark.slow
@in_a_scene("n1")
async def test_heartbeats_wake_nobody(each: Scene) -> None:
    """Only readiness, addresses, birth and death of a node matter."""
    await _networks(each)
    for second in range(5):
        condition = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": rfc3339(each.now() + second),
            "lastTransitionTime": rfc3339(each.now() - 3600),
        }
        await each.client.patch(NODES, "n1", {"status": {"conditions": [condition]}}, subresource="status")
    await each.rest()
    first = len(each.reconciled)
    assert first <= COUNT  # the first of them moved the time of the last change
    await each.rest(3600)
    assert len(each.reconciled) == first


@pytest.mark.slow
@in_a_scene("n1")
async def test_nobody_looks_again_while_nothing_happens(each: Scene) -> None:
    """There is no polling: a blocked deletion costs nothing, however long it lasts."""
    await _networks(each)
    await each.rest(24 * 3600)
    assert each.reconciled == []


@in_a_scene("n1")
async def test_a_drifted_network_is_woken_by_its_last_user(each: Scene) -> None:
    """A NAD that waits for its users to go is put right at once when they have."""
    await each.add()
    await each.rest()
    await each.add_machine()
    await each.client.patch(NADS, "isolated", {"spec": {"config": "{}"}}, PLACE)
    await each.rest()
    assert (await each.get()).status.phase == "ErrorEnsuringNAD"
    await each.remove_machine()
    await each.rest(1)
    assert (await each.get()).status.phase == "Ready"


@in_a_scene("n1")
async def test_a_network_that_gave_way_goes_on_when_the_older_is_gone(each: Scene) -> None:
    """A network that shares a NAD or a bridge with another is woken by its end, and works then."""
    await each.add()
    await each.rest(2)
    await each.add("same-nad", bridgeName="other-br")
    await each.add("same-bridge", nadName="other")
    await each.rest()
    for name in ("same-nad", "same-bridge"):
        assert (await each.get(name)).status.phase == "InvalidSpec"
    await each.delete()
    await each.rest()
    for name in ("same-nad", "same-bridge"):
        assert (await each.get(name)).status.phase == "Ready"


@in_a_scene("n1")
async def test_a_place_that_becomes_free_is_taken(each: Scene) -> None:
    """When a user's Network goes that stood where the network's own would, that is made."""
    await each.add(subnet="10.52.0.0/16")
    await each.rest()
    (made,) = (await each.client.list(NETWORKS)).items
    name = made.metadata.name
    await each.client.patch(NETWORKS, name, {"metadata": {"labels": {UID_LABEL: None}}})
    await each.rest()
    assert (await each.get()).status.phase == "ErrorEnsuringNAD"
    await each.client.delete(NETWORKS, name)
    await each.rest()
    assert (await each.get()).status.phase == "Ready"


async def _machine_goes(each: Scene) -> None:
    await each.remove_machine()


async def _pod_ends(each: Scene) -> None:
    patch = {"status": {"phase": "Succeeded"}}
    await each.client.patch(PODS, "pod", patch, PLACE, subresource="status")


async def _machine_leaves_the_network(each: Scene) -> None:
    nothing: dict[str, Any] = {"networks": []}
    patch = {"spec": {"template": {"spec": nothing}}}
    await each.client.patch(VIRTUAL_MACHINES, "vm", patch, PLACE)


@pytest.mark.parametrize(
    ("come", "go"),
    [
        (Scene.add_machine, _machine_goes),
        (Scene.add_pod, _pod_ends),
        (Scene.add_machine, _machine_leaves_the_network),
    ],
    ids=["deleted", "ended", "left"],
)
def test_a_deletion_goes_on_at_once(
    come: Callable[[Scene], Awaitable[None]], go: Callable[[Scene], Awaitable[None]]
) -> None:
    """Within a tenth of a second after its last user the network says so or is gone, and within seconds it is gone."""

    async def story(each: Scene) -> None:
        each.lead()
        await each.add()
        await each.rest()
        await come(each)
        await each.delete()
        await each.rest(3600)
        assert (await each.get()).status.phase == "DeletionBlocked"
        await go(each)
        await each.rest(0.1)
        assert await each.is_gone() or (await each.get()).status.phase == "Terminating"
        await each.rest(5)
        assert await each.is_gone()

    play(story, "n1", "n2")


@in_a_scene("n1", "n2")
async def test_the_last_node_is_heard_of_at_once(each: Scene) -> None:
    """A network is Ready as soon as its last node has the bridge."""
    await each.add()
    await each.rest(0.3)
    assert (await each.get()).status.phase == "Ready"


@pytest.mark.slow
@in_a_scene()
async def test_many_nodes_cost_few_looks(each: Scene) -> None:
    """The acknowledgements of fifty nodes that come at once are looked at together."""
    for number in range(50):
        await each.fleet.add(f"n{number}")
    await each.add()
    await each.rest()
    status = (await each.get()).status
    assert (status.phase, status.message.partition(";")[0]) == ("Ready", "50 of 50 nodes have the bridge")
    assert len(each.reconciled) < 12


@in_a_scene()
async def test_many_who_come_and_go_cost_a_look_a_second_while_others_stay(each: Scene) -> None:
    """Users of a network that goes are counted once a second, and the last one's end is heard of at once."""
    await each.add()
    await each.rest()
    for number in range(50):
        await each.add_pod(f"p{number}")
    await each.delete()
    await each.rest()
    each.reconciled.clear()
    for number in range(49):
        await each.client.delete(PODS, f"p{number}", PLACE, grace=0)
        await each.rest(0.05)
    assert len(each.reconciled) <= 4
    assert (await each.get()).status.phase == "DeletionBlocked"
    await each.client.delete(PODS, "p49", PLACE, grace=0)
    await each.rest(0.1)
    assert await each.is_gone() or (await each.get()).status.phase == "Terminating"


@in_a_scene()
async def test_nodes_that_acknowledge_while_the_status_is_written_wait_for_the_next_one(each: Scene) -> None:
    """A status that counts nodes is written once a second, however many acknowledge meanwhile, and at each step."""
    writes: list[float] = []
    for number in range(100):
        each.fleet.silence(f"n{number}")
        await each.fleet.add(f"n{number}")
    await each.add()
    await each.rest()
    each.engine.ledger.listen(
        lambda change: (
            writes.append(each.now()) if change.resource.plural == DUMMY_CLUSTER_NETWORKS.plural else None
        )
    )
    for number in range(100):
        each.fleet.hear(f"n{number}")
    await each.rest()
    assert (await each.get()).status.phase == "Ready"
    assert len(writes) <= 3


@in_a_scene("n1", "n2")
async def test_a_node_that_stays_away_ends_its_time_by_itself(each: Scene) -> None:
    """Nothing happens when a node has been away for long enough; the deletion goes on at that moment all the same."""
    await each.add()
    await each.rest()
    each.fleet.silence("n2", "Link not found")
    await each.fleet.report("n2", ready=False)
    gone = each.now()
    await each.delete()
    await each.rest(gone + 299 - each.now())
    network = await each.client.get(DUMMY_CLUSTER_NETWORKS, "net")
    assert "waiting for n2 (Link not found)" in network.status.message
    await each.rest(2)
    assert await each.is_gone()
    assert "NodesSkipped" in await each.reasons()
