"""A process that is killed while it changes a real kernel: the next one finishes or removes what it left."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.plan import plan
from lanloom.node.links import Vtep
from lanloom.node.namespaces import NamespaceDirectory, make_namespace
from lanloom.node.netlink import overlay, reader
from tests.harness.examples import repetitions

FIRST = 900_000_000 + os.getpid() % 10_000 * 10
"""Other runs of these tests on the same kernel have other indices."""

PODS = 3


class Ground:
    """A host's namespace with an underlay, pods, and what a node should have of one LAN."""

    def __init__(self, directory: Path) -> None:
        self.names = NamespaceDirectory(directory / "netns")
        self.others = NamespaceDirectory(directory / "others")
        self.devices = directory / "dev"
        self.devices.mkdir()
        for name in ("host", *(f"p{number}" for number in range(PODS))):
            with make_namespace(name) as made:
                self.others.bind(name, made)
        with self.others.open("host") as host, host.socket() as sock:
            overlay.add_bridge(sock, "u0")
            underlay = reader.link(sock, name="u0").index
        self.wanted = DesiredLan(
            uid="u-1",
            ns="blue",
            bridge="br0",
            vxlan="vx0",
            vtep=Vtep(7, 4789, underlay, "", ""),
            mtu=1450,
            ports=tuple(self._ports()),
            flood=frozenset({"10.0.0.2", "10.0.0.3"}),
            built=True,
        )
        self.gone = DesiredLan(uid="u-1", ns="blue", bridge="br0", vxlan="vx0", present=False, built=True)

    def _ports(self) -> Iterator[DesiredPort]:
        for number in range(PODS):
            path = str(self.others.path(f"p{number}"))
            mac = f"02:00:00:00:00:{number + 1:02x}"
            yield DesiredPort(
                name=f"a{number}V0", spoke=f"a{number}", mode="veth", netns=path, interface="net1", mac=mac
            )
            yield DesiredPort(
                name=f"b{number}M0",
                spoke=f"b{number}",
                mode="macvtap",
                index=FIRST + number,
                netns=path,
                interface="net2",
                mac=mac,
            )

    async def bring(self, wanted: DesiredLan) -> SeenLan:
        """Does what an agent does for a LAN: what is there then."""
        kernel = NetlinkLanKernel(self.names, TapDevices(self.devices), host=self.others.path("host"))
        try:
            await kernel.apply(wanted, plan(wanted, await kernel.observe(wanted)))
            indices = [FIRST + number for number in range(PODS)]
            if wanted.present:
                await kernel.mend_taps(indices)
            else:
                for index in indices:
                    await kernel.forget_tap(index)
            return await kernel.observe(wanted)
        finally:
            await kernel.close()

    def killed(self, wanted: DesiredLan, seconds: float) -> bool:
        """A process of its own that is killed after so long; whether it had not come to its end."""
        child = os.fork()
        if not child:
            try:
                asyncio.run(self.bring(wanted))
            finally:
                os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)

    def links(self, name: str) -> set[str]:
        """The links of a namespace but its loopback."""
        with self.others.open(name) as found, found.socket() as sock:
            return {each.name for each in reader.links(sock)} - {"lo"}


@contextmanager
def ground(directory: Path) -> Iterator[Ground]:
    """A ground, taken away at the end."""
    made = Ground(directory)
    try:
        yield made
    finally:
        asyncio.run(made.bring(made.gone))
        for name in ("host", *(f"p{number}" for number in range(PODS))):
            made.others.remove(name)


@pytest.mark.parametrize("kills", repetitions(20, 200, seconds=600))
def test_killed(tmp_path: Path, kills: int) -> None:
    """However often and wherever a process is killed, the next one that lives makes the LAN whole, or takes it away."""
    rng = Random(kills)
    with ground(tmp_path) as node:
        caught = 0
        for _ in range(kills):
            caught += node.killed(rng.choice([node.wanted, node.wanted, node.gone]), rng.random() * 0.06)
        assert caught
        seen = asyncio.run(node.bring(node.wanted))
        assert plan(node.wanted, seen) == ()
        assert all(node.links(f"p{number}") == {"net1", "net2"} for number in range(PODS))
        assert node.links("host") == {"u0"}
        assert len(list(node.devices.iterdir())) == PODS
        seen = asyncio.run(node.bring(node.gone))
        assert not seen.exists and not any(node.links(f"p{number}") for number in range(PODS))
        assert node.links("host") == {"u0"} and not list(node.devices.iterdir())
