"""What `lanloom doctor` finds of the CNI plugin and its socket, and what it tells to do."""

from pathlib import Path

import pytest

from lanloom.features.ipam.agent.cni import PROGRAM, program
from lanloom.features.ipam.agent.protocol import Raw, Request
from lanloom.processes.cnichecks import check_cni
from lanloom.runtime.cni import install
from lanloom.runtime.feature import Feature
from tests.features.ipam.agent.sockets import serving


async def nothing(_request: Request) -> Raw:
    """Answers every call."""
    return {}


async def results(socket: Path, programs: Path, *, agent_runs: bool) -> list[tuple[str, str]]:
    """Result and words of each check; whatever is not well has a remedy."""
    checks = await check_cni(socket, programs, agent_runs=agent_runs)
    assert all(check.remedy for check in checks if check.result != "ok")
    return [(check.result, check.found) for check in checks]


async def test_all_is_well(tmp_path: Path) -> None:
    """A plugin that runs and a socket that is answered are fine."""
    socket = tmp_path / "cni.sock"
    install(tmp_path, PROGRAM, program(socket))
    async with serving(socket, nothing):
        found = await results(socket, tmp_path, agent_runs=True)
    assert found == [("ok", str(tmp_path / PROGRAM)), ("ok", str(socket))]


async def test_a_machine_without_the_plugin(tmp_path: Path) -> None:
    """Where no agent runs, nothing is missing; where one does, both are told."""
    socket = tmp_path / "cni.sock"
    assert await results(socket, tmp_path, agent_runs=False) == [
        ("ok", "not in use: neither plugin nor socket")
    ]
    plugin, missing = await results(socket, tmp_path, agent_runs=True)
    assert plugin[0] == "warning" and f"{tmp_path / PROGRAM} is not there" in plugin[1]
    assert missing[0] == "failed" and f"{socket} is not there" in missing[1]


async def test_a_plugin_without_an_agent(tmp_path: Path) -> None:
    """A plugin that is left alone is a warning: pods would get no addresses."""
    install(tmp_path, PROGRAM, program(tmp_path / "cni.sock"))
    (tmp_path / "cni.sock").write_text("")
    plugin, socket = await results(tmp_path / "cni.sock", tmp_path, agent_runs=False)
    assert (plugin[0], socket[0]) == ("ok", "warning")
    assert "is not answered" in socket[1]


@pytest.mark.parametrize(
    ("text", "result", "words"),
    [
        ("#!/bin/sh\nexit 1\n", "failed", "does not answer as a CNI plugin does"),
        ("#!/nowhere/python3\n", "failed", "can't be run"),
        ('#!/bin/sh\necho \'{"code": 102, "msg": "needs Python"}\'\n', "failed", "needs Python"),
        ('#!/bin/sh\necho \'{"supportedVersions": ["1.0.0"]}\'\n', "warning", "another version"),
    ],
)
async def test_a_plugin_that_is_not_right(tmp_path: Path, text: str, result: str, words: str) -> None:
    """A plugin that does not run says why, and one of another version is told."""
    (tmp_path / PROGRAM).write_text(text)
    (tmp_path / PROGRAM).chmod(0o755)
    plugin, _ = await results(tmp_path / "cni.sock", tmp_path, agent_runs=True)
    assert plugin[0] == result
    assert words in plugin[1]


async def test_a_socket_that_others_may_write_to(tmp_path: Path) -> None:
    """A socket whose mode was changed is told."""
    socket = tmp_path / "cni.sock"
    async with serving(socket, nothing):
        socket.chmod(0o666)
        _, found = await results(socket, tmp_path, agent_runs=True)
    assert found == ("failed", f"others may write to {socket}")


async def test_a_plugin_of_somebody_else(tmp_path: Path) -> None:
    """Another project's program in the place of ours is told, with what to do about it."""
    (tmp_path / "macvtap").write_bytes(b"somebody's")
    feature = Feature(name="lan", cni={"macvtap": "lanloom.features.lan.agent.programs:macvtap"})
    check, _ = await check_cni(tmp_path / "cni.sock", tmp_path, agent_runs=False, features=(feature,))
    assert check.result == "warning"
    assert "another project's program" in check.found
    assert f"remove {tmp_path / 'macvtap'}" in check.remedy
