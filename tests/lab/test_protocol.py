"""What the parts of a lab say to each other."""

import asyncio
from pathlib import Path

import pytest

from lanloom_lab import protocol
from lanloom_lab.errors import Refused
from lanloom_lab.protocol import Channel, InnerClient


def inside(path: Path) -> InnerClient:
    """A line to whatever listens on a Unix socket."""
    return InnerClient(lambda: asyncio.open_unix_connection(str(path)))


async def listen(path: Path, *answers: protocol.Message) -> asyncio.Server:
    """A daemon that reads a request, gives these answers and hangs up."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        await channel.receive_request()
        for answer in answers:
            await channel.send(answer)
        await channel.finish()

    return await asyncio.start_unix_server(accept, str(path))


@pytest.mark.parametrize(
    "message",
    [
        protocol.Output("stderr", bytes(range(256))),
        protocol.Input(b""),
        protocol.Exited(137),
        protocol.Programs({"node1": (protocol.Program("agent", True, 2),)}),
    ],
)
def test_a_message_survives_the_wire(message: protocol.AnyMessage) -> None:
    """Encoding and decoding give the same message, also for bytes that are no text."""
    assert protocol.decode_message(protocol.encode(message)) == message


async def test_an_answer_comes_back(tmp_path: Path) -> None:
    """The answer to a request is what the other side sent."""
    async with await listen(tmp_path / "s", protocol.Done()):
        assert await inside(tmp_path / "s").ask(protocol.Survey()) == protocol.Done()


async def test_an_error_comes_back(tmp_path: Path) -> None:
    """An error of the other side is raised here with its class and text."""
    async with await listen(tmp_path / "s", protocol.Failed("Refused", "no such node", "Add it.")):
        with pytest.raises(Refused, match=r"no such node\nAdd it\."):
            await inside(tmp_path / "s").ask(protocol.Survey())


async def test_what_was_said_last_is_heard_by_who_still_speaks(tmp_path: Path) -> None:
    """All that a program printed, and its exit status, come through a relay to a caller who goes on sending input."""
    ended = asyncio.Event()

    async def program(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        await channel.receive_request()
        await channel.send(protocol.Output("stdout", b"all"))
        await channel.send(protocol.Exited(3))
        ended.set()
        await channel.finish()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        request = await channel.receive_request()
        assert request
        await inside(tmp_path / "daemon").relay(request, channel)
        await channel.finish()

    async with (
        await asyncio.start_unix_server(program, str(tmp_path / "daemon")),
        await asyncio.start_unix_server(relay, str(tmp_path / "relay")),
    ):
        caller = Channel(*await asyncio.open_unix_connection(str(tmp_path / "relay")))
        await caller.send(protocol.Exec("node1", ("true",)))
        await ended.wait()
        for _ in range(100):
            await caller.send(protocol.Input(b"y"))
            await asyncio.sleep(0)
        assert await caller.receive() == protocol.Output("stdout", b"all")
        assert await caller.receive() == protocol.Exited(3)
        await caller.close()


async def test_waiting_ends_when_the_daemon_answers(tmp_path: Path) -> None:
    """Waiting for the daemon bears refused connections and ends with the first answer."""
    waiting = asyncio.create_task(inside(tmp_path / "s").wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    async with await listen(tmp_path / "s", protocol.Programs({})):
        await asyncio.wait_for(waiting, 10)
