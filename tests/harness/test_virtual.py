"""The loop that the other tests trust."""

import asyncio
from random import Random

import pytest

from tests.harness.virtual import START, DeadlockError, run


def test_time_jumps() -> None:
    """A sleep of a day ends exactly a day later, at once."""

    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(main()) == START + 86_400


async def _order(count: int) -> list[int]:
    seen: list[int] = []

    async def one(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(number % 3)
            seen.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
    return seen


def test_seed_decides_the_order() -> None:
    """The same seed gives the same interleaving, and other seeds give others."""
    orders = [run(_order(8), rng=Random(seed)) for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3


def test_deadlock_is_an_error() -> None:
    """When every task waits for another one, the error says where."""

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"main at .*test_virtual\.py"):
        run(main())


def test_orphans_end() -> None:
    """Tasks that outlive the main one are cancelled and may clean up in their own time."""
    ended: list[float] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            ended.append(asyncio.get_running_loop().time())

    async def main() -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert not task.done()

    run(main())
    assert ended == [START + 6]


def test_lost_errors_surface() -> None:
    """An error in a task that is not awaited fails the run."""

    async def broken() -> None:
        raise ValueError("lost")

    async def main() -> None:
        task = asyncio.create_task(broken())
        await asyncio.sleep(1)
        del task

    with pytest.raises(ValueError, match="lost"):
        run(main())


def test_threads_are_refused() -> None:
    """Work for a thread is refused, because virtual time can't wait for it."""

    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="thread"):
        run(main())
