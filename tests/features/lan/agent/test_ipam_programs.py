"""IPAM programs of CNI's reference plugins, as the agent runs them."""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ipam import Ipam
from lanloom.features.lan.agent.ipamprocess import NETWORKS, IpamViews
from lanloom.runtime.cni.server import CniServer
from lanloom_lab.assets import debian_package, default_cache
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, config, serving
from tests.harness.cniruntime import Raw

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

RANGE = {"type": "host-local", "subnet": "192.0.2.0/24", "gateway": "192.0.2.1"}


def addressed(section: Raw, **more: Any) -> Raw:
    """A configuration of a pod's interface with this `ipam`."""
    return config("k8slanveth", "1.0.0", ipam=section, **{"name": "blue-web", **more})


class Machine:
    """A node with the reference plugins; each agent on it is a new one."""

    def __init__(self, node: Node, directory: Path, spokes: FakeSpokes) -> None:
        self.runtime = node.runtime
        self.state, self.earlier = directory / "state", directory / "earlier"
        self._socket, self._spokes = node.socket, spokes
        self._plugins = (
            debian_package(default_cache(), ["containernetworking-plugins"], print) / "usr/lib/cni"
        )

    def agent(self) -> AbstractAsyncContextManager[CniServer]:
        """An agent that answers until the block ends."""
        views = IpamViews(self._socket.parent, self.state, networks=self.earlier)
        return serving(self._socket, LanCni(self._spokes, Ipam(self._plugins, views=views)))

    @property
    def held(self) -> list[str]:
        """The addresses that host-local keeps in the agent's directory."""
        return sorted(path.name for path in self.state.glob("host-local/blue-web/*.*.*.*"))


@pytest.fixture
def machine(node: Node, tmp_path: Path, spokes: FakeSpokes) -> Machine:
    """The node."""
    return Machine(node, tmp_path, spokes)


async def test_host_local(machine: Machine) -> None:
    """Two pods have different addresses, and an agent that was started again gives the first one back."""
    async with machine.agent():
        first = await machine.runtime.add(addressed(RANGE))
        second = await machine.runtime.add(addressed(RANGE, veth="blue", deviceID=""), CNI_IFNAME="net2")
        assert [found["ips"][0]["address"] for found in (first, second)] == ["192.0.2.2/24", "192.0.2.3/24"]
        assert machine.held == ["192.0.2.2", "192.0.2.3"]
        assert (await machine.runtime.check(addressed(RANGE))).status == 0
    async with machine.agent():
        assert (await machine.runtime.delete(addressed(RANGE))).status == 0
    assert machine.held == ["192.0.2.3"]
    assert not NETWORKS.joinpath("blue-web").exists()


async def test_addresses_from_before(machine: Machine) -> None:
    """Addresses that an earlier agent gave in the node's own directory are known there, and given back."""
    kept = machine.earlier / "blue-web"
    kept.mkdir(parents=True)
    kept.joinpath("192.0.2.2").write_text("c0ffee\r\nnet1")
    async with machine.agent():
        found = await machine.runtime.add(addressed(RANGE, veth="blue", deviceID=""), CNI_IFNAME="net2")
        assert found["ips"][0]["address"] == "192.0.2.3/24"
        assert (await machine.runtime.delete(addressed(RANGE))).status == 0
    assert not kept.joinpath("192.0.2.2").exists() and kept.joinpath("192.0.2.3").exists()
    assert machine.held == []


async def test_pod_with_a_path(machine: Machine) -> None:
    """A directory of the NAD's own is refused, and does not keep the address of a pod that was attached before."""
    given = addressed({**RANGE, "dataDir": "/host-cni-bin", "resolvConf": "/etc/shadow"})
    async with machine.agent():
        await machine.runtime.add(addressed(RANGE))
        error = (await machine.runtime.call("k8slanveth", "ADD", given, CNI_CONTAINERID="other")).error
        assert error["code"] == 7 and error["msg"].startswith("ipam.dataDir: must not be in a NAD"), error
        assert (await machine.runtime.delete(given)).status == 0
    assert machine.held == []


@pytest.mark.parametrize("resolver", ["/etc/resolv.conf", ""])
async def test_resolver(machine: Machine, resolver: str) -> None:
    """The agent's resolver may be given to pods."""
    async with machine.agent():
        found = await machine.runtime.add(addressed({**RANGE, "resolvConf": resolver}))
    assert bool(found["dns"].get("nameservers")) == bool(resolver)


async def test_static(machine: Machine) -> None:
    """Addresses of the NAD, and those that the pod asks for, are given."""
    section = {"type": "static", "addresses": [{"address": "192.0.2.9/24"}], "routes": [{"dst": "0.0.0.0/0"}]}
    async with machine.agent():
        found = await machine.runtime.add(addressed(section))
        assert (found["ips"][0]["address"], found["routes"]) == ("192.0.2.9/24", [{"dst": "0.0.0.0/0"}])
        assert (await machine.runtime.check(addressed(section))).status == 0
        assert (await machine.runtime.delete(addressed(section))).status == 0
        asked = addressed(section, args={"cni": {"ips": ["192.0.2.77/24"]}})
        found = await machine.runtime.add(asked)
    assert [each["address"] for each in found["ips"]] == ["192.0.2.77/24"]


async def test_dhcp_without_a_daemon(machine: Machine) -> None:
    """The program says in its own words that there is no daemon."""
    async with machine.agent():
        error = (await machine.runtime.call("k8slanveth", "ADD", addressed({"type": "dhcp"}))).error
    assert "dhcp: error dialing DHCP daemon" in error["msg"]
