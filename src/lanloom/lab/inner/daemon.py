"""The inner daemon: answers the supervisor's requests by starting and stopping nodes and running programs on them."""

import asyncio
import ctypes
import os
from pathlib import Path

from lanloom.lab import protocol
from lanloom.lab.errors import LabError, Refused
from lanloom.lab.inner import node as nodes
from lanloom.lab.inner.capsule import adopt_orphans
from lanloom.lab.inner.execution import execute
from lanloom.lab.inner.switch import Switch
from lanloom.lab.plan import SUPERVISOR_ADDRESS, NodeSpec
from lanloom.lab.protocol import Channel

POWER_OFF = 0x4321FEDC
"""RB_POWER_OFF of reboot(2)."""


class Daemon:
    """The nodes and the switch of one lab. `state` is the lab's state directory as it is seen here."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._switch = Switch(state / "log")
        self._nodes: dict[str, nodes.Node] = {}

    async def serve(self, address: str, port: int) -> None:
        """Answers requests until it is cancelled."""
        adopt_orphans()
        server = await asyncio.start_server(self._accept, address, port, limit=protocol.LINE_MAX)
        async with server:
            await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        peer, *_ = writer.get_extra_info("peername")
        # The nodes are in the management network too, but they have no business here.
        if peer != SUPERVISOR_ADDRESS:
            await channel.close()
            return
        try:
            await self._answer(channel)
        except LabError as error:
            await channel.send(protocol.Failed(type(error).__name__, error.problem, error.remedy))
        except OSError as error:
            text = f"the lab's inner side failed: {error}"
            await channel.send(protocol.Failed("PartFailed", text, "See log/kernel.log in the lab's state."))
        await channel.finish()

    async def _answer(self, channel: Channel) -> None:
        match await channel.receive_request():
            case protocol.Plug(networks):
                await self._switch.build(networks)
                await channel.send(protocol.Done())
            case protocol.Cut(cut):
                await self._switch.cut(cut)
                await channel.send(protocol.Done())
            case protocol.PowerOn(spec):
                await self._power_on(spec)
                await channel.send(protocol.Done())
            case protocol.PowerOff(name):
                if node := self._nodes.pop(name, None):
                    await node.power_off()
                await channel.send(protocol.Done())
            case protocol.Survey():
                await channel.send(self._survey())
            case protocol.Exec(name) as request:
                await execute(channel, self._node(name), request)
            case protocol.Down():
                halt()

    async def _power_on(self, spec: NodeSpec) -> None:
        if spec.name in self._nodes:
            raise Refused(f"the node {spec.name} runs already", "Nothing needs to be done.")
        self._nodes[spec.name] = await nodes.start(spec, self._state / "nodes" / spec.name)

    def _node(self, name: str) -> nodes.Node:
        if node := self._nodes.get(name):
            return node
        remedy = (
            f"`lanloom lab status` shows the nodes; `lanloom lab node start {name}` starts one that is off."
        )
        raise Refused(f"the node {name} does not run", remedy)

    def _survey(self) -> protocol.Programs:
        return protocol.Programs(
            {"": self._switch.report()} | {name: node.report() for name, node in self._nodes.items()}
        )


def halt() -> None:
    """Ends the kernel if this is its PID 1, else the daemon; nothing is lost, as files are the host's."""
    if os.getpid() == 1:
        ctypes.CDLL(None).reboot(POWER_OFF)
    raise SystemExit
