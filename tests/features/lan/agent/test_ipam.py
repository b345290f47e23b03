"""Addresses of IPAM programs, from a runtime's call over both programs and the agent to the data plane."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import pytest

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ipam import SECONDS, Ipam
from lanloom.features.lan.agent.ipamprocess import IpamViews
from lanloom.features.lan.agent.ports import SpokeError
from lanloom.features.lan.agentoptions import IPAM_PROGRAMS, parse_programs
from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.runtime.cni.calls import Call, CniError, shaped
from lanloom.runtime.cni.server import CniService
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.ipamprogram import GIVEN, IpamProgram
from tests.features.lan.agent.programs import Node, config, serving
from tests.harness.cniagent import install_programs, served
from tests.harness.cniruntime import CHECK_SINCE, GC_SINCE, VERSIONS, Raw

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

PLACE = ("c0ffee", "net1")


def addressed(program: str = "k8slanveth", version: str = "1.1.0", **more: Any) -> Raw:
    """A configuration that asks the program for addresses."""
    return config(program, version, ipam={"type": "fake-ipam", "pool": "p1"}, **more)


@pytest.fixture
def ipam(node: Node, tmp_path: Path) -> IpamProgram:
    """The program, in the node's directory."""
    return IpamProgram(node.programs, tmp_path / "fake-ipam")


@pytest.fixture(autouse=True)
async def agent(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> AsyncIterator[LanCni]:
    """An agent that calls it."""
    cni = LanCni(spokes, ipam.ipam())
    async with serving(node.socket, cni):
        yield cni


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_pod_s_life(node: Node, spokes: FakeSpokes, ipam: IpamProgram, version: str) -> None:
    """ADD gives addresses, CHECK and GC ask for them, and DEL gives them back, in each version that has these."""
    runtime, given = node.runtime, addressed(version=version)
    result = await runtime.add(given)
    ip: Raw = {"interface": 0, "address": "192.0.2.7/24", "gateway": "192.0.2.1"}
    assert result["ips"] == [ip | ({"version": "4"} if version < "1.0.0" else {})]
    assert result["routes"] == [{"dst": "198.51.100.0/24"}]
    attachment = spokes.attached[PLACE]
    assert attachment.addresses == ("192.0.2.7/24",)
    assert attachment.routes == (PodRoute(dst="198.51.100.0/24", gw="192.0.2.1"),)
    if version >= CHECK_SINCE:
        assert (await runtime.check(given)).status == 0
        assert ipam.config("CHECK")["prevResult"] == result
    if version >= GC_SINCE:
        assert (await runtime.collect(given, PLACE)).status == 0
        assert ipam.config("GC")["cni.dev/valid-attachments"] == [{"containerID": "c0ffee", "ifname": "net1"}]
        assert (await runtime.status(given)).status == 0
    assert (await runtime.delete(given)).status == 0
    assert not spokes.attached
    commands = ["ADD"] + ["CHECK"] * (version >= CHECK_SINCE) + ["GC", "STATUS"] * (version >= GC_SINCE)
    assert ipam.calls == [*commands, "DEL"]


async def test_call(node: Node, ipam: IpamProgram) -> None:
    """The program gets what concerns it of the configuration, the CNI variables, and of the agent's only PATH."""
    given = addressed(args={"cni": {"ips": ["192.0.2.9"]}}, runtimeConfig={"ips": ["192.0.2.9/24"]})
    await node.runtime.add({**given, "IPAM": {"type": "other"}, "dataDir": "/evil"}, CNI_PATH="/evil")
    assert ipam.config("ADD") == {name: given[name] for name in given.keys() - {"veth", "deviceID"}}
    variables = node.runtime.variables | {"CNI_COMMAND": "ADD", "CNI_PATH": str(node.programs)}
    found = ipam.environment("ADD")
    assert {name: value for name, value in found.items() if name.startswith("CNI_")} == variables
    assert found.keys() - variables.keys() <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_machine(node: Node, spokes: FakeSpokes) -> None:
    """The addresses of a machine are in the result, and not put onto the link, which only passes frames."""
    result = await node.runtime.add(addressed("macvtap"))
    assert [each["address"] for each in result["ips"]] == ["192.0.2.7/24"]
    assert (spokes.attached[PLACE].addresses, spokes.attached[PLACE].routes) == ((), ())
    assert (await node.runtime.check(addressed("macvtap"))).status == 0


async def test_refusal_of_the_program(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> None:
    """The program's error is reported with its number; there is nothing to be given back."""
    ipam.refuses("ADD", 117, "pool p1 is exhausted")
    error = (await node.runtime.call("k8slanveth", "ADD", addressed(version="0.4.0"))).error
    assert error == {"cniVersion": "0.4.0", "code": 117, "msg": "fake-ipam: pool p1 is exhausted"}
    assert (ipam.calls, spokes.attached) == (["ADD"], {})


@pytest.mark.parametrize("cause", ["spoke", "mtu"])
async def test_failure_of_the_data_plane(
    node: Node, spokes: FakeSpokes, ipam: IpamProgram, cause: str
) -> None:
    """An ADD that fails later gives the addresses back."""
    if cause == "spoke":
        spokes.failure = SpokeError("no", again=True)
    given = {**addressed(), "mtu": 9000 if cause == "mtu" else 0}
    error = (await node.runtime.call("k8slanveth", "ADD", given)).error
    assert error["code"] == (11 if cause == "spoke" else 7)
    assert (ipam.calls, spokes.attached) == (["ADD", "DEL"], {})


HOSTILE = [
    ("silent", "true"),
    ("no JSON", "echo no"),
    ("no ips", "echo '{}'"),
    ("an odd address", """echo '{"ips": [{"address": "192.0.2.7/24; rm -rf /"}]}'"""),
    ("deep", "head -c 200000 /dev/zero | tr '\\0' '['"),
    ("endless", "exec yes"),
    ("endless complaint", "exec yes >&2"),
    ("binary", "head -c 1000 /dev/urandom"),
    ("fails without a word", "exit 3"),
    ("fails with another word", "echo '[1]'; exit 1"),
    ("an odd code", """echo '{"code": true, "msg": ["x"]}'; exit 1"""),
    ("killed", "kill -9 $$"),
]


@pytest.mark.parametrize(("case", "script"), HOSTILE, ids=[case for case, _ in HOSTILE])
async def test_hostile_output(
    node: Node, spokes: FakeSpokes, ipam: IpamProgram, case: str, script: str
) -> None:
    """Output that is none or too much is an error that names the field, and all is given back."""
    ipam.runs("ADD", script)
    error = (await node.runtime.call("k8slanveth", "ADD", addressed())).error
    assert error["code"] == 6 and error["msg"].startswith("ipam.type: fake-ipam"), (case, error)
    assert (ipam.calls, spokes.attached) == (["ADD", "DEL"], {})


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "exec 9>child; flock 9; sleep 600 & wait",
        "exec 9>child; flock 9; trap '' TERM INT HUP; setsid sleep 600 & wait",
        "exec 1>&- 2>&-; sleep 600",
    ],
)
async def test_program_without_end(node: Node, spokes: FakeSpokes, ipam: IpamProgram, script: str) -> None:
    """A program that does not end is stopped with all that it started, and the call may be tried again."""
    ipam.runs("ADD", script)
    node.socket.unlink()
    async with serving(node.socket, LanCni(spokes, ipam.ipam(seconds={**SECONDS, "ADD": 1.0}))):
        error = (await node.runtime.call("k8slanveth", "ADD", addressed())).error
    assert error["code"] == 11 and error["msg"].startswith("ipam.type: fake-ipam did not end"), error
    assert (ipam.calls[-1], spokes.attached) == ("DEL", {})
    await asyncio.to_thread(ipam.wait_for_the_end_of, "child")


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"pool": "p1"}, "ipam.type"),
        ({"type": 7}, "ipam.type"),
        ({"type": ""}, "ipam.type"),
        ({"type": "../fake-ipam"}, "ipam.type"),
        ({"type": "/bin/sh"}, "ipam.type"),
        ({"type": ".."}, "ipam.type"),
        ({"type": "fake-ipam\n"}, "ipam.type"),
        ({"type": "a" * 65}, "ipam.type"),
        ({"type": "k8slanveth"}, "ipam.type"),
        ({"type": "macvtap"}, "ipam.type"),
        ({"type": "lanloom-ipam"}, "ipam.type"),
        ([1], "ipam"),
        ("fake-ipam", "ipam"),
    ],
)
async def test_bad_sections(
    node: Node, spokes: FakeSpokes, ipam: IpamProgram, section: object, field: str
) -> None:
    """A section that can't be used is error 7 that names the field; nothing runs, and DEL succeeds all the same."""
    given = config("k8slanveth", ipam=section)
    error = (await node.runtime.call("k8slanveth", "ADD", given)).error
    assert error["code"] == 7 and error["msg"].startswith(f"{field}:"), error
    assert (ipam.calls, spokes.attached) == ([], {})
    assert (await node.runtime.call("k8slanveth", "DEL", given)).status == 0


@pytest.mark.parametrize("fault", ["missing", "writable", "not executable", "outside", "circle", "directory"])
async def test_programs_that_are_not_run(node: Node, ipam: IpamProgram, tmp_path: Path, fault: str) -> None:
    """Only an executable file of the agent's directory that only root can write is run."""
    text = ipam.path.read_text()
    match fault:
        case "missing":
            ipam.path.unlink()
        case "writable":
            ipam.path.chmod(0o777)
        case "not executable":
            ipam.path.chmod(0o644)
        case "directory":
            ipam.path.unlink()
            ipam.path.mkdir()
        case "circle":
            ipam.path.unlink()
            ipam.path.symlink_to("fake-ipam")
        case "outside":
            (tmp_path / "elsewhere").write_text(text)
            (tmp_path / "elsewhere").chmod(0o755)
            ipam.path.unlink()
            ipam.path.symlink_to(tmp_path / "elsewhere")
    error = (await node.runtime.call("k8slanveth", "ADD", addressed())).error
    assert error["code"] == 7 and error["msg"].startswith("ipam.type:"), error
    assert ipam.calls == []


async def test_another_s_program(ipam: IpamProgram, node: Node, spokes: FakeSpokes) -> None:
    """A program that another user than root owns is not run."""
    node.socket.unlink()
    async with serving(node.socket, LanCni(spokes, ipam.ipam(owners=(os.geteuid() + 1,)))):
        error = (await node.runtime.call("k8slanveth", "ADD", addressed())).error
    assert "can be written by others" in error["msg"] and ipam.calls == []


async def test_end_without_the_link(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> None:
    """DEL gives addresses back when nothing is attached, without a namespace, and when the data plane refuses."""
    await node.runtime.add(addressed())
    spokes.attached.clear()
    assert (await node.runtime.call("k8slanveth", "DEL", addressed(), "CNI_NETNS", "CNI_ARGS")).status == 0
    spokes.failure = SpokeError("the kernel refused")
    assert (await node.runtime.delete(addressed())).status == 0
    assert ipam.calls == ["ADD", "DEL", "DEL"]


async def test_end_without_the_program(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> None:
    """DEL succeeds where the program fails or is gone, and the link is gone then."""
    await node.runtime.add(addressed())
    ipam.refuses("DEL", 5, "no")
    assert (await node.runtime.delete(addressed())).status == 0
    assert not spokes.attached
    ipam.path.unlink()
    assert (await node.runtime.delete(addressed())).status == 0


async def test_end_while_adding(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> None:
    """A DEL that comes while ADD waits for addresses makes that ADD fail, and nothing is left of it."""
    ipam.runs("ADD", "echo >begun; while ! [ -e go ]; do sleep 0.01; done; cat result")
    adding = asyncio.create_task(node.runtime.call("k8slanveth", "ADD", addressed()))
    await asyncio.to_thread(ipam.wait_for, "begun")
    assert (await node.runtime.delete(addressed())).status == 0
    ipam.file("go").touch()
    assert (await adding).error["code"] == 11
    assert (ipam.calls, spokes.attached) == (["ADD", "DEL", "DEL"], {})
    assert (await node.runtime.add(addressed()))["ips"]


async def test_check(node: Node, spokes: FakeSpokes, ipam: IpamProgram) -> None:
    """CHECK fails where the program says so, where an address is missing, and without ADD's addresses."""
    await node.runtime.add(addressed())
    ipam.refuses("CHECK", 101, "not mine")
    assert (await node.runtime.check(addressed())).error["msg"] == "fake-ipam: not mine"
    ipam.runs("CHECK", "exit 0")
    link = {"name": "net1", "mac": "02:00:00:00:00:0a", "sandbox": "/run/netns/pod"}
    for ips, code in (
        ([{"address": "192.0.2.8/24", "interface": 0}], 101),
        ([{"address": "x", "interface": 0}], 7),
        ([], 7),
    ):
        previous = {"cniVersion": "1.1.0", "interfaces": [link], "ips": ips}
        given = addressed(prevResult=previous)
        assert (await node.runtime.call("k8slanveth", "CHECK", given)).error["code"] == code


async def test_node_without_addresses(node: Node, ipam: IpamProgram) -> None:
    """STATUS and GC tell what the program says."""
    ipam.refuses("STATUS", 50, "no addresses")
    error = (await node.runtime.status(addressed())).error
    assert (error["code"], error["msg"]) == (50, "fake-ipam: no addresses")
    ipam.refuses("GC", 11, "later")
    assert (await node.runtime.collect(addressed())).error["code"] == 11


OWN = config("k8slanveth", ipam={"type": "lanloom-ipam", "network": "net1"})


@pytest.mark.parametrize("place", ["of another agent", "of this agent"])
async def test_own_program(node: Node, spokes: FakeSpokes, tmp_path: Path, place: str) -> None:
    """The program lanloom-ipam is answered in place by the process that has it, else by the node's other agent."""
    asked: list[Call] = []

    async def answer(call: Call) -> Raw:
        asked.append(call)
        return shaped(GIVEN, call.version) if call.command == "ADD" else {}

    given = {"lanloom-ipam": CniService(answer=answer)}
    path = tmp_path / "ipam.sock"
    install_programs(given, node.programs, path)
    if place == "of this agent":
        own = Ipam(node.programs, local=given)
    else:
        own = Ipam(node.programs, views=IpamViews(path.parent, None), owners=(os.geteuid(),))
    node.socket.unlink()
    async with served(path, given), serving(node.socket, LanCni(spokes, own)):
        results = await asyncio.gather(
            node.runtime.add(OWN),
            node.runtime.add({**OWN, "veth": "blue", "deviceID": ""}, CNI_IFNAME="net2"),
        )
        assert [each["ips"][0]["address"] for each in results] == ["192.0.2.7/24"] * 2
        assert (await node.runtime.check(OWN)).status == 0
        assert (await node.runtime.status(OWN)).status == 0
        assert (await node.runtime.delete(OWN)).status == 0
    assert [call.command for call in asked] == ["ADD", "ADD", "CHECK", "STATUS", "DEL"]
    assert {call.program for call in asked} == {"lanloom-ipam"}
    assert all("veth" not in call.config for call in asked)
    first = asked[-1]
    assert (first.container, first.interface, first.netns) == (*PLACE, "/run/netns/pod")
    assert first.args == node.runtime.variables["CNI_ARGS"]


async def test_refusal_in_place(node: Node, spokes: FakeSpokes) -> None:
    """An error of a program that is answered in place is reported as a program's, and a DEL succeeds all the same."""
    counted: list[tuple[str, str, int]] = []

    async def refuse(_call: Call) -> Raw:
        raise CniError(100, "network net1 is full", "Nic default/web")

    service = CniService(answer=refuse, called=lambda *call: counted.append(call))
    node.socket.unlink()
    async with serving(node.socket, LanCni(spokes, Ipam(None, local={"lanloom-ipam": service}))):
        error = (await node.runtime.call("k8slanveth", "ADD", OWN)).error
        assert (error["code"], error["msg"]) == (100, "lanloom-ipam: network net1 is full")
        assert error["details"] == "Nic default/web" and not spokes.attached
        assert (await node.runtime.delete(OWN)).status == 0
    assert counted == [("lanloom-ipam", "ADD", 100), ("lanloom-ipam", "DEL", 100)]


async def test_silence_in_place(node: Node, spokes: FakeSpokes) -> None:
    """A program that is answered in place has the time of a program, and what it may have given is given back."""
    asked: list[str] = []

    async def wait(call: Call) -> Raw:
        asked.append(call.command)
        if call.command == "ADD":
            await asyncio.Event().wait()
        return {}

    local = {"lanloom-ipam": CniService(answer=wait)}
    node.socket.unlink()
    seconds = {**SECONDS, "ADD": 0.01}
    async with serving(node.socket, LanCni(spokes, Ipam(None, local=local, seconds=seconds))):
        error = (await node.runtime.call("k8slanveth", "ADD", OWN)).error
    assert error["code"] == 11 and "lanloom-ipam did not end within 0.01 s" in error["msg"]
    assert asked == ["ADD", "DEL"]


@pytest.mark.parametrize("allowed", [("host-local",), ("lanloom-ipam",)])
async def test_programs_in_place_must_be_allowed(
    node: Node, spokes: FakeSpokes, allowed: tuple[str, ...]
) -> None:
    """The agent's option holds for programs that it answers itself, too."""

    async def answer(call: Call) -> Raw:
        return shaped(GIVEN, call.version)

    own = Ipam(node.programs, dict.fromkeys(allowed, ()), local={"lanloom-ipam": CniService(answer=answer)})
    node.socket.unlink()
    async with serving(node.socket, LanCni(spokes, own)):
        assert (await node.runtime.call("k8slanveth", "ADD", OWN)).status == int(
            "lanloom-ipam" not in allowed
        )


async def test_daemon_of_a_program(node: Node, ipam: IpamProgram) -> None:
    """What a program leaves running ends with it, and nothing waits for that."""
    ipam.runs("ADD", "exec 9>child; flock 9; setsid sleep 600 & cat result")
    assert (await node.runtime.add(addressed()))["ips"]
    await asyncio.to_thread(ipam.wait_for_the_end_of, "child")


def test_programs_of_the_option() -> None:
    """The option replaces the programs, and gives each its directories; anything else is refused."""
    assert parse_programs(()) == IPAM_PROGRAMS
    assert parse_programs(("static", "company:/run/company:/etc/company")) == {
        "static": (),
        "company": (Path("/run/company"), Path("/etc/company")),
    }
    for value in ("", "../x", "/bin/sh", "a:b", "a:/x:y"):
        with pytest.raises(click.BadParameter, match="NAME"):
            parse_programs((value,))


async def test_missing_directory(node: Node, ipam: IpamProgram, spokes: FakeSpokes, tmp_path: Path) -> None:
    """A directory of the option that is not there is named, and nothing runs."""
    node.socket.unlink()
    allowed = {"fake-ipam": (tmp_path / "none",)}
    async with serving(node.socket, LanCni(spokes, Ipam(node.programs, allowed, owners=(os.geteuid(),)))):
        error = (await node.runtime.call("k8slanveth", "ADD", addressed())).error
    assert error["code"] == 11 and f"can't mount {tmp_path / 'none'}" in error["msg"], error
    assert ipam.calls == []
