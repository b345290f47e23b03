"""Whatever order things are heard in, and whichever manager leads or dies: edits end, and nothing is done twice."""

from random import Random

import pytest

from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.features.liveupdate.manager.updater import SPACING_SECONDS
from lanloom.features.liveupdate.rules.updates import Limits
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.errors import TransportError
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import PLACE, on
from tests.harness.examples import seeds
from tests.harness.interceptor import ScriptedClient
from tests.harness.stale import StaleClient

NADS = ("old", "new", "other")
NAMES = ("a", "b", "c")


async def kubevirt(scene: Scene, rng: Random, uids: dict[str, str]) -> None:
    """KubeVirt takes one step with one migration: it fails, succeeds, or goes on."""
    flying = [item for item in await scene.migrations() if not item.is_final]
    assert len({item.spec.vmi_name for item in flying}) == len(flying), "two migrations of one machine"
    if not flying:
        return
    chosen = rng.choice(flying)
    if chosen.metadata.is_deleting:
        return
    name, what = chosen.spec.vmi_name, rng.random()
    if what < 0.3:
        await scene.move_phase(chosen.metadata.name, "Failed")
    elif what < 0.7:
        target = (await scene.nads(name))["blue"]
        await scene.migrate(
            uids[name], {"blue": f"{PLACE}/{target}"}, name=name, migration=chosen.metadata.name
        )


async def is_settled(scene: Scene, name: str) -> bool:
    """Whether a machine is where its VirtualMachine wants it, and nothing goes on."""
    template = (await scene.owner(name)).spec.template
    assert template is not None
    assert template.spec.networks[1].multus is not None
    wanted = template.spec.networks[1].multus.network_name
    return (
        (await scene.nads(name))["blue"] == wanted
        and await scene.condition("MigrationRequired", name) is None
        and await scene.reason(name) in (("", ""), ("True", "Current"))
    )


@pytest.mark.parametrize("seed", seeds(40))
def test_edits_and_deaths(seed: int) -> None:
    """Edits and reversions, migrations that fail, managers that die and two that lead at once: each edit ends."""
    rng = Random(seed)

    async def story(scene: Scene) -> None:
        uids = {name: await scene.start({"blue": "old"}, name) for name in NAMES}
        scene.lead(name="one")
        for _ in range(30):
            await scene.rest(rng.choice([0.0, 0.01, 0.2, 3.0]))
            what = rng.random()
            if what < 0.35:
                await scene.edit(on({"blue": rng.choice(NADS)}), rng.choice(NAMES))
            elif what < 0.75:
                await kubevirt(scene, rng, uids)
            elif what < 0.85:
                await scene.end("one")
                scene.lead(name="one")
            elif what < 0.9 and "two" not in scene.running:
                scene.lead(LocalClient(scene.engine), name="two")
            elif "two" in scene.running:
                await scene.end("two")
        for _ in range(60):
            await scene.rest(30)
            await kubevirt(scene, rng, uids)
        assert [name for name in NAMES if not await is_settled(scene, name)] == []

    play(story, LiveUpdateSettings(limits=Limits(attempts=0)), seed=seed)


@pytest.mark.parametrize("kind", [VIRTUAL_MACHINE_INSTANCES, MIGRATIONS], ids=["instances", "migrations"])
@pytest.mark.parametrize("skip", range(4))
def test_lost_answers(kind: object, skip: int) -> None:
    """A write whose answer is lost has its effect once."""

    async def story(scene: Scene) -> None:
        client = ScriptedClient(LocalClient(scene.engine))
        uid = await scene.start({"blue": "old"})

        async def lose() -> None:
            raise TransportError("no answer")

        client.before(lose, "patch", "create", of=kind, skip=skip)  # type: ignore[arg-type]
        scene.lead(client)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(30)
        await scene.migrate(uid, {"blue": "vms/new"})
        await scene.rest(60)
        assert len(await scene.migrations()) == 1
        assert await is_settled(scene, "vm")

    play(story)


@pytest.mark.slow
def test_two_leaders_that_disagree() -> None:
    """Two leaders, one of which has not seen an edit, undo each other's writes a few times a second at most."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead(StaleClient(LocalClient(scene.engine), VIRTUAL_MACHINES), name="deaf")
        await scene.rest()
        scene.lead(name="other")
        await scene.rest()
        await scene.edit(on({"blue": "new"}))
        before = scene.requests.count("patch", of=VIRTUAL_MACHINE_INSTANCES)
        await scene.rest(60)
        assert 30 < scene.requests.count("patch", of=VIRTUAL_MACHINE_INSTANCES) - before < 200
        assert 1 <= scene.requests.count("create", of=MIGRATIONS) <= 60 / SPACING_SECONDS + 1
        await scene.end("deaf")
        await scene.rest(10)
        assert (await scene.unfinished()).spec.vmi_name == "vm"

    play(story)
