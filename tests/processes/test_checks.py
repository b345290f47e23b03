"""What `lanloom doctor` finds, and what it tells to do."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from lanloom.features.ipam.agent import PROGRAM
from lanloom.node.ports import Link
from lanloom.processes.checks import (
    check_agent,
    check_authority,
    check_cni,
    check_mtus,
    check_profiles,
    check_records,
    check_rights,
)
from lanloom.processes.networkd import check_networkd
from lanloom.runtime.certificates import DAY, new_authority
from lanloom.runtime.cni.calls import Call, Raw
from lanloom.runtime.cni.programs import install, program
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.feature import Feature
from lanloom.runtime.probes import pages
from tests.fakes import FakeHost, FakeSwitch
from tests.harness.cniagent import served
from tests.runtime.metrics.probing import serving_pages


async def test_mtus() -> None:
    """A VLAN link that is smaller than its bridge is named, with how to mend it; one on a NIC may be smaller."""
    host = FakeHost("node1", ("eth0",), switch=FakeSwitch(), now=lambda: 0.0)
    links = host.kernel.links
    links["eth0"] = replace(links["eth0"], mtu=9000)
    whole = Link(name="mgmt-br.2021", index=95, kind="vlan", parent="mgmt-br")
    for link in (
        Link(name="mgmt-br", index=92, kind="bridge"),
        Link(name="eth0.7", index=94, kind="vlan", parent="eth0"),
        whole,
    ):
        links[link.name] = link
    assert (await check_mtus(host.links)).result == "ok"
    links[whole.name] = replace(whole, mtu=100)
    check = await check_mtus(host.links)
    assert (
        check.result == "warning" and "mgmt-br.2021 has MTU 100, and its bridge mgmt-br 1500" in check.found
    )
    assert "ip link set mgmt-br.2021 mtu 1500" in check.remedy


async def test_links_that_systemd_networkd_manages(tmp_path: Path) -> None:
    """A link of Lanloom that systemd-networkd configures is named with the file, and so is a port; others are not."""
    host = FakeHost("node1", ("eth0", "eth1"), switch=FakeSwitch(), now=lambda: 0.0)
    links = host.kernel.links
    made = Link(name="iso-br", index=92, kind="bridge", alias="lanloom-dummy 5f")
    port = Link(name="veth5", index=93, kind="veth", master="iso-br")
    other = Link(name="lan-7", index=94, kind="veth", master="iso-br")
    links.update({link.name: link for link in (made, port, other)})
    assert await check_networkd(host.links, tmp_path / "nothing") == ()
    (check,) = await check_networkd(host.links, tmp_path)
    assert check.result == "ok"
    states = tmp_path / "netif/links"
    states.mkdir(parents=True)
    configured = "# Do not parse.\nADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/10-all.network\n"
    for link in (made, port, links["eth0"]):
        (states / str(link.index)).write_text(configured)
    (states / "94").write_text(configured.replace("=configured", "=unmanaged"))
    (check,) = await check_networkd(host.links, tmp_path)
    assert check.result == "warning"
    by = "by /etc/systemd/network/10-all.network"
    assert check.found == f"it manages iso-br {by}, veth5 {by}"
    assert "`Name=iso-br veth5`" in check.remedy


def test_rights() -> None:
    """Links can be changed with CAP_NET_ADMIN, whatever else is missing."""
    assert check_rights("CapInh:\t0\nCapEff:\t0000000000001000\n").result == "ok"
    check = check_rights("CapEff:\tffffffffffffefff\n")
    assert (check.result, "NET_ADMIN" in check.remedy) == ("failed", True)


def test_a_profile_directory_that_is_missing(tmp_path: Path) -> None:
    """Without a directory of profiles there is no NetworkManager, or no mount."""
    assert check_profiles(tmp_path).result == "ok"
    check = check_profiles(tmp_path / "nothing")
    assert (check.result, "--profiles" in check.remedy) == ("failed", True)


def test_a_directory_of_records_may_be_there_or_not(tmp_path: Path) -> None:
    """A directory of the agent's own is fine, and so is none where it can be made; nothing is made by looking."""
    assert check_records("state", tmp_path).result == "ok"
    check = check_records("state", tmp_path / "a" / "b")
    assert (check.result, check.found) == ("ok", f"{tmp_path}/a/b will be created")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_records_that_others_may_write(tmp_path: Path) -> None:
    """Where others could put records into place, the agent would not read them: the mode is to be mended."""
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(0o777)
    check = check_records("state", directory)
    assert check.result == "failed"
    assert check.found == f"others may write to {directory}"
    assert f"chmod 755 {directory}" in check.remedy


def test_a_directory_of_records_that_is_none(tmp_path: Path) -> None:
    """A file or a link in its place is named."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        check = check_records("state", tmp_path / name)
        assert (check.result, check.found) == ("failed", f"{tmp_path}/{name} is not a directory")
        assert check.remedy
    assert check_records("state", tmp_path / "file" / "below").result == "failed"


async def test_an_agent_that_is_ready() -> None:
    """An agent's own word is what counts."""
    async with serving_pages(pages(tuple, bytes)) as server:
        assert (await check_agent(f"127.0.0.1:{server.port}")).found == "ready"


async def test_an_agent_that_waits() -> None:
    """What an agent lacks is reported in its words."""
    async with serving_pages(pages(lambda: ("bread", "water"), bytes)) as server:
        check = await check_agent(f"127.0.0.1:{server.port}")
    assert (check.result, check.found) == ("failed", "not ready: bread; not ready: water")
    assert check.remedy


async def test_no_agent() -> None:
    """A machine on which no agent runs can be one on which one can."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # it stays bound, so that no other process can listen there meanwhile
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        assert (await check_agent(address)).found == f"no agent listens at {address}"
        assert (await check_agent(address)).result == "ok"


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """A server that says this to all clients; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 404 Not Found\r\n\r\n"])
async def test_another_program_in_the_agents_place(answer: bytes) -> None:
    """Something else at the agent's port is reported, with the option that moves the agent."""
    async with answering(answer) as address:
        check = await check_agent(address)
    assert check.result == "failed"
    assert "not an agent" in check.found
    assert "--metrics-address" in check.remedy


async def test_an_address_that_is_none() -> None:
    """An address that can't be read is refused by name."""
    with pytest.raises(ValueError, match="HOST:PORT"):
        await check_agent("9810")


async def nothing(_call: Call) -> Raw:
    """Answers every call."""
    return {}


ANSWERED = {PROGRAM: CniService(answer=nothing)}


async def results(socket: Path, programs: Path, *, agent_runs: bool) -> list[tuple[str, str]]:
    """Result and words of each check; whatever is not well has a remedy."""
    checks = await check_cni(socket, programs, agent_runs=agent_runs)
    assert all(check.remedy for check in checks if check.result != "ok")
    return [(check.result, check.found) for check in checks]


async def test_all_is_well(tmp_path: Path) -> None:
    """A plugin that runs and a socket that is answered are fine."""
    socket = tmp_path / "cni.sock"
    install(tmp_path, PROGRAM, program(socket))
    async with served(socket, ANSWERED):
        found = await results(socket, tmp_path, agent_runs=True)
    assert found == [("ok", str(tmp_path / PROGRAM)), ("ok", str(socket))]


async def test_a_machine_without_the_plugin(tmp_path: Path) -> None:
    """Where no agent runs, nothing is missing; where one does, both are reported."""
    socket = tmp_path / "cni.sock"
    assert await results(socket, tmp_path, agent_runs=False) == [
        ("ok", "not in use: neither plugin nor socket")
    ]
    plugin, missing = await results(socket, tmp_path, agent_runs=True)
    assert plugin[0] == "warning" and f"{tmp_path / PROGRAM} does not exist" in plugin[1]
    assert missing[0] == "failed" and f"{socket} does not exist" in missing[1]


async def test_a_plugin_without_an_agent(tmp_path: Path) -> None:
    """A plugin that is left alone is a warning: pods would get no addresses."""
    install(tmp_path, PROGRAM, program(tmp_path / "cni.sock"))
    (tmp_path / "cni.sock").write_text("")
    plugin, socket = await results(tmp_path / "cni.sock", tmp_path, agent_runs=False)
    assert (plugin[0], socket[0]) == ("ok", "warning")
    assert "does not accept connections" in socket[1]


@pytest.mark.parametrize(
    ("text", "result", "words"),
    [
        ("#!/bin/sh\nexit 1\n", "failed", "its output is not a CNI plugin's"),
        ("#!/nowhere/python3\n", "failed", "can't be run"),
        ('#!/bin/sh\necho \'{"code": 4, "msg": "out of order"}\'\n', "failed", "out of order"),
        ('#!/bin/sh\necho \'{"supportedVersions": ["1.0.0"]}\'\n', "warning", "another version"),
    ],
)
async def test_a_plugin_that_is_not_right(tmp_path: Path, text: str, result: str, words: str) -> None:
    """A plugin that does not run says why, and one of another version is reported."""
    (tmp_path / PROGRAM).write_text(text)
    (tmp_path / PROGRAM).chmod(0o755)
    plugin, _ = await results(tmp_path / "cni.sock", tmp_path, agent_runs=True)
    assert plugin[0] == result
    assert words in plugin[1]


async def test_a_socket_that_others_may_write_to(tmp_path: Path) -> None:
    """A socket whose mode was changed is reported."""
    socket = tmp_path / "cni.sock"
    async with served(socket, ANSWERED):
        socket.chmod(0o666)
        _, found = await results(socket, tmp_path, agent_runs=True)
    assert found == ("failed", f"others may write to {socket}")


async def test_a_plugin_that_nodes_may_do_without(tmp_path: Path) -> None:
    """Programs of a feature that a node may do without are not missed, and judged where they are."""
    feature = Feature(name="lan", cni=("macvtap",), cni_optional=True)
    (only,) = await check_cni(tmp_path / "cni.sock", tmp_path, agent_runs=True, features=(feature,))
    assert only.name == "CNI socket"
    install(tmp_path, "macvtap", program(tmp_path / "cni.sock"))
    found, _ = await check_cni(tmp_path / "cni.sock", tmp_path, agent_runs=True, features=(feature,))
    assert (found.result, found.found) == ("ok", str(tmp_path / "macvtap"))


async def test_two_agents_of_a_node(tmp_path: Path) -> None:
    """Each plugin is fine with the socket of the agent that has it, and each socket is looked at once."""
    one, other = tmp_path / "cni.sock", tmp_path / "cni-lan.sock"
    features = (
        Feature(name="ipam", cni=(PROGRAM,)),
        Feature(name="lan", cni=("macvtap", "k8slanveth"), cni_socket="lan", cni_optional=True),
    )
    for name, path in ((PROGRAM, one), ("macvtap", other), ("k8slanveth", other)):
        install(tmp_path, name, program(path))
    async with served(one, ANSWERED):
        found = await check_cni(one, tmp_path, agent_runs=True, features=features)
    assert [check.result for check in found] == ["ok", "ok", "ok", "ok", "failed"]
    assert f"{other} does not exist: pods that need macvtap or k8slanveth" in found[-1].found
    install(tmp_path, "macvtap", program(tmp_path / "elsewhere.sock"))
    found = await check_cni(one, tmp_path, agent_runs=True, features=features)
    assert "is of another version, or for a socket other than" in found[1].found


async def test_a_plugin_of_another_project(tmp_path: Path) -> None:
    """Another project's program in the place of ours is reported, with the remedy."""
    (tmp_path / "macvtap").write_bytes(b"somebody's")
    feature = Feature(name="lan", cni=("macvtap",))
    check, _ = await check_cni(tmp_path / "cni.sock", tmp_path, agent_runs=False, features=(feature,))
    assert check.result == "warning"
    assert "another project's program" in check.found
    assert f"remove {tmp_path / 'macvtap'}" in check.remedy


@pytest.mark.parametrize(
    ("days", "result", "found"),
    [(0, "ok", "ends in 730 days"), (700, "warning", "ends in 30 days"), (731, "failed", "ends in -1 days")],
)
def test_the_end_of_a_ca_is_told(days: int, result: str, found: str) -> None:
    """The newest CA of a kubeconfig is good, or about to end, or has ended; then the remedy is named."""
    now = 1_800_000_000.0
    several = b"".join(new_authority(now, lifetime).certificate for lifetime in (730, 365))
    check = check_authority(several, now + days * DAY)
    assert (check.result, check.found, bool(check.remedy)) == (result, found, days > 0)
    assert check_authority(b"rubbish", now).result == "failed"
