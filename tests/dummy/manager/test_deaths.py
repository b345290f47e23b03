"""A manager may die at any request, before its effect or after it; the next one finishes what it began."""

import asyncio

import pytest

from tests.dummy.manager.judge import Judge
from tests.dummy.manager.mortal import Mortal
from tests.dummy.manager.scene import Scene, play

MOST = 200
"""No life is as long as that; a test that gets there never ends."""


async def _die(each: Scene, client: Mortal) -> None:
    """Lets a manager work until it dies or has nothing left to do."""
    each.lead(client)
    await each.whole.wait()
    client.begin()
    done = asyncio.create_task(client.died.wait())
    await asyncio.wait({done}, timeout=15)
    done.cancel()
    await each.end()


async def _make(each: Scene, spec: dict[str, str]) -> None:
    each.lead()
    await each.add(**spec)
    await each.rest(5)
    assert (await each.get()).status.phase == "Ready"
    await each.end()


SPECS: dict[str, dict[str, str]] = {
    "plain": {},
    "with addresses": {"subnet": "10.52.0.0/16", "gateway": "node"},
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_death_in_a_deletion(spec: dict[str, str], after: bool) -> None:
    """Whatever part of a deletion was done, the next manager does the rest, in the right order."""
    lives: list[bool] = []

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        await _make(each, spec)
        await each.delete()
        client = Mortal(each.engine, len(lives) + 1, after=after)
        await _die(each, client)
        lives.append(client.died.is_set())
        each.lead()
        await each.rest(15)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    while not lives or lives[-1]:
        assert len(lives) < MOST
        play(story, "n1", "n2")
    assert len(lives) > 15


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_death_in_the_making(after: bool) -> None:
    """Whatever part of a network was made, the next manager makes the rest, and nothing twice."""
    lives: list[bool] = []

    async def story(each: Scene) -> None:
        await each.add(subnet="10.52.0.0/16")
        client = Mortal(each.engine, len(lives) + 1, after=after)
        await _die(each, client)
        lives.append(client.died.is_set())
        each.lead()
        await each.rest(5)
        network = await each.get()
        assert network.status.phase == "Ready"
        assert len(await each.left()) == len(network.status.resources) == 4

    while not lives or lives[-1]:
        assert len(lives) < MOST
        play(story, "n1")
    assert len(lives) > 8


def test_a_deletion_in_the_middle_of_the_making() -> None:
    """A network that is deleted while a manager that dies makes it is gone in the end, with what was made."""
    lives: list[bool] = []

    async def story(each: Scene) -> None:
        judge = Judge(each.engine)
        await each.add(subnet="10.52.0.0/16")
        client = Mortal(each.engine, len(lives) + 1, after=True)
        await _die(each, client)
        lives.append(client.died.is_set())
        await each.delete()
        each.lead()
        await each.rest(15)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    while not lives or lives[-1]:
        assert len(lives) < MOST
        play(story, "n1")
