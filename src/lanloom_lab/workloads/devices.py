"""The devices of a lab's nodes: on each node with a pod that asks for one, a program plays kubelet's device manager."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lanloom_lab.errors import LabError
from lanloom_lab.plan import DEVICE_PLUGINS
from lanloom_lab.workloads.hosts import ExecSession, Hosts, Machines

PROGRAM = ("python3", "-m", "lanloom_lab.workloads.devicemanager")


class DevicesMissing(Exception):
    """A pod's devices can't be given; the message says why, as kubelets do."""


class _Question(Struct, frozen=True):
    line: str
    answer: "asyncio.Future[dict[str, str]]"


class Devices:
    """Asks the nodes' programs, one question after the other on each node. `logs` gives a node's directory of logs.

    A program ends with its node, and with the lab; its checkpoint stays on the node's disk.
    """

    def __init__(self, hosts: Hosts, machines: Machines, *, logs: Callable[[str], Path]) -> None:
        self._hosts = hosts
        self._machines = machines
        self._logs = logs
        self._questions: dict[tuple[str, int], asyncio.Queue[_Question]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep the programs until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            await asyncio.Event().wait()

    async def allocate(self, node: str, uid: str, resources: tuple[str, ...]) -> dict[str, str]:
        """Return the id of a pod's device of each resource.

        Raises DevicesMissing, or LabError where the node does not run.
        """
        answer = await self._ask(node, f"allocate {uid} {' '.join(resources)}")
        if "error" in answer:
            raise DevicesMissing(answer["error"])
        return answer

    async def release(self, node: str, uid: str) -> None:
        """Release what the pod had, which has ended. Raises LabError where the node does not run."""
        await self._ask(node, f"release {uid}")

    async def _ask(self, node: str, line: str) -> dict[str, str]:
        boot = self._machines.boot(node)
        if boot is None or self._group is None:
            raise LabError(f"the node {node} does not run", "It is tried again.")
        key = (node, boot)
        if key not in self._questions:
            self._questions[key] = asyncio.Queue()
            self._group.create_task(self._keep(key), name=f"devices-{node}")
        question = _Question(line, asyncio.get_running_loop().create_future())
        self._questions[key].put_nowait(question)
        return await question.answer

    async def _keep(self, key: tuple[str, int]) -> None:
        """Run the program of one boot of a node for as long as there are answers."""
        node, queue = key[0], self._questions[key]
        error = LabError(f"the device manager of {node} has ended", "It is started again.")
        try:
            log = self._logs(node) / "device-manager.log"
            async with self._hosts.session(node, *PROGRAM, DEVICE_PLUGINS, log=log) as session:
                await self._answer(session, queue)
        except (LabError, OSError) as failure:
            error = failure if isinstance(failure, LabError) else error
        finally:
            del self._questions[key]
            while not queue.empty():
                _fail(queue.get_nowait(), error)

    async def _answer(self, session: ExecSession, queue: "asyncio.Queue[_Question]") -> None:
        lines = session.receive()
        while True:
            question = await queue.get()
            try:
                await session.send_line(question.line)
                question.answer.set_result(await _object(lines))
            except (LabError, OSError, StopAsyncIteration, ValueError) as error:
                _fail(
                    question, LabError(f"the device manager gave no answer: {error}", "It is started again.")
                )
                return


async def _object(lines: AsyncIterator[str]) -> dict[str, str]:
    return dict(json.loads(await anext(lines)))


def _fail(question: _Question, error: LabError) -> None:
    with suppress(asyncio.InvalidStateError):
        question.answer.set_exception(error)
