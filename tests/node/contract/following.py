"""Following a port's changes in a test."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from tests.node.contract.node import stays, until


class Heard:
    """How often a generator of changes has yielded."""

    def __init__(self) -> None:
        self.times = 0

    async def more_than(self, times: int) -> None:
        """Waits until it has yielded more often than this."""

        async def more() -> bool:
            return self.times > times

        await until(more)

    async def quiet(self, seconds: float = 0.5) -> int:
        """Waits until nothing was heard for so long; how often it has yielded then."""
        deadline = asyncio.get_running_loop().time() + 30
        while True:
            before = self.times
            await asyncio.sleep(seconds)
            if self.times == before:
                return before
            assert asyncio.get_running_loop().time() < deadline, "it never gets quiet"

    async def nothing_after(self, times: int) -> None:
        """Fails if it yields again within a second."""

        async def same() -> bool:
            return self.times == times

        await stays(same)


@asynccontextmanager
async def following(changes: AsyncGenerator[None, None], poke: Callable[[], object]) -> AsyncIterator[Heard]:
    """Counts what `changes` yields, from when it is heard at all and all is quiet; `poke` makes one change."""
    heard = Heard()

    async def follow() -> None:
        async with aclosing(changes):
            async for _ in changes:
                heard.times += 1

    follower = asyncio.create_task(follow())
    try:
        for _attempt in range(100):
            poke()
            await asyncio.sleep(0.1)
            if heard.times:
                break
        else:
            raise AssertionError("no change was heard: each poke must make one")
        await heard.quiet()
        yield heard
    finally:
        follower.cancel()
        await asyncio.wait((follower,))
        if not follower.cancelled():
            follower.result()
