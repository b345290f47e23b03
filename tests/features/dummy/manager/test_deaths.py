"""A manager may die at any request, before its effect or after it; the next one finishes what it began."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.features.dummy.manager.judge import Judge
from tests.features.dummy.manager.scene import DyingClient, Scene, play

MOST = 200
"""No life is as long as that; a test that gets there never ends."""


async def _die(each: Scene, client: DyingClient) -> None:
    """Lets a manager work until it dies or has nothing left to do."""
    each.lead(client)
    await each.whole.wait()
    client.begin()
    done = asyncio.create_task(client.died.wait())
    await asyncio.wait({done}, timeout=15)
    done.cancel()
    await each.kill("manager")


def _at_every_request(
    story: Callable[[Scene, Callable[[], Awaitable[None]]], Awaitable[None]], *nodes: str, after: bool
) -> int:
    """Plays the story with a death at each request of the manager that works when it says so; how many there were."""
    lives: list[bool] = []

    async def once(each: Scene) -> None:
        async def work() -> None:
            client = DyingClient(each.engine, len(lives) + 1, after=after)
            await _die(each, client)
            lives.append(client.died.is_set())

        await story(each, work)

    while not lives or lives[-1]:
        assert len(lives) < MOST
        play(once, *nodes)
    return len(lives)


async def _make(each: Scene, spec: dict[str, str]) -> None:
    each.lead()
    await each.add(**spec)
    await each.rest(5)
    assert (await each.get()).status.phase == "Ready"
    await each.kill("manager")


SPECS: dict[str, dict[str, str]] = {
    "plain": {},
    "with addresses": {"subnet": "10.52.0.0/16", "gateway": "node"},
}


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_death_in_a_deletion(spec: dict[str, str], after: bool) -> None:
    """Whatever part of a deletion was done, the next manager does the rest, in the right order."""

    async def story(each: Scene, work: Callable[[], Awaitable[None]]) -> None:
        judge = Judge(each.engine)
        await _make(each, spec)
        await each.delete()
        await work()
        each.lead()
        await each.rest(15)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    assert _at_every_request(story, "n1", "n2", after=after) > 15


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_death_in_the_making(after: bool) -> None:
    """Whatever part of a network was made, the next manager makes the rest, and nothing twice."""

    async def story(each: Scene, work: Callable[[], Awaitable[None]]) -> None:
        await each.add(subnet="10.52.0.0/16")
        await work()
        each.lead()
        await each.rest(5)
        network = await each.get()
        assert network.status.phase == "Ready"
        assert len(await each.left()) == len(network.status.resources) == 4

    assert _at_every_request(story, "n1", after=after) > 8


@pytest.mark.slow
def test_a_deletion_in_the_middle_of_the_making() -> None:
    """A network that is deleted while a manager that dies makes it is gone in the end, with what was made."""

    async def story(each: Scene, work: Callable[[], Awaitable[None]]) -> None:
        judge = Judge(each.engine)
        await each.add(subnet="10.52.0.0/16")
        await work()
        await each.delete()
        each.lead()
        await each.rest(15)
        assert await each.is_gone()
        assert await each.left() == []
        assert judge.wrong == []

    assert _at_every_request(story, "n1", after=True) > 8
