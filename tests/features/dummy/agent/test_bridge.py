"""A keeper makes and heals its bridge, or takes it away, says truly whether all is well, and touches nothing else."""

import asyncio

import pytest
from msgspec import structs

from lanloom.features.dummy.agent.bridge import CALM_SECONDS
from lanloom.features.dummy.rules.hostbridge import (
    LINK_LOCAL,
    EnsureIsolatedBridge,
    RemoveIsolatedBridge,
    State,
    alias_of,
)
from lanloom.node.ports import IngressRule, Link
from lanloom.node.steps import EnsureBridge
from tests.features.dummy.agent.hosts import (
    BRIDGE,
    FOREIGN,
    HOUR,
    OTHER,
    OWNER,
    PLUGINS,
    Counting,
    Kept,
    Scene,
    bridge,
    on_a_host,
    until,
)
from tests.harness import virtual


@on_a_host
async def test_made(scene: Scene) -> None:
    """A bridge that is not there is made, and then the keeper is ready."""
    kept = scene.keep()
    await kept.until_ready()
    assert scene.found[BRIDGE].owner_uid == OWNER and scene.found[BRIDGE].up
    assert kept.shown[0] is False


@on_a_host
async def test_deleted_by_hand(scene: Scene) -> None:
    """A bridge that an operator deletes is there again within a second, and the reconciler was not ready meanwhile."""
    kept = scene.keep()
    await kept.until_ready()
    for pause in (0.0, 5.0, 100.0):
        await asyncio.sleep(pause)
        scene.fake.delete_link(BRIDGE)
        kept.shown.clear()
        await until(lambda: BRIDGE in scene.found and kept.ready)
        assert False in kept.shown


@on_a_host
async def test_deleted_under_its_ports(scene: Scene) -> None:
    """The bridge that is made in the place of one that was deleted has its ports, but those that are elsewhere."""
    kept = scene.keep()
    await kept.until_ready()
    for name in ("veth1", "veth2", "veth3"):
        scene.attach(name)
        await asyncio.sleep(1)
    for pause in (0.0, 100.0):
        await asyncio.sleep(pause)
        scene.fake.delete_link(BRIDGE)
        scene.fake.delete_link("veth3")
        scene.fake.kernel.change("veth2", master="eth1")
        await until(lambda: BRIDGE in scene.found and kept.ready)
        assert (scene.found["veth1"].master, scene.found["veth2"].master) == (BRIDGE, "eth1")


@on_a_host
async def test_set_down_by_hand(scene: Scene) -> None:
    """A bridge that an operator sets down is up again within a second, with the ports that it has."""
    kept = scene.keep()
    await kept.until_ready()
    scene.attach("veth1")
    await asyncio.sleep(100)
    scene.fake.set_link_up(BRIDGE, False)
    await until(lambda: scene.found[BRIDGE].up)
    assert scene.found["veth1"].master == BRIDGE


@on_a_host
async def test_broken_watch(scene: Scene) -> None:
    """Where the kernel's changes can't be watched the bridge is looked at every second, and healed."""
    kept = scene.keep(links=Counting(scene.fake.host.links, broken=True))
    await kept.until_ready()
    await asyncio.sleep(100)
    scene.fake.delete_link(BRIDGE)
    await until(lambda: BRIDGE in scene.found, 2)


@on_a_host
async def test_nothing_to_do(scene: Scene) -> None:
    """A bridge at rest is neither written to nor looked at often, however busy the rest of the host is."""
    links = Counting(scene.fake.host.links)
    await scene.keep(links=links).until_ready()
    await asyncio.sleep(10)
    writes, links.dumps = scene.fake.writes, 0
    await asyncio.sleep(HOUR)
    assert scene.fake.writes == writes and links.dumps <= HOUR / 30 + 1
    links.dumps = 0
    for number in range(1000):
        scene.fake.set_mtu("eth0", 1400 + number % 2)
        await asyncio.sleep(0.01)
    assert links.dumps <= 51
    assert scene.found[BRIDGE].up


@pytest.mark.parametrize("alias", FOREIGN)
def test_foreign_bridge(alias: str) -> None:
    """A link of the bridge's name that is another's is left alone, and after ten seconds the keeper fails for it."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        scene.fake.plant_link(bridge(alias=alias, up=False))
        before = dict(scene.found)
        kept = scene.keep()
        await asyncio.sleep(9)
        assert not kept.task.done()
        assert FOREIGN[alias] in await kept.failure()
        assert scene.found == before and True not in kept.shown

    scenario()


@on_a_host
async def test_foreign_bridge_that_goes(scene: Scene) -> None:
    """A bridge that goes in time is no failure: what a network of the same name left behind is swept up."""
    scene.fake.plant_link(bridge(alias=alias_of(OTHER)))
    kept = scene.keep()
    await asyncio.sleep(8)
    scene.fake.delete_link(BRIDGE)
    await kept.until_ready()
    assert scene.found[BRIDGE].owner_uid == OWNER


@on_a_host
async def test_pods_that_came_first(scene: Scene) -> None:
    """The bridge that CNI's plugin made before the keeper came is taken over with its pods, and goes in the end."""
    scene.fake.kernel.add(PLUGINS)
    scene.attach("veth1")
    kept = scene.keep()
    await kept.until_ready()
    assert (scene.found[BRIDGE].owner_uid, scene.found["veth1"].master) == (OWNER, BRIDGE)
    await kept.kill()
    scene.fake.delete_link("veth1")
    await scene.keep("absent").until_ready()
    assert BRIDGE not in scene.found


@on_a_host
async def test_pods_that_come_while_it_starts(scene: Scene) -> None:
    """A bridge that the plugin has made and not finished, or that another pod's call makes meanwhile, is no failure."""
    scene.fake.kernel.add(bridge(alias=""))
    kept = scene.keep()
    await asyncio.sleep(2)
    assert not kept.ready
    scene.fake.kernel.change(BRIDGE, ignores_routers=True)
    await kept.until_ready()


@on_a_host
async def test_the_gateway_of_pods_that_came_first(scene: Scene) -> None:
    """With a gateway the plugin's bridge has its address, which stays; without one it is another program's."""
    scene.fake.kernel.add(structs.replace(PLUGINS, addresses=("10.7.0.1/24",)))
    assert FOREIGN[""] in await scene.keep().failure()
    await scene.keep(gateways=("10.7.0.1/24",)).until_ready()
    found = scene.found[BRIDGE]
    assert (found.owner_uid, found.addresses) == (OWNER, ("10.7.0.1/24",))


GATEWAYS = ("10.7.0.1/24", "fd00:7::1/64")


def addresses(scene: Scene) -> set[str]:
    """The addresses of the bridge."""
    found = scene.found[BRIDGE]
    return {*found.addresses, *found.addresses6}


@pytest.mark.parametrize("gateways", [GATEWAYS[:1], GATEWAYS[1:], GATEWAYS])
def test_the_gateways_of_a_bridge(gateways: tuple[str, ...]) -> None:
    """A bridge has its gateways, with IPv6 a link-local address, too; whatever takes them away, they are back soon."""
    wanted = {*gateways, LINK_LOCAL} if any(":" in each for each in gateways) else set(gateways)

    @on_a_host
    async def story(scene: Scene) -> None:
        scene.fake.kernel.forward(4, 6)
        kept = scene.keep(gateways=gateways)
        await kept.until_ready()
        assert addresses(scene) == wanted
        assert scene.found[BRIDGE].forwarding == (GATEWAYS[0] in gateways)
        scene.fake.delete_link(BRIDGE)
        await until(lambda: BRIDGE in scene.found and kept.ready)
        assert addresses(scene) == wanted
        scene.fake.set_link_up(BRIDGE, False)
        await until(lambda: scene.found[BRIDGE].up and kept.ready)
        assert addresses(scene) == wanted

    story()


@on_a_host
async def test_addresses_of_others(scene: Scene) -> None:
    """Addresses that a keeper before gave for other gateways go; those of other programs stay."""
    scene.fake.kernel.forward(4, 6)
    await (former := scene.keep(gateways=GATEWAYS)).until_ready()
    await former.kill()
    found = scene.found[BRIDGE]
    scene.fake.kernel.change(BRIDGE, addresses=(*found.addresses, "10.7.0.9/32"))
    await scene.keep(gateways=("10.8.0.1/24",)).until_ready()
    assert addresses(scene) == {"10.8.0.1/24", "10.7.0.9/32"}


@pytest.mark.parametrize("gateways", [(), GATEWAYS])
def test_rules_for_what_guests_send(gateways: tuple[str, ...]) -> None:
    """Packets of guests are routed from the subnet of a gateway alone; the rules return, and go with the bridge."""
    passed = {IngressRule(BRIDGE, "fd00:7::/64")} if gateways else set()
    other = IngressRule("other-br")

    @on_a_host
    async def story(scene: Scene) -> None:
        scene.fake.kernel.forward(4, 6)
        scene.fake.kernel.set_ingress("other-br", frozenset({other}))
        kept = scene.keep(gateways=gateways)
        await kept.until_ready()
        assert scene.fake.kernel.ingress == {other, IngressRule(BRIDGE), *passed}
        for left in (frozenset(), frozenset({IngressRule(BRIDGE), IngressRule(BRIDGE, "fd00:8::/64")})):
            kept.shown.clear()
            scene.fake.kernel.set_ingress(BRIDGE, left)
            await until(lambda: kept.ready and False in kept.shown)
            assert scene.fake.kernel.ingress == {other, IngressRule(BRIDGE), *passed}
        await kept.kill()
        scene.fake.delete_link(BRIDGE)
        await scene.keep("absent").until_ready()
        assert scene.fake.kernel.ingress == {other}
        await (again := scene.keep(gateways=gateways)).until_ready()
        await again.kill()
        await scene.keep("absent").until_ready()
        assert BRIDGE not in scene.found and scene.fake.kernel.ingress == {other}

    story()


@on_a_host
async def test_a_host_that_does_not_forward(scene: Scene) -> None:
    """With a gateway of IPv6, a keeper on a host that does not forward IPv6 keeps the bridge, and is not ready.

    Before it gives up it says why, with the remedy; where the host begins in time, it becomes ready.
    """
    failure = await scene.keep(gateways=GATEWAYS).failure()
    assert "this node does not forward IPv6" in failure and "sysctl -w" in failure
    assert addresses(scene) == {*GATEWAYS, LINK_LOCAL} and scene.found[BRIDGE].up
    await scene.keep(gateways=GATEWAYS[:1]).until_ready()
    kept = scene.keep(gateways=GATEWAYS)
    await asyncio.sleep(2)
    assert not kept.ready
    scene.fake.kernel.forward(4, 6)
    await kept.until_ready()
    scene.fake.kernel.forward(6)
    await until(lambda: not kept.ready)


@pytest.mark.parametrize("alias", ["mine", ""])
def test_mark_taken_away(alias: str) -> None:
    """A bridge whose mark is changed while its reconciler runs has it again at once, with its ports."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        kept = scene.keep()
        await kept.until_ready()
        scene.attach("veth1")
        before = dict(scene.found)
        for pause in (0.0, 100.0):
            await asyncio.sleep(pause)
            scene.fake.kernel.change(BRIDGE, alias=alias)
            await until(lambda: scene.found == before and kept.ready)

    scenario()


@pytest.mark.parametrize("alias", [alias_of(OTHER), "lanloom"])
def test_mark_of_another(alias: str) -> None:
    """A bridge that gets another's mark is his: the keeper is not ready at once, touches it no more, and says so."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        kept = scene.keep()
        await kept.until_ready()
        scene.fake.kernel.change(BRIDGE, alias=alias, up=False)
        await until(lambda: not kept.ready)
        assert FOREIGN[alias] in await kept.failure()
        assert (scene.found[BRIDGE].alias, scene.found[BRIDGE].up) == (alias, False)

    scenario()


@on_a_host
async def test_mark_taken_away_while_nobody_looked(scene: Scene) -> None:
    """A keeper that has not seen the mark takes no bridge for its own: it touches nothing, and says how to mend it."""
    kept = scene.keep()
    await kept.until_ready()
    await kept.kill()
    scene.fake.kernel.change(BRIDGE, alias="mine", up=False)
    message = await scene.keep().failure()
    assert "or its alias was changed to 'mine'" in message
    assert f"set its alias to '{alias_of(OWNER)}' if it was created for this network" in message
    assert (scene.found[BRIDGE].alias, scene.found[BRIDGE].up) == ("mine", False)


@on_a_host
async def test_another_bridge_of_that_name(scene: Scene) -> None:
    """A bridge that another program puts in the place of ours does not get its mark, though the name is the
    same.
    """
    kept = scene.keep()
    await kept.until_ready()
    scene.fake.kernel.links.pop(BRIDGE)
    scene.fake.plant_link(bridge(alias="mine"))
    await until(lambda: not kept.ready)
    assert "Lanloom did not create the link" in await kept.failure()
    assert scene.found[BRIDGE].alias == "mine"


@pytest.mark.parametrize("gateways", [(), ("10.7.0.1/24",)])
def test_host_let_in(gateways: tuple[str, ...]) -> None:
    """A host that an operator lets into the network is kept out again, but for the gateway that is asked for."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        kept = scene.keep(gateways=gateways)
        await kept.until_ready()
        scene.fake.kernel.change(BRIDGE, ipv4_strict=False, forwarding=not gateways)
        await until(lambda: scene.found[BRIDGE].ipv4_strict and kept.ready)
        assert scene.found[BRIDGE].forwarding == bool(gateways)
        scene.fake.kernel.change(BRIDGE, link_local=True)
        await until(lambda: not scene.found[BRIDGE].link_local and kept.ready)

    scenario()


@on_a_host
async def test_a_host_that_follows_routers(scene: Scene) -> None:
    """A bridge with a port by which guests could route what the host sends is not ready, and the remedy is named."""
    kept = scene.keep()
    await kept.until_ready()
    scene.fake.kernel.change(BRIDGE, follows_routers=True)
    await asyncio.sleep(2 * CALM_SECONDS)
    assert kept.ready
    scene.fake.plant_link(Link(name="guest", index=0, kind="veth"))
    scene.fake.kernel.join("guest", BRIDGE)
    await until(lambda: not kept.ready)
    scene.fake.kernel.change(BRIDGE, follows_routers=False)
    await until(lambda: kept.ready)
    scene.fake.kernel.change(BRIDGE, follows_routers=True)
    assert "run `sysctl -w net.ipv6.conf.dummy-br.accept_ra=0` on it" in await kept.failure()


@on_a_host
async def test_refused_by_the_kernel(scene: Scene) -> None:
    """What the kernel refuses is tried again, and reported after ten seconds."""
    step = EnsureIsolatedBridge(name=BRIDGE, owner=OWNER)
    scene.fake.links.refused[step] = "can't create the bridge dummy-br: Operation not permitted"
    first = scene.keep()
    await asyncio.sleep(5)
    assert not first.ready
    scene.fake.links.refused.clear()
    await first.until_ready(2)
    await first.kill()
    scene.fake.delete_link(BRIDGE)
    scene.fake.links.refused[step] = "can't create the bridge dummy-br: Operation not permitted"
    assert await scene.keep().failure() == "can't create the bridge dummy-br: Operation not permitted"


@on_a_host
async def test_end(scene: Scene) -> None:
    """A keeper that is ended leaves the bridge and its ports as they are, and is not ready any more."""
    kept = scene.keep()
    await kept.until_ready()
    scene.attach("veth1")
    before = dict(scene.found)
    await kept.kill()
    assert scene.found == before and not kept.ready


@pytest.mark.parametrize("state", ["present", "absent"])
def test_killed_anywhere(state: State) -> None:
    """Wherever a keeper dies, the next one brings the host to where it should be, with nothing left over."""

    async def story(turns: int) -> bool:
        scene = Scene()
        async with scene.ending():
            if state == "absent":
                scene.fake.plant_link(bridge())
            first = scene.keep(state)
            for _ in range(turns):
                await asyncio.sleep(0)
            over = first.ready
            await first.kill()
            assert not first.ready
            await scene.keep(state).until_ready()
            assert set(scene.found) == {"eth0", "eth1"} | ({BRIDGE} if state == "present" else set())
            return over

    turns = 0
    while not virtual.run(story(turns)):
        turns += 1
    assert turns > 5


@on_a_host
async def test_two_at_once(scene: Scene) -> None:
    """Two keepers of the same bridge, as while a DaemonSet is rolled out, agree, and heal it as one would."""
    kept = [scene.keep(), scene.keep()]
    for one in kept:
        await one.until_ready()
    await asyncio.sleep(100)
    scene.fake.delete_link(BRIDGE)
    await until(lambda: BRIDGE in scene.found)
    writes = scene.fake.writes
    await asyncio.sleep(100)
    assert scene.fake.writes == writes and all(one.ready for one in kept)


@on_a_host
async def test_two_owners(scene: Scene) -> None:
    """Of two networks with one bridge the first has it, and the other says whose it is."""
    first = scene.keep()
    await first.until_ready()
    assert OWNER in await scene.keep(owner=OTHER).failure()
    assert first.ready and scene.found[BRIDGE].owner_uid == OWNER


@on_a_host
async def test_roll_over(scene: Scene) -> None:
    """The one that takes the bridge away is ready at last when the old one, which still made it, ends."""
    old = scene.keep()
    await old.until_ready()
    new = scene.keep("absent")
    await asyncio.sleep(5)
    await old.kill()
    await new.until_ready()
    await asyncio.sleep(10)
    assert BRIDGE not in scene.found and new.ready


@on_a_host
async def test_reboot(scene: Scene) -> None:
    """After a reboot of the host the bridge is made again."""
    kept: Kept = scene.keep()
    await kept.until_ready()
    await kept.kill()
    scene.fake.reboot()
    assert BRIDGE not in scene.found
    await scene.keep().until_ready()


@on_a_host
async def test_the_rest_of_the_host(scene: Scene) -> None:
    """NICs, other bridges and their ports are as they were, whatever a keeper does."""
    await scene.fake.links.apply((EnsureBridge(name="c-br", mtu=1500),))
    scene.fake.plant_link(bridge("x-br", ""))
    scene.attach("veth1", "x-br")
    before = dict(scene.found)
    kept = scene.keep()
    await kept.until_ready()
    await kept.kill()
    await scene.keep("absent").until_ready()
    assert scene.found == before


def test_steps_are_idempotent() -> None:
    """What a keeper applies may be applied any number of times."""

    @on_a_host
    async def scenario(scene: Scene) -> None:
        ensure, remove = (
            EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),
            RemoveIsolatedBridge(name=BRIDGE, owner=OWNER),
        )
        await scene.fake.links.apply((ensure, ensure))
        writes = scene.fake.writes
        await scene.fake.links.apply((ensure,))
        assert scene.fake.writes == writes
        await scene.fake.links.apply((remove, remove))

    scenario()
