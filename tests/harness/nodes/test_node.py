"""A real node joins a real cluster, runs pods, and goes away without a trace."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom_lab.processes import processes
from tests.harness.nodes.enclosure import CONTROLLERS, PREFIX, Enclosure, control_groups, obstacle
from tests.harness.nodes.node import RealNode
from tests.harness.nodes.pods import Pods, container_of, node_ready
from tests.harness.servers.real import RealServer

node_test = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
async def client(nodes_server: RealServer) -> AsyncIterator[HttpClient]:
    """The administrator's client."""
    client = HttpClient(load(str(nodes_server.kubeconfig)))
    yield client
    await client.close()


class TestRealNode:
    """With kubelet and containerd."""

    pytestmark = node_test

    async def test_a_pod_gets_an_address(self, real_node: RealNode, client: HttpClient) -> None:
        """A pod on the reference bridge plugin gets Running, and has the address that its status says."""
        await node_ready(client, real_node)
        pods = Pods(client)
        pod = await pods.run("first", real_node)
        address = pod["status"]["podIP"]
        assert address.startswith("10.88.0.")
        assert address in real_node.exec(container_of(pod), "ip", "-4", "address", "show", "dev", "eth0")
        real_node.enclosure.run("ping", "-c", "1", "-W", "5", address)
        await pods.delete("first", real_node)

    async def test_pods_outlive_kubelet(self, real_node: RealNode, client: HttpClient) -> None:
        """A pod runs on while kubelet is restarted, and kubelet knows it again."""
        pods = Pods(client)
        before = await pods.run("second", real_node)
        real_node.stop_kubelet()
        real_node.start_kubelet()
        await node_ready(client, real_node)
        after = await pods.running("second", real_node)
        assert container_of(after) == container_of(before)
        await pods.delete("second", real_node)


@pytest.mark.skipif(bool(obstacle()), reason=obstacle())
class TestEnclosure:
    """Without kubelet."""

    def test_nothing_is_left(self, tmp_path: Path) -> None:
        """Daemons of an enclosure end with it, and its control groups, links and mounts are gone."""
        with Enclosure("brief", tmp_path) as enclosure:
            enclosure.start("daemon", "sleep", "1000")
            enclosure.run("ip", "link", "add", "brief0", "type", "bridge")
            inside = enclosure.network.readlink()
            assert inside != Path("/proc/self/ns/net").readlink()
            held = os.open(enclosure.network, os.O_RDONLY)  # so that no other namespace gets its number
        try:
            assert not [each for name in CONTROLLERS for each in control_groups(name, f"{PREFIX}-*-brief")]
            assert not Path("/sys/class/net/brief0").exists()
            namespaces = [pid for pid, process in processes() if _network(process) == inside]
            assert namespaces == []
        finally:
            os.close(held)

    def test_settings_of_the_machine_stay(self, tmp_path: Path) -> None:
        """Kubelet's kernel settings are written to copies."""
        setting = Path("/proc/sys/vm/overcommit_memory")
        before = setting.read_text()
        with Enclosure("settings", tmp_path) as enclosure:
            enclosure.run("sh", "-c", f"echo 7 >{setting}")
            assert enclosure.run("cat", setting) == "7\n"
            assert setting.read_text() == before

    def test_a_killed_test_leaves_no_program(self, tmp_path: Path) -> None:
        """All programs of an enclosure end when its first process does, as when a test is killed."""
        with Enclosure("killed", tmp_path) as enclosure:
            enclosure.start("daemon", "sleep", "1000")
            subprocess.run(["kill", "-KILL", str(enclosure.pid)], check=True)
            enclosure.wait("daemon")


def _network(process: Path) -> Path | None:
    try:
        return (process / "ns/net").readlink()
    except OSError:
        return None
