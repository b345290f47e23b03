"""Processes of a simulated cluster: they start with nothing, and die wherever they happen to be.

Nothing that a dead process had still to do reaches the world: its ports ask its `Life` before each effect, so that
not even the `finally` blocks that cancellation runs can do what `kill -9` would have prevented.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Life:
    """Whether a process is alive. `countdown` makes it die at that many passes of its ports from now."""

    def __init__(self) -> None:
        self.dead = False
        self.countdown = 0
        self.died = asyncio.Event()

    def check(self) -> None:
        """Lets a living process pass. To a dead one it is as if it had been cancelled right there."""
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                self.end()
        if self.dead:
            raise asyncio.CancelledError

    def end(self) -> None:
        """The process is dead from now on."""
        self.dead = True
        self.died.set()


Main = Callable[[Life], Coroutine[Any, Any, None]]


class Process:
    """A program that can be started again and again, each time with a new life and without a memory."""

    def __init__(self, name: str, main: Main) -> None:
        self.name = name
        self.crashes: list[BaseException] = []
        self._main = main
        self._life: Life | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not ended since."""
        return self._task is not None

    def start(self) -> None:
        """Begins a new life."""
        if self._task is None:
            self._life = Life()
            self._task = asyncio.create_task(self._run(self._life), name=self.name)

    async def kill(self) -> None:
        """`kill -9`: nothing that it does from now on has an effect."""
        if self._life is not None:
            self._life.end()
        await self.stop()

    async def kill_within(self, passes: int, seconds: float) -> None:
        """Kills it in the middle of something: at its port's pass number `passes`, or after so many seconds."""
        life = self._life
        if life is None:
            return
        life.countdown = passes
        try:
            async with asyncio.timeout(seconds):
                await life.died.wait()
        except TimeoutError:
            pass
        if self._life is life:
            await self.kill()

    async def revive(self) -> None:
        """Sees that it runs and is not about to die."""
        if self._life is not None:
            self._life.countdown = 0
            if self._life.dead:
                await self.kill()
        self.start()

    async def stop(self) -> None:
        """SIGTERM: it may still clean up."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, life: Life) -> None:
        try:
            await self._main(life)
        except Exception as error:
            if not life.dead:
                self.crashes.append(error)
            raise
        else:
            self.crashes.append(RuntimeError(f"the process {self.name} ended by itself"))
