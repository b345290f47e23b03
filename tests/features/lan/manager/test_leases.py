"""The Lease of an uplink goes when no LAN needs it, however a LAN loses its uplink, and is taken from no holder."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lanloom.api.core import LEASES, NAMESPACES, Lease
from lanloom.api.lan import FORCE_DELETE, VlanUplink
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.manager.leases import LATE_SECONDS
from lanloom.kube.errors import NotFound
from tests.features.lan.manager.scene import Scene, in_a_scene, play
from tests.harness.interceptor import ScriptedClient

Change = Callable[[Scene], Awaitable[None]]

UPLINK = {"clusterNetwork": "cluster-1", "vlan": 2012}
OTHER = UPLINK | {"vlan": 2013}
LEASE = "lan-uplink-2012-cluster-1"


async def hold(scene: Scene, name: str = LEASE, holder: str = "node1_uid", transitions: int = 0) -> None:
    """An agent takes a Lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions}
    try:
        await scene.client.patch(LEASES, name, {"spec": spec}, BRIDGES_NAMESPACE)
    except NotFound:
        await scene.client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, BRIDGES_NAMESPACE)


async def leases(scene: Scene) -> list[str]:
    """The names of all Leases but those of the bridges."""
    return sorted(item.metadata.name for item in (await scene.client.list(LEASES, BRIDGES_NAMESPACE)).items)


async def joined(scene: Scene, **spec: Any) -> None:
    """A LAN that a node joins to its VLAN."""
    await scene.client.create(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
    await scene.add(uplink=UPLINK, **spec)
    await hold(scene)
    await scene.rest()


async def remove(scene: Scene) -> None:
    """The LAN has no uplink any more."""
    await scene.change(spec={"uplink": None})


async def move(scene: Scene) -> None:
    """The LAN has another VLAN."""
    await scene.change(spec={"uplink": OTHER})


async def delete(scene: Scene) -> None:
    """The LAN is deleted."""
    await scene.delete()


async def force(scene: Scene) -> None:
    """The LAN is deleted by force."""
    await scene.change(metadata={"annotations": {FORCE_DELETE: "true"}})
    await scene.delete()


async def release(scene: Scene) -> None:
    """The agent lets the Lease go."""
    await hold(scene, holder="")


async def wait(scene: Scene) -> None:
    """Time passes, in which the manager has done what it has to do."""
    await scene.rest(60.0)


ORDERS: dict[str, tuple[Change, ...]] = {
    "the uplink is removed": (remove, release),
    "the Lease is released before": (release, remove),
    "the VLAN changes": (move, release),
    "the LAN is deleted": (delete, release),
    "it is deleted by force": (force, release),
    "the uplink is removed, and the LAN deleted at once": (remove, delete, release),
    "the uplink is removed, and the LAN deleted later": (remove, release, wait, delete),
    "the VLAN changes, and the LAN is deleted": (move, delete, release),
    "no agent releases it": (delete,),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_no_order_leaves_a_lease(order: tuple[Change, ...]) -> None:
    """However a LAN loses its uplink, the Lease is gone once it has ended."""

    async def story(scene: Scene) -> None:
        scene.lead()
        await joined(scene)
        for change in order:
            await change(scene)
        await scene.rest(60.0)
        assert await leases(scene) == []

    play(story)


@in_a_scene
async def test_a_holder_keeps_it(scene: Scene) -> None:
    """A Lease that is renewed stays, though no LAN needs it; once it is not renewed for its duration it goes."""
    await joined(scene)
    await scene.delete()
    for number in range(30):
        await hold(scene, transitions=number)
        await scene.rest(5.0)
    assert await leases(scene) == [LEASE]
    await scene.rest(60.0)
    assert await leases(scene) == []


@in_a_scene
async def test_another_lan_needs_it(scene: Scene) -> None:
    """The Lease of a VLAN stays where another LAN has that uplink now."""
    await joined(scene)
    await scene.change(spec={"uplink": None})
    await scene.add("red", ns="red", vni=8, spokes=["c"], uplink=UPLINK)
    await release(scene)
    await scene.rest(600.0)
    assert await leases(scene) == [LEASE]


@in_a_scene
async def test_an_agent_that_was_told_late(scene: Scene) -> None:
    """A Lease that an agent creates once more, because it has not heard of the change, goes as well."""
    await joined(scene)
    await release(scene)
    await scene.delete()
    await scene.rest(60.0)
    assert await leases(scene) == []
    await hold(scene, holder="")
    await scene.rest(LATE_SECONDS)
    assert await leases(scene) == []


@in_a_scene
async def test_others_are_left_alone(scene: Scene) -> None:
    """Leases of others stay; one that is named as agents of development versions did goes."""
    await scene.client.create(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
    await hold(scene, "elsewhere", holder="")
    await hold(scene, "lan-uplink-5e1f4a0c-0000-4000-8000-0000000000aa")
    scene.lead(name="next")
    await scene.rest(60.0)
    assert await leases(scene) == ["elsewhere"]


def test_it_is_taken_meanwhile() -> None:
    """A Lease that an agent takes between the list and the deletion stays its own."""

    async def story(scene: Scene) -> None:
        client = ScriptedClient(scene.counted)
        taken = asyncio.Event()

        async def take() -> None:
            await scene.add("red", ns="red", vni=8, spokes=["c"], uplink=UPLINK)
            await hold(scene, holder="node2_red")
            taken.set()

        client.before(take, "delete", of=LEASES)
        scene.lead(client)
        await joined(scene)
        await release(scene)
        await scene.change(spec={"uplink": None})
        await asyncio.wait_for(taken.wait(), 60.0)
        await scene.rest(60.0)
        found: Lease = await scene.client.get(LEASES, LEASE, BRIDGES_NAMESPACE)
        assert found.spec.holder_identity == "node2_red"

    play(story)


def test_names() -> None:
    """The name of a Lease is a DNS label for every VLAN, and another one for each."""
    names = {
        VlanUplink(cluster_network=network, vlan=vlan).lease
        for network in ("a", "1", "1-2", "2", "cluster-1234", "4094")
        for vlan in (2, 12, 4094)
    }
    assert len(names) == 18
    assert max(map(len, names)) == len("lan-uplink-4094-cluster-1234") <= 63
