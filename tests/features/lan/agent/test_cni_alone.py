"""The CNI programs of LANs where the agent is away, slow, or dies in the middle of an answer."""

import asyncio
import os
from pathlib import Path

import pytest

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.programs import lan_socket, program
from tests.cni.runtime import imports_of_old_python
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, answering, config, serving

WITHOUT_AGENT = [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)]


@pytest.mark.parametrize(("command", "code"), WITHOUT_AGENT)
@pytest.mark.parametrize("name", ["macvtap", "k8slanveth"])
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
    """What is wrong with a call whatever an agent says is told without one, also to a DEL."""
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
async def test_an_agent_that_never_answers(hasty_node: Node, spokes: FakeSpokes) -> None:
    """A call ends within its limit although the agent keeps silent."""

    async def never() -> None:
        await asyncio.Event().wait()

    spokes.gate = never
    async with serving(hasty_node.socket, LanCni(spokes)):
        results = await asyncio.gather(
            *(hasty_node.runtime.call("macvtap", command, config()) for command in ("ADD", "DEL"))
        )
    assert results[0].error["code"] == 11
    assert results[1].status == 0


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


async def test_an_agent_that_gives_up_first(node: Node, spokes: FakeSpokes) -> None:
    """The agent tells by error 11 that the data plane takes too long."""

    async def never() -> None:
        await asyncio.Event().wait()

    spokes.gate = never
    seconds = dict.fromkeys(("ADD", "DEL", "CHECK", "GC", "STATUS"), 0.01)
    async with serving(node.socket, LanCni(spokes, seconds=seconds)):
        error = (await node.runtime.call("macvtap", "ADD", config())).error
        assert (await node.runtime.call("macvtap", "DEL", config())).status == 0
    assert error["code"] == 11 and "0.01 s" in error["msg"]


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


def test_a_socket_with_too_long_a_path(tmp_path: Path) -> None:
    """A path that no socket can have is refused when the program is made."""
    with pytest.raises(ValueError, match="too long"):
        program("macvtap", tmp_path / ("a" * 100) / "cni.sock")


def test_a_shim_of_another_version(tmp_path: Path) -> None:
    """A compiled shim that speaks another protocol is not installed; the script is."""
    (tmp_path / "shim").write_bytes(b"lanloom-cni-shim 2 " + b"\0" * 200)
    text = program("k8slanveth", tmp_path / "cni.sock", tmp_path / "shim")
    assert text.startswith(b"#!/bin/sh") and b"the CNI plugin k8slanveth needs Python" in text
    assert str(lan_socket(tmp_path / "cni.sock")).encode() in text


def test_the_script_runs_with_old_pythons(tmp_path: Path) -> None:
    """The script is one that Python 3.6 can read, and it imports only what that has."""
    names = imports_of_old_python(program("macvtap", tmp_path / "cni.sock", tmp_path / "none"))
    assert names == {"collections.abc", "json", "os", "re", "signal", "socket", "sys"}
