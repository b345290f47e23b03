"""The installed CNI programs as CNI's own library calls them: ADD, CHECK and DEL down to a real kernel."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ports import Device
from lanloom.runtime.cni.calls import DIFFERENT
from lanloom_lab.assets import default_cache
from tests.features.lan.agent.programs import Node, serving
from tests.features.lan.kernel.machines import lab, run
from tests.harness.cniruntime import Raw
from tests.harness.nodes.cnitool import cnitool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

INTERFACE = "net1"
PLUGINS: dict[str, Raw] = {
    "k8slanveth": {"type": "k8slanveth", "veth": "blue-a"},
    "macvtap": {"type": "macvtap", "deviceID": "blue-aM0"},
}
ARGUMENTS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"
KEEPS_RESULTS = 'mount --bind "$0" /var/lib && exec "$@"'
"""For `sh -c`: the library keeps the results of ADD below /var/lib, which must not be the machine's own."""


class CniTool(Struct, frozen=True):
    """`cnitool` with a network of one plugin, for one pod."""

    tool: Path
    directory: Path
    programs: Path
    pod: Path

    def configure(self, plugin: Raw, version: str) -> None:
        """Write the network's list."""
        for name in ("net.d", "lib"):
            (self.directory / name).mkdir(parents=True)
        network = {"cniVersion": version, "name": "lan", "plugins": [plugin]}
        (self.directory / "net.d/lan.conflist").write_text(json.dumps(network))

    async def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command, without holding up the agent that answers it."""
        environment = os.environ | {
            "NETCONFPATH": str(self.directory / "net.d"),
            "CNI_PATH": str(self.programs),
            "CNI_IFNAME": INTERFACE,
            "CNI_ARGS": ARGUMENTS,
        }
        words: list[str | Path] = ["unshare", "--mount", "sh", "-c", KEEPS_RESULTS, self.directory / "lib"]
        words += [self.tool, command, "lan", self.pod]

        def call() -> subprocess.CompletedProcess[str]:
            return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

        return await asyncio.to_thread(call)

    def kept(self) -> list[Path]:
        """The results that the library keeps."""
        return [path for path in (self.directory / "lib").rglob("*") if path.is_file()]


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0"])
@pytest.mark.parametrize("name", PLUGINS)
async def test_check(tmp_path: Path, name: str, version: str) -> None:
    """CHECK succeeds after ADD, fails by number and words once the interface is another, and DEL leaves nothing."""
    calls: list[tuple[str, str, int]] = []
    async with lab(tmp_path, 1) as made:
        await made.cluster.lan()
        (machine,) = made.machines
        await machine.offers()
        if name == "macvtap":
            await machine.spokes.allocate(Device("blue-a", "macvtap"))
        node = Node(tmp_path)
        tool = CniTool(cnitool(default_cache(), print), tmp_path / "cni", node.programs, machine.pod("web"))
        tool.configure(PLUGINS[name], version)
        async with serving(node.socket, LanCni(machine.spokes), called=lambda *call: calls.append(call)):
            added = await tool("add")
            assert added.returncode == 0, added.stderr
            result = json.loads(added.stdout)
            assert result["cniVersion"] == version
            (link,) = result["interfaces"]
            assert (link["name"], link["sandbox"]) == (INTERFACE, str(tool.pod))
            assert link["mac"] in run(tool.pod, f"ip link show {INTERFACE}")

            checked = await tool("check")
            assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr

            run(tool.pod, f"ip link set {INTERFACE} down")
            run(tool.pod, f"ip link set {INTERFACE} name other0")
            failed = await tool("check")
            assert failed.returncode == 1
            assert "the pod's interface is called other0 and not net1" in failed.stderr

            ended = [await tool("del"), await tool("del")]
            assert [each.returncode for each in ended] == [0, 0], ended
            assert "other0" not in run(tool.pod, "ip link show")
            assert tool.kept() == []
    expected = [("ADD", 0), ("CHECK", 0), ("CHECK", DIFFERENT), ("DEL", 0), ("DEL", 0)]
    assert calls == [(name, command, code) for command, code in expected]
