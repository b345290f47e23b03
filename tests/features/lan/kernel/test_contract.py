"""The contract of options on a real kernel."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.plan import plan
from lanloom.node.namespaces import NamespaceDirectory, make_namespace
from tests.features.lan.agent.contract import CHECKS, Check, plain
from tests.features.lan.kernel.machines import run


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(tmp_path: Path, check: Check) -> None:
    """The kernel does what the port says."""
    await checked(tmp_path, check)


async def checked(tmp_path: Path, check: Check, *commands: str) -> None:
    """Checks a kernel whose host has an underlay, and what the commands make."""
    names = NamespaceDirectory(tmp_path / "netns")
    places = NamespaceDirectory(tmp_path / "places")
    (tmp_path / "dev").mkdir()
    for name in ("host", "pod"):
        with make_namespace(name) as made:
            places.bind(name, made)
    host, pod = places.path("host"), places.path("pod")
    run(host, "ip link add u0 up type bridge")
    run(host, "ip address add 10.99.0.1/24 dev u0")
    for command in commands:
        run(host, command)
    index = int(run(host, "ip -o link show u0").split(":")[0])
    kernel = NetlinkLanKernel(names, TapDevices(tmp_path / "dev"), host=host)
    lan = plain(str(pod), index, "10.99.0.1")
    try:
        await check(kernel, lan)
    finally:
        gone = replace(lan, present=False)
        await kernel.apply(gone, plan(gone, await kernel.observe(gone)))
        for each in ("host", "pod"):
            places.remove(each)
        await kernel.close()
        names.remove("blue")
