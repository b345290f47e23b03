"""A node with the CNI programs of LANs in its directory, and agents behind their socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lanloom.features.lan.agent.cni import LanCni, cni_socket
from lanloom.features.lan.agent.programs import NAMES, lan_socket, program
from lanloom.runtime.cni import install
from tests.harness.cniruntime import CniRuntime, Raw

DEVICES = {"macvtap": {"deviceID": "redM0"}, "k8slanveth": {"veth": "red", "deviceID": "redV0"}}


def config(program: str = "macvtap", version: str = "1.1.0", **more: Any) -> Raw:
    """A configuration as Multus passes it on, for the spoke `red`."""
    return {"cniVersion": version, "name": f"lan-{program}", "type": program, **DEVICES[program], **more}


class Node:
    """Both programs, which wait for `seconds`."""

    def __init__(self, directory: Path, shim: Path, seconds: int) -> None:
        self.socket = lan_socket(directory / "cni.sock")
        self.programs = directory / "bin"
        for name in NAMES:
            text = program(name, directory / "cni.sock", shim)
            install(self.programs, name, text.replace(b"\nSECONDS = 45\n", b"\nSECONDS = %d\n" % seconds))
        self.runtime = CniRuntime(self.programs)


@asynccontextmanager
async def serving(path: Path, cni: LanCni, **options: Any) -> AsyncIterator[None]:
    """An agent that answers until the block ends."""
    ready = asyncio.Event()
    task = asyncio.create_task(cni_socket(path, cni, on_ready=ready.set, **options).run())
    await ready.wait()
    try:
        yield
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
