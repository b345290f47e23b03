"""The same without systemd: watches the profiles in the foreground and runs the unit's own script."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path

from lanloom.app.hostunit.errors import HostError
from lanloom.app.hostunit.files import SCRIPT

PERIOD_SECONDS = 120.0
"""How often to look although nothing seems to happen, like the unit's timer."""


async def watch(changes: AsyncIterator[None], look: Callable[[], Awaitable[None]]) -> None:
    """Looks at once, after changes (a burst is one look, or two) and from time to time, until cancelled."""
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_note(changes, changed))
        while True:
            changed.clear()
            await look()
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_SECONDS):
                    await changed.wait()


async def _note(changes: AsyncIterator[None], changed: asyncio.Event) -> None:
    async for _ in changes:
        changed.set()


async def run_script(profiles: Path, memory: Path) -> None:
    """One run of the script; what it has to say goes to standard error. Raises HostError where there is no bash."""
    with resources.as_file(resources.files(__package__) / SCRIPT.name) as script:
        words = ["bash", "--", os.fspath(script), os.fspath(profiles), os.fspath(memory)]
        try:
            process = await asyncio.create_subprocess_exec(*words)
        except FileNotFoundError:
            raise HostError("there is no bash on this host", "Install it.") from None
        await process.wait()
