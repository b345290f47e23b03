"""The controller of swaps with an agent that moves ports: every swap ends, and all places agree in the end."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINES
from lanloom.api.liveupdate import COMPLETE, FLAPPED, MOVED, NETWORK_SWAPS, PREFLIGHT
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import Conflict, Forbidden, Invalid, NotFound
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.swap.scene import FROM, INTERFACE, MACHINE, NIC, PLACE, TO, SwapCluster, story
from tests.harness.cluster import play
from tests.harness.interceptor import Interceptor, Request, ScriptedClient
from tests.harness.stale import StaleClient


@story
async def test_a_port_moves_and_is_recorded(each: SwapCluster) -> None:
    """A swap moves the port, names the new NAD in the pod and the machine, and says how long the gap was."""
    each.serve()
    await each.move()
    found = await each.until("Succeeded")
    assert await each.places() == (TO, TO, TO)
    assert all(is_true(found.status.conditions, item) for item in (PREFLIGHT, MOVED, COMPLETE))
    assert found.status.port is not None and found.status.port.gap_milliseconds == 7.0
    assert await each.events() == ["NetworkSwapSucceeded"]
    assert await each.events(MACHINE) == ["NetworkSwapSucceeded"]


@story
async def test_nothing_else_of_the_pod_changes(each: SwapCluster) -> None:
    """The pod's networks and network-status name the same NAD, and all else in its annotations stays."""
    each.serve()
    await each.move()
    await each.until("Succeeded")
    annotations = (await each.pod()).metadata.annotations
    assert json.loads(annotations[MULTUS_NETWORKS]) == [
        {"name": "vlan20", "namespace": PLACE, "interface": INTERFACE}
    ]
    assert annotations["other"] == "kept"


@story
async def test_a_machine_that_names_the_network_already(each: SwapCluster) -> None:
    """A swap for an edited machine leaves the machine's spec to its editor."""
    each.serve()
    await each.move(record=False)
    await each.until("Succeeded")
    assert await each.places() == (FROM, TO, TO)


@story
async def test_a_move_to_where_the_port_is(each: SwapCluster) -> None:
    """A swap whose networks are the same ends at once, and nothing is touched."""
    each.serve()
    await each.move(to=FROM)
    found = await each.until("Reverted", seconds=5)
    assert "spec.to is spec.from" in found.status.message
    assert each.moves == [] and await each.places() == (FROM, FROM, FROM)


@pytest.mark.parametrize(
    ("field", "value"),
    [("machine", ""), ("uid", ""), ("network", "no such"), ("from", "/"), ("to", "vlan20"), ("to", "a/b/c")],
)
def test_names_that_nothing_can_have(field: str, value: str) -> None:
    """A swap that was written while no webhook answered ends once, with the field that is wrong."""

    async def names_nothing(each: SwapCluster) -> None:
        scripted = ScriptedClient(each.client)
        await each.furnish()
        each.lead("manager", scripted)
        spec = {"machine": MACHINE, "uid": each.instance_uid, "network": NIC, "from": FROM, "to": TO}
        body = {"metadata": {"name": "move"}, "spec": spec | {field: value}}
        await each.client.create(NETWORK_SWAPS, body, PLACE)
        found = await each.until("Reverted", seconds=5)
        assert f"spec.{field} is " in found.status.message
        count = len(scripted.requests)
        await asyncio.sleep(600)
        asked = {item.resource.kind for item in scripted.requests[count:]}
        assert not asked & {"NetworkSwap", "VirtualMachine", "NetworkAttachmentDefinition", "Event"}
        assert each.moves == []

    play(names_nothing, SwapCluster)


@story
async def test_a_missing_nad_moves_nothing(each: SwapCluster) -> None:
    """A swap to a NAD that does not exist says so at once, and nothing moves."""
    each.serve()
    await each.move(to=f"{PLACE}/none")
    found = await each.until("Reverted")
    assert "NetworkAttachmentDefinition default/none does not exist" in found.status.message
    assert each.moves == [] and await each.places() == (FROM, FROM, FROM)


@story
async def test_a_port_that_cannot_move(each: SwapCluster) -> None:
    """What the agent refuses turns the swap back, and the reason stays in its message."""
    each.serve(fails=frozenset({TO}))
    await each.move()
    found = await each.until("Reverted")
    assert f"the bridge of {TO} is not there" in found.status.message
    assert await each.places() == (FROM, FROM, FROM)


@story
async def test_an_agent_that_is_away(each: SwapCluster) -> None:
    """A node that never answers makes a swap fail; the agent brings the port back when it returns."""
    await each.move()
    found = await each.until("Failed")
    assert "the agent of node1 did not say where the port is" in found.status.message
    each.port = TO
    each.serve()
    await asyncio.sleep(1.0)
    assert each.port == FROM


@story
async def test_a_machine_that_cannot_be_written(each: SwapCluster) -> None:
    """A refused change of the machine undoes the pod's annotations and the port."""
    await each.kill("manager")
    each.lead("refused", Refusing(LocalClient(each.engine)))
    each.serve()
    await each.move()
    found = await each.until("Reverted")
    assert "no right" in found.status.message
    assert each.moves == [TO, FROM]
    assert await each.places() == (FROM, FROM, FROM)


@story
async def test_a_machine_that_somebody_changed_meanwhile(each: SwapCluster) -> None:
    """A machine that names a third network in the middle keeps it, and the port goes back."""
    await each.move()
    await each.until("Moving")
    operation = {
        "op": "replace",
        "path": "/spec/template/spec/networks/1/multus/networkName",
        "value": "third",
    }
    await each.client.json_patch(VIRTUAL_MACHINES, MACHINE, [operation], PLACE)
    each.serve()
    found = await each.until("Reverted")
    assert "was changed meanwhile" in found.status.message
    assert await each.places() == (f"{PLACE}/third", FROM, FROM)


@story
async def test_a_migration_that_begins_meanwhile(each: SwapCluster) -> None:
    """A migration that begins before the port has moved takes the swap back."""
    await each.move()
    await each.until("Moving")
    await each.client.create(MIGRATIONS, {"metadata": each.meta("away"), "spec": {"vmiName": MACHINE}}, PLACE)
    await each.until("Reverting")
    each.serve()
    await each.until("Reverted")
    assert await each.places() == (FROM, FROM, FROM)


@story
async def test_a_migration_is_waited_for(each: SwapCluster) -> None:
    """A swap begins after the migration that is under way, and not during it."""
    each.serve()
    await each.client.create(MIGRATIONS, {"metadata": each.meta("away"), "spec": {"vmiName": MACHINE}}, PLACE)
    await each.move()
    found = await each.until("Pending")
    assert "is being migrated (away)" in found.status.message
    over = {"status": {"phase": "Succeeded"}}
    await each.client.patch(MIGRATIONS, "away", over, PLACE, subresource="status")
    await each.until("Succeeded")


@story
async def test_a_migration_that_the_watch_has_not_brought(each: SwapCluster) -> None:
    """A swap does not begin during a migration, whatever the manager has heard."""
    await each.kill("manager")
    each.lead("deaf", StaleClient(LocalClient(each.engine), MIGRATIONS))
    each.serve()
    await asyncio.sleep(1)
    meta = each.meta("m") | {"labels": {"kubevirt.io/vmi-name": MACHINE}}
    await each.client.create(MIGRATIONS, {"metadata": meta, "spec": {"vmiName": MACHINE}}, PLACE)
    await each.move()
    found = await each.until("Pending")
    assert "is being migrated (m)" in found.status.message
    await asyncio.sleep(20)
    assert each.moves == []


@story
async def test_a_pod_that_the_watch_has_not_brought(each: SwapCluster) -> None:
    """A manager that takes over does not take a port for gone whose pod it has not heard of."""
    await each.kill("manager")
    await each.client.delete(PODS, "virt-launcher-db", PLACE, grace=0)
    each.lead("deaf", StaleClient(LocalClient(each.engine), PODS))
    await asyncio.sleep(1)
    each.lead("other")
    await each.add_launcher("virt-launcher-new", "node1", FROM)
    await each.move()
    await each.until("Moving")
    await each.kill("other")
    await asyncio.sleep(5)
    each.serve()
    found = await each.until("Succeeded")
    assert found.status.pod == "virt-launcher-new"


@story
async def test_a_machine_that_stops_meanwhile(each: SwapCluster) -> None:
    """A machine that stops in the middle ends its swap: there is no port any more."""
    await each.move()
    await each.until("Moving")
    await each.stop_machine()
    found = await each.until("Reverted")
    assert "it starts on default/vlan10" in found.status.message


@story
async def test_a_machine_that_was_replaced(each: SwapCluster) -> None:
    """A swap of an earlier instance touches nothing of the present one."""
    each.serve()
    await each.move(uid="of-another")
    await each.until("Reverted")
    assert each.moves == []


@story
async def test_two_swaps_of_one_nic(each: SwapCluster) -> None:
    """Of two swaps of one NIC the later one waits for the first, and then finds the NIC elsewhere."""
    await each.keep(
        NADS, {"metadata": each.meta("vlan30"), "spec": {"config": '{"type":"bridge","vlan":30}'}}
    )
    await each.move("first")
    await asyncio.sleep(1.1)
    await each.move("second", to=f"{PLACE}/vlan30")
    await each.until("Pending", "second")
    each.serve()
    await each.until("Succeeded", "first")
    await each.until("Reverted", "second")
    assert await each.places() == (TO, TO, TO)


@story
async def test_a_manager_that_dies_anywhere(each: SwapCluster) -> None:
    """Managers that die again and again, two at a time, still bring a swap to its end."""
    each.serve()
    await each.move()
    for turn in range(40):
        each.lead(f"turn-{turn}")
        await asyncio.sleep(0.013 * turn)
        if turn:
            await each.kill(f"turn-{turn - 1}")
    await each.until("Succeeded")
    assert await each.places() == (TO, TO, TO)
    assert each.moves == [TO]


@story
async def test_a_swap_is_kept_for_a_day(each: SwapCluster) -> None:
    """A swap that ended is deleted after a day."""
    each.serve()
    await each.move()
    await each.until("Succeeded")
    await each.kill("agent")
    await asyncio.sleep(86_000)
    await each.swap()
    await asyncio.sleep(1_000)
    try:
        await each.swap()
    except NotFound:
        return
    raise AssertionError("the swap is still there")


@story
async def test_a_guest_sees_its_link_go(each: SwapCluster) -> None:
    """A swap with flap sets the guest's link down and up again once the port has moved, and leaves no trace."""
    each.serve()
    each.follow()
    await each.move(flap=True)
    found = await each.until("Succeeded")
    assert is_true(found.status.conditions, FLAPPED)
    await asyncio.sleep(1.0)
    assert each.guest_links == ["up", "down", "up"]
    assert await each.state() == ""


@story
async def test_a_guest_whose_link_is_not_reported(each: SwapCluster) -> None:
    """Where nothing tells of the guest's link it is down for some seconds only, and the state is as it was."""
    operation = {"op": "add", "path": "/spec/template/spec/domain/devices/interfaces/1/state", "value": "up"}
    await each.client.json_patch(VIRTUAL_MACHINES, MACHINE, [operation], PLACE)
    each.serve()
    each.follow(deaf=True)
    await each.move(flap=True)
    began = each.now()
    await each.until("Succeeded")
    assert 10 <= each.now() - began < 20
    assert await each.state() == "up"


@story
async def test_a_link_that_is_down_by_intent(each: SwapCluster) -> None:
    """A NIC that its user has set down is not set up by a swap."""
    operation = {
        "op": "add",
        "path": "/spec/template/spec/domain/devices/interfaces/1/state",
        "value": "down",
    }
    await each.client.json_patch(VIRTUAL_MACHINES, MACHINE, [operation], PLACE)
    each.serve()
    await each.move(flap=True)
    await each.until("Succeeded")
    assert await each.state() == "down"


async def _die_with_the_link_down(each: SwapCluster) -> None:
    """Has a manager die in the middle of a move."""
    each.serve()
    await each.move(flap=True)
    for _ in range(400):
        if await each.state() == "down":
            break
        await asyncio.sleep(0.05)
    await each.kill("manager")


@story
async def test_a_machine_that_stops_while_its_link_is_down(each: SwapCluster) -> None:
    """A machine that stops in the middle starts with its link up, also where the manager died meanwhile."""
    await _die_with_the_link_down(each)
    await each.stop_machine()
    each.lead("next")
    await each.until("Succeeded")
    assert await each.state() == ""


@story
async def test_a_machine_that_is_made_again_while_its_link_is_down(each: SwapCluster) -> None:
    """A VirtualMachine that takes the name of the one whose NIC moved keeps the network and the link of its file."""
    await _die_with_the_link_down(each)
    await each.make_again("vlan20", state="down")
    each.lead("next")
    assert "starts on" not in (await each.until("Reverted")).status.message
    assert await each.written() == (TO, "down")


@story
async def test_a_machine_that_is_made_again_while_its_move_is_undone(each: SwapCluster) -> None:
    """A VirtualMachine that takes the name of the one whose NIC moves back keeps the network of its file."""
    await each.kill("manager")
    each.lead("refused", Refusing(LocalClient(each.engine)))
    await each.move()
    await each.until("Reverting")
    await each.kill("refused")
    await each.make_again("vlan20")
    each.lead("next")
    await each.until("Reverted")
    assert await each.written() == (TO, "")


class Refusing(Interceptor):
    """The client of a manager that may not write machines."""

    async def send(self, request: Request) -> Any:
        if request.verb == "patch" and request.resource is VIRTUAL_MACHINES:
            raise Forbidden(403, "Forbidden", "no right")
        return await super().send(request)


@story
async def test_a_swap_that_is_deleted_in_the_middle(each: SwapCluster) -> None:
    """A swap whose port may have been touched goes only when its port, pod and machine agree."""
    await each.move()
    await each.until("Moving")
    await each.client.delete(NETWORK_SWAPS, "move", PLACE)
    each.serve()
    with pytest.raises(NotFound):
        await each.until("Failed", seconds=60)
    assert await each.places() == (TO, TO, TO)


class Repeater(Interceptor):
    """Keeps every patch, to be sent once more."""

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.patches: list[tuple[str, Callable[[], Coroutine[Any, Any, Any]]]] = []

    async def send(self, request: Request) -> Any:
        if request.verb == "patch":
            self.patches.append((request.resource.plural, partial(super().send, request)))
        return await super().send(request)


@story
async def test_a_patch_that_arrives_late(each: SwapCluster) -> None:
    """After a move there and back, no patch that arrives once more changes anything, whatever it tests is back."""
    await each.kill("manager")
    repeater = Repeater(LocalClient(each.engine))
    each.lead("other", repeater)
    each.serve()
    await each.move(flap=True)
    await each.until("Succeeded")
    await each.move("back", flap=True, **{"from": TO, "to": FROM})
    await each.until("Succeeded", "back")
    await each.kill("agent")
    await each.kill("other")
    assert (await each.places())[:2] == (FROM, FROM)
    before = each.engine.ledger.version
    for _, send in tuple(repeater.patches):
        with suppress(Conflict, Invalid):
            await send()
    assert each.engine.ledger.version == before
    assert {plural for plural, _ in repeater.patches} >= {"pods", "virtualmachines", "networkswaps"}


@story
async def test_nothing_keeps_a_swap_that_ended(each: SwapCluster) -> None:
    """A swap that has ended can be deleted."""
    each.serve()
    await each.move()
    await each.until("Succeeded")
    await asyncio.sleep(1)
    assert (await each.swap()).metadata.finalizers == ()
