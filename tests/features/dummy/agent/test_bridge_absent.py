"""A reconciler that takes its bridge away waits for the ports, and takes no other bridge."""

import asyncio

import pytest

from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge
from lanloom.node.marks import unfinished_name
from lanloom.node.ports import LinkStep
from tests.features.dummy.agent.hosts import (
    BRIDGE,
    FOREIGN,
    HOUR,
    OWNER,
    PLUGINS,
    Counting,
    Scene,
    bridge,
    on_a_host,
    until,
)


@on_a_host
async def test_absent(scene: Scene) -> None:
    """A bridge that is to go is removed, and so it is if an operator makes it again; then the reconciler is ready."""
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))
    kept = scene.keep("absent")
    await kept.until_ready()
    assert BRIDGE not in scene.found
    await asyncio.sleep(100)
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))
    await until(lambda: BRIDGE not in scene.found)
    await kept.until_ready()


@on_a_host
async def test_absent_everything_of_the_owner(scene: Scene) -> None:
    """What the owner has under another name, and what is half-made for it, goes as well."""
    scene.fake.plant_link(bridge("renamed"))
    scene.fake.plant_link(bridge(unfinished_name(OWNER), "", up=False))
    await scene.keep("absent").until_ready()
    assert set(scene.found) == {"eth0", "eth1"}


@pytest.mark.parametrize("alias", FOREIGN)
def test_absent_leaves_others(alias: str) -> None:
    """A link of that name which is another's does not keep a network from going, and stays."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        scene.fake.plant_link(bridge(alias=alias))
        before = dict(scene.found)
        await scene.keep("absent").until_ready()
        await asyncio.sleep(HOUR)
        assert scene.found == before

    scenario()


@on_a_host
async def test_absent_before_it_was_ever_marked(scene: Scene) -> None:
    """A bridge that the plugin made and no keeper saw goes, too; with ports it is marked, and goes after the last."""
    scene.fake.kernel.add(PLUGINS)
    kept = scene.keep("absent")
    await kept.until_ready()
    assert BRIDGE not in scene.found
    scene.fake.kernel.add(PLUGINS)
    scene.attach("veth1")
    await until(lambda: scene.found[BRIDGE].owner_uid == OWNER)
    await asyncio.sleep(30)
    assert scene.found["veth1"].master == BRIDGE and not kept.ready
    scene.fake.delete_link("veth1")
    await until(lambda: BRIDGE not in scene.found)
    await kept.until_ready()


@on_a_host
async def test_absent_with_ports(scene: Scene) -> None:
    """A bridge with ports stays, the keeper is not ready, and within a second of the last port's end it is gone."""
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))
    scene.attach("veth1")
    scene.attach("veth2")
    kept = scene.keep("absent")
    await asyncio.sleep(30)
    scene.fake.delete_link("veth1")
    await asyncio.sleep(20)
    assert BRIDGE in scene.found and True not in kept.shown
    scene.fake.delete_link("veth2")
    await until(lambda: BRIDGE not in scene.found)
    await kept.until_ready()


@on_a_host
async def test_absent_with_ports_that_stay(scene: Scene) -> None:
    """After a minute with ports the reconciler gives up and names them; the next one begins again."""
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))
    scene.attach("veth2")
    scene.attach("veth1")
    for _ in range(2):
        kept = scene.keep("absent")
        await asyncio.sleep(59)
        assert not kept.task.done()
        assert await kept.failure() == (
            "can't remove the bridge dummy-br: it has the ports veth1, veth2; stop what uses them"
        )
    assert scene.found["veth1"].master == BRIDGE


@on_a_host
async def test_port_at_the_last_moment(scene: Scene) -> None:
    """A port that joins between the look and the removal keeps the bridge."""
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))

    class Late(Counting):
        async def apply(self, steps: tuple[LinkStep, ...]) -> None:
            scene.attach("veth1")
            await super().apply(steps)

    kept = scene.keep("absent", links=Late(scene.fake.host.links))
    await asyncio.sleep(30)
    assert scene.found["veth1"].master == BRIDGE and not kept.ready and not kept.task.done()
