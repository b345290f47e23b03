"""The shim as a runtime runs it: where the agent is there, away, slow, of another version, or dies in an answer."""

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from lanloom.runtime.cni.calls import Call
from lanloom.runtime.cni.programs import install, program
from lanloom.runtime.cni.server import CniService
from tests.harness.cniagent import answering, install_programs, served, shim
from tests.harness.cniruntime import CniRuntime, Raw

PROGRAMS = ("macvtap", "k8slanveth", "lanloom-ipam")


class Node:
    """The programs, which wait for `seconds`, with an agent's socket."""

    def __init__(self, directory: Path, seconds: int = 45) -> None:
        self.socket, self.programs = directory / "cni.sock", directory / "bin"
        install_programs(PROGRAMS, self.programs, self.socket, seconds)
        self.runtime = CniRuntime(self.programs)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with the programs as they are installed."""
    return Node(tmp_path)


@pytest.fixture
def hasty_node(tmp_path: Path) -> Node:
    """A node with programs that give up after seconds, and not before they have their input."""
    return Node(tmp_path, 3)


def config(name: str = "macvtap", version: str = "1.1.0", **more: Any) -> Raw:
    """A configuration."""
    return {"cniVersion": version, "name": "lan", "type": name, **more}


def services(answer: Callable[[Call], Awaitable[Raw | None]]) -> dict[str, CniService]:
    """What an agent answers every program."""
    return dict.fromkeys(PROGRAMS, CniService(answer=answer))


WITHOUT_AGENT = [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)]


@pytest.mark.parametrize(("command", "code"), WITHOUT_AGENT)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_no_agent(node: Node, name: str, command: str, code: int) -> None:
    """Without an agent each command fails with its number, in the version of the configuration."""
    error = (await node.runtime.call(name, command, config(name))).error
    assert (error["code"], error["cniVersion"]) == (code, "1.1.0")
    assert "agent" in error["msg"]


async def test_an_end_without_an_agent(node: Node) -> None:
    """DEL succeeds without an agent, and says on standard error that nothing needs to be done."""
    outcome = await node.runtime.call("macvtap", "DEL", config())
    assert (outcome.status, outcome.output) == (0, b"")
    assert "nothing needs to be done" in outcome.complaint


async def test_versions_without_an_agent(node: Node) -> None:
    """VERSION answers always."""
    outcome = await node.runtime.call("macvtap", "VERSION", config(version="1.0.0"))
    assert outcome.result["cniVersion"] == "1.0.0"


async def test_what_is_wrong_without_an_agent(node: Node) -> None:
    """What is wrong with a call whatever an agent says is reported without one, also to a DEL."""
    assert (await node.runtime.call("macvtap", "EAT", config())).error["code"] == 4
    assert (await node.runtime.call("macvtap", "DEL", b" " * (1 << 21))).error["code"] == 6
    assert (await node.runtime.call("macvtap", "DEL", config(), CNI_ARGS="a" * 70_000)).error["code"] == 4


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"0",
        b"0 10\nabc",
        b"0 3\nabcd",
        b"0 -1\n",
        b"7 99999999\n",
        b"x 2\n{}",
        b"\0" * 9,
        b"0 2 {}",
        b"\xff\xfe",
    ],
)
async def test_an_agent_that_dies_in_the_middle(node: Node, answer: bytes) -> None:
    """An answer that is not whole is as none: ADD is to be tried again, DEL succeeds, STATUS is 50."""

    async def say(_request: bytes) -> bytes:
        return answer

    async with answering(node.socket, say):
        assert (await node.runtime.call("macvtap", "ADD", config())).error["code"] == 11
        assert (await node.runtime.call("macvtap", "STATUS", config())).error["code"] == 50
        assert (await node.runtime.call("macvtap", "DEL", config())).status == 0


@pytest.mark.slow
async def test_an_agent_that_never_answers(hasty_node: Node) -> None:
    """A call ends within its limit although the agent keeps silent."""

    async def never(_call: Call) -> None:
        await asyncio.Event().wait()

    async with served(hasty_node.socket, services(never)):
        results = await asyncio.gather(
            *(hasty_node.runtime.call("macvtap", command, config()) for command in ("ADD", "DEL"))
        )
    assert results[0].error["code"] == 11
    assert results[1].status == 0


@pytest.mark.slow
async def test_an_agent_that_accepts_nobody(hasty_node: Node) -> None:
    """A call ends within its limit although the agent's queue of connections is full."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listening, waiting:
        listening.bind(str(hasty_node.socket))
        listening.listen(0)
        waiting.connect(str(hasty_node.socket))
        outcome = await hasty_node.runtime.call("macvtap", "ADD", config())
    assert outcome.error["code"] == 11


@pytest.mark.slow
async def test_an_agent_that_does_not_read(hasty_node: Node) -> None:
    """A call ends within its limit although the agent does not take what is sent."""

    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    server = await asyncio.start_unix_server(serve, hasty_node.socket, limit=1024)
    outcome = await hasty_node.runtime.call("macvtap", "ADD", config(text="x" * 1_000_000))
    assert outcome.error["code"] == 11
    server.close()


@pytest.mark.slow
async def test_an_answer_that_drips(hasty_node: Node) -> None:
    """An agent that sends a byte now and then does not prolong a call."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        try:
            while True:
                writer.write(b"0")
                await writer.drain()
                await asyncio.sleep(0.05)
        except OSError:
            ended.set()
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, hasty_node.socket)
    assert (await hasty_node.runtime.call("macvtap", "ADD", config())).error["code"] == 11
    await ended.wait()
    server.close()


@pytest.mark.slow
async def test_an_input_that_never_ends(hasty_node: Node) -> None:
    """A call whose configuration never comes ends with error 6."""
    process = await asyncio.create_subprocess_exec(
        hasty_node.programs / "macvtap",
        env={"CNI_COMMAND": "ADD"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdin is not None
    output = await process.stdout.read()
    assert await process.wait() == 1
    assert b'"code": 6' in output
    process.stdin.close()


async def test_an_answer_of_a_mebibyte(node: Node) -> None:
    """An answer as large as allowed arrives whole."""

    async def say(_request: bytes) -> bytes:
        return b"0 %d\n" % (1 << 20) + b"x" * (1 << 20)

    async with answering(node.socket, say):
        assert len((await node.runtime.call("macvtap", "ADD", config())).output) == 1 << 20


async def test_what_the_agent_hears(node: Node) -> None:
    """The request is the name, each variable of CNI's and no other, and standard input as it came."""
    heard = []

    async def say(request: bytes) -> bytes:
        heard.append(request)
        return b"0 0\n"

    given = b'{"any": "\0thing"}\n'
    async with answering(node.socket, say):
        await node.runtime.call("k8slanveth", "DEL", given, HOME="/root")
    head, text = heard[0].split(b"\0\0", 1)
    magic, name, *variables = head.split(b"\0")
    assert (magic, name, text) == (b"lanloom-cni 1", b"k8slanveth", given)
    expected = {**node.runtime.variables, "CNI_COMMAND": "DEL"}
    assert sorted(variables) == sorted(os.fsencode(f"{key}={value}") for key, value in expected.items())


async def test_an_agent_of_an_earlier_version(node: Node) -> None:
    """An agent of version 0.1, which wants JSON, is one that does not answer: ADD is tried again, DEL succeeds."""

    async def earlier(request: bytes) -> bytes:
        assert not request.startswith(b"{")
        return b'{"error": {"code": 6, "msg": "the agent can\'t read the plugin\'s request", "details": "x"}}'

    async with answering(node.socket, earlier):
        assert (await node.runtime.call("lanloom-ipam", "ADD", config())).error["code"] == 11
        assert (await node.runtime.call("lanloom-ipam", "STATUS", config())).error["code"] == 50
        assert (await node.runtime.call("lanloom-ipam", "DEL", config())).status == 0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (b'{"cniVersion": "0.4.0"}', "0.4.0"),
        (b'{"name":"a","cniVersion"\n\t:  "1.0.0","x":1}', "1.0.0"),
        (b'{"cniVersion": "7.0.0"}', "1.1.0"),
        (b'{"cniVersion": "1.0.0', "1.1.0"),
        (b'{"cniVersion": 1}', "1.1.0"),
        (b'{"cniVersion":', "1.1.0"),
        (b'"cniVersion"', "1.1.0"),
        (b'{"cniVersion": ", 0.3."}', "1.1.0"),
        (b"\0\xff" * 1000, "1.1.0"),
        (b"", "1.1.0"),
    ],
)
async def test_the_version_of_an_error(node: Node, text: bytes, version: str) -> None:
    """An error that the shim tells by itself is in the version of the configuration, the newest where that has none."""
    assert (await node.runtime.call("macvtap", "ADD", text)).error["cniVersion"] == version
    known = await node.runtime.call("macvtap", "VERSION", text, *node.runtime.variables)
    assert known.result == {
        "cniVersion": version,
        "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    }


INTERPRETER, DYNAMIC = 3, 2
"""Types of program headers."""


def headers(path: Path) -> list[int]:
    """The types of the program headers of an ELF file."""
    content = path.read_bytes()
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<I", content, start + number * size)[0] for number in range(count)]


def test_it_needs_no_library() -> None:
    """The program asks for no interpreter and no library, so it runs on a node with any C library, or none."""
    assert not {INTERPRETER, DYNAMIC} & set(headers(shim()))
    assert shim().stat().st_size < 10_000


ARM64 = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static")


@pytest.mark.skipif(not all(map(shutil.which, ARM64)), reason=f"needs {' and '.join(ARM64)}")
async def test_it_runs_on_arm64(tmp_path: Path) -> None:
    """The program for arm64 hands over a call and prints the answer as that for amd64 does."""
    compiler, machine = ARM64
    target = shim(compiler=compiler)
    assert not {INTERPRETER, DYNAMIC} & set(headers(target))
    path = tmp_path / "bin/macvtap"
    install(path.parent, path.name, program(tmp_path / "cni.sock", target))

    async def answer(call: Call) -> Raw:
        return {"heard": [call.program, call.command, call.container, call.config["text"]]}

    def call(command: str) -> subprocess.CompletedProcess[bytes]:
        variables = {**CniRuntime(path.parent).variables, "CNI_COMMAND": command}
        text = json.dumps(config(text="x" * 100_000)).encode()
        return subprocess.run([machine, path], input=text, env=variables, capture_output=True, check=False)

    assert json.loads((await asyncio.to_thread(call, "ADD")).stdout)["code"] == 11
    async with served(tmp_path / "cni.sock", services(answer)):
        added = await asyncio.to_thread(call, "ADD")
    assert json.loads(added.stdout) == {"heard": ["macvtap", "ADD", "c0ffee", "x" * 100_000]}
    deleted = await asyncio.to_thread(call, "DEL")
    assert (deleted.returncode, deleted.stdout) == (0, b"") and b"nothing needs to be done" in deleted.stderr
