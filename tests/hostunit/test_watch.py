"""Watching profiles without systemd."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from lanloom.hostunit import PERIOD_SECONDS, watch
from tests.harness import virtual


class Directory:
    """Changes that a test makes, and the looks that follow."""

    def __init__(self, look_seconds: float = 1.0) -> None:
        self._changes: asyncio.Queue[int] = asyncio.Queue()
        self._look_seconds = look_seconds
        self.looks: list[float] = []

    def change(self) -> None:
        """Something in it changes."""
        self._changes.put_nowait(1)

    async def changes(self) -> AsyncIterator[None]:
        """Every change."""
        while True:
            await self._changes.get()
            yield

    async def look(self) -> None:
        """One run of the script."""
        self.looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._look_seconds)


async def until(directory: Directory, seconds: float) -> None:
    """Lets it be watched for some time."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await watch(directory.changes(), directory.look)


def test_looks_at_once() -> None:
    """The first look is at the start."""

    async def main() -> None:
        directory = Directory()
        start = asyncio.get_running_loop().time()
        await until(directory, 10)
        assert directory.looks == [start]

    virtual.run(main())


def test_a_change_during_a_look_is_looked_at() -> None:
    """A burst during a look is followed by one more look, and no change is lost."""

    async def main() -> None:
        directory = Directory()
        loop = asyncio.get_running_loop()
        for number in range(200):
            loop.call_later(0.5 + number / 1000, directory.change)
        await until(directory, 10)
        assert len(directory.looks) == 2

    virtual.run(main())


def test_looks_now_and_then() -> None:
    """Without any change it looks again after a while."""

    async def main() -> None:
        directory = Directory()
        await until(directory, 3 * PERIOD_SECONDS)
        assert len(directory.looks) == 3

    virtual.run(main())
