"""The agent's socket: the plugin's calls as they come from a host, and callers that are none."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from lanloom.features.ipam.agent import PROGRAM, program, serve_cni
from lanloom.features.ipam.agent.server import LARGEST, CniServer, Raw, Request
from lanloom.kube.ports import Client
from lanloom.runtime.callsocket import CniError
from lanloom.runtime.cni import keep_installed
from tests.cni.runtime import CONFIG, Answer, Runtime
from tests.embedded.engine.running import until
from tests.features.ipam.agent.cluster import AgentCluster
from tests.features.ipam.agent.objects import args
from tests.features.ipam.agent.sockets import serving
from tests.harness.cluster import installed


async def say(path: Path, text: bytes, *, end: bool = True) -> Raw:
    """What the server answers to a text."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    if end:
        writer.write_eof()
    answer: Raw = json.loads(await reader.read())
    writer.close()
    return answer


async def nothing(request: Request) -> Raw:
    """Answer every call, and fail at some as an agent with a fault would."""
    if request.command == "STATUS":
        raise CniError(50, "not now", "why")
    if request.command == "GC":
        raise ZeroDivisionError
    return {"heard": request.command}


async def _agent(client: Client, socket: Path, programs: Path, parts: dict[str, bool]) -> None:
    """An agent's socket, and its program in a directory."""
    await asyncio.gather(
        serve_cni(client, "node1", socket, now=lambda: 0.0, rng=Random(1), on_part=parts.__setitem__),
        keep_installed({PROGRAM: program(socket)}, programs, parts.__setitem__, every=0.01),
    )


@asynccontextmanager
async def served_cluster() -> AsyncIterator[AgentCluster]:
    """The cluster on the loop of sockets, in real time."""
    storage = await asyncio.to_thread(installed, *AgentCluster.kinds)
    async with AgentCluster(storage) as cluster:
        yield cluster


async def test_from_the_runtime_to_the_nic(tmp_path: Path) -> None:
    """A runtime's call reaches the API through plugin and agent, and the addresses come back; DEL gives them back."""
    async with served_cluster() as cluster:
        uid = await cluster.pod()
        socket = tmp_path / "run/cni.sock"
        task = asyncio.create_task(serve_cni(cluster.client, "node1", socket, now=lambda: 0.0, rng=Random(1)))
        await until(socket.is_socket)
        runtime = Runtime(tmp_path / "bin", socket)

        async def call(command: str) -> Answer:
            return await asyncio.to_thread(
                runtime.call, CONFIG, CNI_COMMAND=command, CNI_ARGS=args("web", uid)
            )

        added = await call("ADD")
        assert added.json["ips"] == [{"address": "192.0.2.10/24", "gateway": "192.0.2.1"}]
        (nic,) = await cluster.nics()
        assert nic.status.ips == ("192.0.2.10",)
        refused = await asyncio.to_thread(runtime.call, CONFIG, CNI_ARGS=args("nobody"))
        assert refused.code == 3
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not socket.exists()
        assert (await call("ADD")).code == 11
        assert (await call("DEL")).status == 0


async def test_only_its_owner_may_connect(tmp_path: Path) -> None:
    """Nobody but the agent's user can write to the socket, and one that a dead agent left is replaced."""
    path = tmp_path / "cni.sock"
    path.write_text("left")
    async with serving(path, nothing):
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.listdir(tmp_path) == ["cni.sock"]


async def test_an_agent_that_takes_the_place_of_another(tmp_path: Path) -> None:
    """An agent that ends while another listens in its place leaves that one's socket alone."""
    path = tmp_path / "cni.sock"
    old = asyncio.create_task(CniServer(path, nothing, users=()).run())
    await until(path.is_socket)
    before = path.stat().st_ino
    async with serving(path, nothing):
        await until(lambda: path.stat().st_ino != before)
        old.cancel()
        await asyncio.gather(old, return_exceptions=True)
        body = {"version": 1, "command": "DEL", "config": {}}
        assert await say(path, json.dumps(body).encode()) == {"result": {"heard": "DEL"}}


async def test_callers_of_other_users(tmp_path: Path) -> None:
    """Who is neither root nor the agent's user gets no answer, whatever the socket's mode."""
    path = tmp_path / "cni.sock"
    async with serving(path, nothing, users=()):
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xff",
        b"[" * 100_000,
        b'{"version": 2, "command": "ADD", "config": {}}',
        b'{"version": 1, "command": "FLY", "config": {}}',
        b'{"version": 1, "command": "ADD", "config": []}',
        b'{"version": 1, "command": "ADD", "config": {}, "args": 1}',
        b" " * (LARGEST + 10),
    ],
)
async def test_requests_that_cannot_be_read(tmp_path: Path, text: bytes) -> None:
    """What is no request is an error of CNI's, and the next one is answered."""
    path = tmp_path / "cni.sock"
    async with serving(path, nothing):
        answer = await say(path, text)
        assert answer["error"]["code"] == 6
        good = {"version": 1, "command": "DEL", "config": {}, "of a later version": 1}
        assert await say(path, json.dumps(good).encode()) == {"result": {"heard": "DEL"}}


async def test_a_caller_that_says_nothing(tmp_path: Path) -> None:
    """Who only looks whether somebody listens gets no answer, and is not counted as a call."""
    path, seen = tmp_path / "cni.sock", list[str]()
    async with serving(path, nothing, observe=lambda command, _code: seen.append(command)):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    assert seen == []


async def test_a_caller_that_never_ends(tmp_path: Path) -> None:
    """A caller that does not come to an end is told so after a while."""
    path = tmp_path / "cni.sock"
    async with serving(path, nothing, patience=0.05):
        assert (await say(path, b"{", end=False))["error"]["code"] == 6


async def test_errors(tmp_path: Path) -> None:
    """An error that was meant is passed on, a fault of the agent's is one that may be tried again; all are counted."""
    path = tmp_path / "cni.sock"
    heard: list[tuple[str, int]] = []
    async with serving(path, nothing, observe=lambda *call: heard.append(call)):
        for command, code in (("STATUS", 50), ("GC", 11)):
            body = {"version": 1, "command": command, "config": {}}
            assert (await say(path, json.dumps(body).encode()))["error"]["code"] == code
        await say(path, b"{")
        await say(path, b'{"version": 1, "command": "DEL", "config": {}}')
    assert heard == [("STATUS", 50), ("GC", 11), ("", 6), ("DEL", 0)]


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """An agent that can't listen goes on without, and one that can't install the plugin listens all the same."""
    (tmp_path / "file").write_text("")
    socket = tmp_path / "cni.sock"
    async with served_cluster() as cluster:
        lost = tmp_path / "file/cni.sock"
        await serve_cni(cluster.client, "node1", lost, now=lambda: 0.0, rng=Random(1))
        parts = dict[str, bool]()
        task = asyncio.create_task(_agent(cluster.client, socket, tmp_path / "file/bin", parts))
        await until(lambda: parts == {"plugin": False, "socket": True})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_plugin_that_is_taken_away(tmp_path: Path) -> None:
    """The plugin is put back when it is gone or changed, and it is told whether plugin and socket are there."""
    path, parts = tmp_path / "bin/lanloom-ipam", dict[str, bool]()
    async with served_cluster() as cluster:
        agent = _agent(cluster.client, tmp_path / "run/cni.sock", tmp_path / "bin", parts)
        task = asyncio.create_task(agent)
        await until(lambda: parts == {"plugin": True, "socket": True})
        path.unlink()
        await until(path.is_file)
        path.unlink()
        path.mkdir()
        await until(lambda: not parts["plugin"])
        path.rmdir()
        await until(lambda: parts["plugin"])
        assert path.is_file() and parts["socket"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
