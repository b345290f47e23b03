"""The agent's socket: programs' calls as they come from a host, and callers that are none."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from lanloom.runtime.cni.calls import LARGEST, Call, CniError, Raw
from lanloom.runtime.cni.server import CniServer, CniService, keep_serving
from tests.embedded.engine.running import until
from tests.harness.cniagent import install_programs, served
from tests.harness.cniruntime import CniRuntime


async def raw(path: Path, text: bytes, *, end: bool = True) -> bytes:
    """What the server answers to a text."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    if end:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def say(path: Path, text: bytes, *, end: bool = True) -> tuple[int, Raw]:
    """Status and output that the server answers to a text; a size that is wrong fails."""
    head, _, output = (await raw(path, text, end=end)).partition(b"\n")
    status, size = map(int, head.split())
    assert size == len(output)
    return status, json.loads(output or b"{}")


def request(
    command: str, program: str = "one", config: bytes = b'{"cniVersion": "1.1.0", "name": "lan"}'
) -> bytes:
    """A call as the shim sends it."""
    variables = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": "c1",
        "CNI_IFNAME": "net1",
        "CNI_NETNS": "/run/netns/x",
    }
    words = [f"{name}={value}" for name, value in variables.items()]
    return "\0".join(["lanloom-cni 1", program, *words]).encode() + b"\0\0" + config


async def answer(call: Call) -> Raw:
    """Answer every call, and fail at some as an agent with a fault would."""
    if call.command == "STATUS":
        raise CniError(50, "not now", "why")
    if call.command in ("GC", "DEL"):
        raise ZeroDivisionError
    return {"heard": [call.program, call.version]}


ONE = {"one": CniService(answer=answer)}


async def test_each_program_has_its_feature(tmp_path: Path) -> None:
    """Calls go to the feature of the program, which counts them; both know when the socket is there."""
    seen: list[tuple[str, str, str, int]] = []
    told: list[tuple[str, bool]] = []

    def service(name: str, unversioned: str = "") -> CniService:
        async def heard(call: Call) -> Raw:
            return {"by": name, "version": call.version}

        return CniService(
            answer=heard,
            called=lambda *call: seen.append((name, *call)),
            serves=lambda there: told.append((name, there)),
            unversioned=unversioned,
        )

    first = service("first")
    programs = {"one": first, "two": first, "three": service("second", "0.3.0")}
    path = tmp_path / "run/cni.sock"
    task = asyncio.create_task(keep_serving(path, programs, lambda there: told.append(("process", there))))
    await until(lambda: ("second", True) in told)
    assert told == [(name, there) for there in (False, True) for name in ("process", "first", "second")]
    for name in programs:
        status, body = await say(path, request("ADD", name))
        assert (status, body["by"]) == (0, "second" if name == "three" else "first")
    unversioned = b'{"name": "lan"}'
    assert (await say(path, request("ADD", "one", unversioned)))[1]["code"] == 1
    assert (await say(path, request("ADD", "three", unversioned)))[1]["version"] == "0.3.0"
    assert (await say(path, request("ADD", "four")))[1]["code"] == 4
    await say(path, b"lanloom-cni 1\0one\0CNI_COMMAND=FLY\0\0{}")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == [
        ("first", "one", "ADD", 0),
        ("first", "two", "ADD", 0),
        ("second", "three", "ADD", 0),
        ("first", "one", "ADD", 1),
        ("second", "three", "ADD", 0),
        ("first", "", "ADD", 4),
        ("second", "", "ADD", 4),
        ("first", "one", "", 1),
    ]


async def test_only_add_has_a_result(tmp_path: Path) -> None:
    """What a feature returns of another command than ADD is not printed."""

    async def chatty(_call: Call) -> Raw:
        return {"more": "than asked"}

    path = tmp_path / "cni.sock"
    async with served(path, {"one": CniService(answer=chatty)}):
        assert await say(path, request("ADD")) == (0, {"more": "than asked"})
        for command in ("DEL", "CHECK", "STATUS"):
            assert await raw(path, request(command)) == b"0 0\n"


async def test_errors(tmp_path: Path) -> None:
    """An error that was meant is passed on, a fault of the agent's may be tried again; a DEL succeeds all the same."""
    path = tmp_path / "cni.sock"
    heard: list[tuple[str, str, int]] = []
    async with served(path, {"one": CniService(answer=answer, called=lambda *call: heard.append(call))}):
        status, body = await say(path, request("STATUS"))
        assert (status, body["code"], body["msg"], body["details"]) == (1, 50, "not now", "why")
        assert (await say(path, request("GC")))[1]["code"] == 11
        assert await say(path, request("DEL")) == (0, {})
        assert (await say(path, request("DEL", config=b"{")))[1]["code"] == 6
    assert heard == [("one", "STATUS", 50), ("one", "GC", 11), ("one", "DEL", 11), ("one", "DEL", 6)]


async def test_a_program_of_an_earlier_version(tmp_path: Path) -> None:
    """The script of version 0.1, which runs while its agent is replaced, gets in its words to try again."""
    path = tmp_path / "cni.sock"
    body = {
        "version": 1,
        "command": "ADD",
        "config": {"cniVersion": "1.0.0"},
        "container": "c1",
        "interface": "net1",
    }
    async with served(path, ONE):
        error = json.loads(await raw(path, json.dumps(body).encode()))["error"]
    assert error["code"] == 11 and "earlier version" in error["msg"]


async def test_only_its_owner_may_connect(tmp_path: Path) -> None:
    """Only the agent's user can write to the socket, and one that a dead agent left is replaced."""
    path = tmp_path / "cni.sock"
    path.write_text("left")
    async with served(path, ONE):
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.listdir(tmp_path) == ["cni.sock"]


async def test_an_agent_that_takes_the_place_of_another(tmp_path: Path) -> None:
    """An agent that ends while another listens in its place leaves that one's socket alone."""
    path = tmp_path / "cni.sock"
    old = asyncio.create_task(CniServer(path, ONE, users=()).run())
    await until(path.is_socket)
    before = path.stat().st_ino
    async with served(path, ONE):
        await until(lambda: path.stat().st_ino != before)
        old.cancel()
        await asyncio.gather(old, return_exceptions=True)
        assert await say(path, request("ADD")) == (0, {"heard": ["one", "1.1.0"]})


async def test_callers_of_other_users(tmp_path: Path) -> None:
    """Who is neither root nor the agent's user gets no answer, whatever the socket's mode."""
    path = tmp_path / "cni.sock"
    async with served(path, ONE, users=()):
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"[]", 6),
        (b"\xff\xff", 6),
        (b"lanloom-cni 1", 6),
        (b"lanloom-cni 2\0one\0CNI_COMMAND=ADD\0\0{}", 6),
        (b"lanloom-cni 1\0one\0CNI_COMMAND=ADD\0\0" + b"[" * 100_000, 6),
        (request("FLY"), 4),
        (request("ADD", config=b'{"cniVersion": "0.2.0"}'), 1),
        (b" " * (LARGEST + 10), 6),
    ],
)
async def test_requests_that_cannot_be_read(tmp_path: Path, text: bytes, code: int) -> None:
    """What is no request is an error of CNI's, and the next one is answered."""
    path = tmp_path / "cni.sock"
    async with served(path, ONE):
        status, body = await say(path, text)
        assert (status, body["code"]) == (1, code)
        assert (await say(path, request("ADD")))[0] == 0


async def test_a_caller_that_says_nothing(tmp_path: Path) -> None:
    """A probe whether the agent listens gets no answer, and is not counted as a call."""
    path, seen = tmp_path / "cni.sock", list[object]()
    async with served(path, {"one": CniService(answer=answer, called=lambda *call: seen.append(call))}):
        assert await raw(path, b"") == b""
    assert seen == []


async def test_a_caller_that_never_ends(tmp_path: Path) -> None:
    """A caller that does not come to an end gets an error after a while."""
    path = tmp_path / "cni.sock"
    async with served(path, ONE, patience=0.05):
        assert (await say(path, b"{", end=False))[1]["code"] == 6


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """An agent that can't listen tries again, and listens once it can."""
    (tmp_path / "file").write_text("")
    told: list[bool] = []
    seen = asyncio.Event()

    def tell(there: bool) -> None:
        told.append(there)
        seen.set()

    path = tmp_path / "file/cni.sock"
    task = asyncio.create_task(keep_serving(path, ONE, tell, retry=0.001))
    while len(told) < 2:
        seen.clear()
        await seen.wait()
    assert not any(told)
    (tmp_path / "file").unlink()
    while not told[-1]:
        seen.clear()
        await seen.wait()
    assert (await say(path, request("ADD")))[0] == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not path.exists()


async def test_many_at_once(tmp_path: Path) -> None:
    """A hundred programs at once are all answered, each with its own."""
    path = tmp_path / "cni.sock"
    install_programs(("one",), tmp_path / "bin", path)
    runtime = CniRuntime(tmp_path / "bin")
    config = {"cniVersion": "1.1.0", "name": "lan", "type": "one"}

    async def heard(call: Call) -> Raw:
        await asyncio.sleep(0)
        return {"interface": call.interface}

    async with served(path, {"one": CniService(answer=heard)}):
        names = [f"net{number}" for number in range(100)]
        results = await asyncio.gather(
            *(runtime.call("one", "ADD", config, CNI_IFNAME=name) for name in names)
        )
    assert [each.result["interface"] for each in results] == names
