"""The shim, compiled for a test, installed under the names of programs, and agents behind its socket."""

import asyncio
import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from lanloom.runtime.cni.programs import install, program
from lanloom.runtime.cni.server import CniServer, CniService

SCRIPT = Path(__file__).parents[2] / "scripts/shim"


@cache
def shim(seconds: int = 45, compiler: str = "cc") -> Path:
    """The shim that waits for so many seconds, until the process ends."""
    directory = tempfile.mkdtemp(prefix="lanloom-shim-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = Path(directory) / "cni-shim"
    subprocess.run([SCRIPT, target, f"-DSECONDS={seconds}"], env={**os.environ, "CC": compiler}, check=True)
    return target


def install_programs(names: Iterable[str], directory: Path, socket: Path, seconds: int = 45) -> None:
    """Install the shim under these names, for an agent that listens at `socket`."""
    for name in names:
        install(directory, name, program(socket, shim(seconds)))


@asynccontextmanager
async def served(path: Path, programs: dict[str, CniService], **options: Any) -> AsyncIterator[CniServer]:
    """An agent that answers these programs until the block ends."""
    ready = asyncio.Event()
    server = CniServer(path, programs, on_ready=ready.set, **options)
    task = asyncio.create_task(server.run())
    await ready.wait()
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def answering(path: Path, answer: Callable[[bytes], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Something in the agent's place that reads a request and says anything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await answer(await reader.read()))
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        server.close()
