"""The agent's devices as a kubelet sees them: registration, lists, allocations, restarts on both sides."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.kubelet.plugins import DevicePlugins, is_socket
from lanloom.features.lan.agent.ports import MACVTAP, VETH, Device, SpokeError
from lanloom_lab.workloads.devicemanager import MESSAGES, DeviceManager, Unschedulable
from lanloom_lab.workloads.multus import with_device
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, serving

MAC, POD = Device("red", MACVTAP).resource, Device("red", VETH).resource
BLUE = {Device("blue", mode).resource: 1 for mode in (MACVTAP, VETH)}
RED = {MAC: 1, POD: 1}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Kubelet's directory of sockets."""
    (tmp_path / "dp").mkdir()
    return tmp_path / "dp"


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[DeviceManager]:
    """A kubelet that runs."""
    kubelet = DeviceManager(directory)
    await kubelet.start()
    yield kubelet
    await kubelet.stop()


@asynccontextmanager
async def advertised(spokes: FakeSpokes, directory: Path, **options: Any) -> AsyncIterator[None]:
    """An agent's plugins, until the block ends."""
    plugins = DevicePlugins(spokes, directory, first_retry=0.01, **options)
    task = asyncio.create_task(plugins.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def request(*containers: list[str]) -> dict[str, Any]:
    """The fields of an AllocateRequest."""
    kind = MESSAGES["ContainerAllocateRequest"]
    return {"container_requests": [kind(devices_ids=names) for names in containers]}


async def test_spokes_are_devices(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """Each spoke is a resource of capacity 1 in either mode; a machine's device is a tap, a pod's is none."""
    seen: list[tuple[str, int]] = []
    async with advertised(spokes, directory, observe=lambda *what: seen.append(what)):
        await kubelet.until_allocatable(RED | BLUE)
        assert kubelet.plugins[MAC].devices == {"redM0": "Healthy"}
        (path,) = await kubelet.allocate("machine", MAC)
        assert path.startswith("/dev/tap")
        assert await kubelet.allocate("pod", POD) == []
        with pytest.raises(Unschedulable):
            await kubelet.allocate("other", MAC)
    assert spokes.allocated == [Device("red", MACVTAP), Device("red", VETH)]
    assert seen == [("redM0", 0), ("redV0", 0)]
    assert set(os.listdir(directory)) == {"kubelet.sock", "kubelet_internal_checkpoint"}


async def test_a_kubelet_that_restarts(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """Its restart removes the sockets; all devices are served and registered again, time after time."""
    async with advertised(spokes, directory):
        for _ in range(5):
            await kubelet.until_allocatable(RED | BLUE)
            await kubelet.restart()
        await kubelet.until_allocatable(RED | BLUE)
        paths = await kubelet.allocate("machine", MAC)
        await kubelet.restart()
        assert await kubelet.allocate("machine", MAC) == paths
    assert len(spokes.allocated) == 1


async def test_spokes_that_come_and_go(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """A new spoke is registered; one that is gone is withdrawn by an empty list before its socket goes."""
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        plugin = kubelet.plugins[MAC]
        spokes.take("red")
        await kubelet.until_allocatable(BLUE)
        await kubelet.until(lambda: plugin.stopped)
        assert plugin.lists == [{"redM0": "Healthy"}, {}]
        spokes.add("red")
        await kubelet.until_allocatable(RED | BLUE)
        assert sorted(kubelet.registrations) == sorted([*RED, *BLUE, *RED])


async def test_a_node_that_is_not_ready(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """While the data plane can't attach anything, devices are unhealthy, so that no pod comes here for them."""
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        spokes.not_ready = "no vxlan"
        spokes.add()
        await kubelet.until_allocatable({})
        assert kubelet.plugins[POD].devices == {"redV0": "Unhealthy"}
        spokes.not_ready = ""
        spokes.add()
        await kubelet.until_allocatable(RED | BLUE)


@pytest.mark.parametrize(
    ("containers", "status"),
    [
        ([["blueM0"]], Status.NOT_FOUND),
        ([["redM0", "blueM0"]], Status.NOT_FOUND),
        ([["redM0", "redM0"]], Status.INVALID_ARGUMENT),
        ([["redM0"], ["redM0"]], Status.INVALID_ARGUMENT),
        ([["../../etc"]], Status.NOT_FOUND),
        ([[]], Status.INVALID_ARGUMENT),
        ([], Status.INVALID_ARGUMENT),
        ([["x"] * 1001], Status.INVALID_ARGUMENT),
    ],
)
async def test_requests_for_what_there_is_not(
    spokes: FakeSpokes, kubelet: DeviceManager, directory: Path, containers: list[list[str]], status: Status
) -> None:
    """A request that is wrong in any part is refused by its status, and nothing is built."""
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        with pytest.raises(GRPCError) as caught:
            await kubelet.plugins[MAC].call("Allocate", **request(*containers))
    assert caught.value.status == status and caught.value.message
    assert not spokes.allocated


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (SpokeError("spoke réd: 100 % taken\n"), Status.FAILED_PRECONDITION),
        (SpokeError("spoke red: wait", again=True), Status.UNAVAILABLE),
        (ZeroDivisionError(), Status.UNKNOWN),
    ],
)
async def test_devices_that_cannot_be_built(
    spokes: FakeSpokes, kubelet: DeviceManager, directory: Path, failure: Exception, status: Status
) -> None:
    """Kubelet gets the data plane's own words, and a status that says whether to try again."""
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        spokes.failure = failure
        with pytest.raises(GRPCError) as caught:
            await kubelet.allocate("machine", MAC)
        assert caught.value.status == status
        assert caught.value.message == str(failure) or status == Status.UNKNOWN
        spokes.failure = None
        assert await kubelet.allocate("machine", MAC)


async def test_the_other_methods(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """Kubelet need not call them: there are no options; asked all the same, they answer."""
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        plugin = kubelet.plugins[MAC]
        options = await plugin.call("GetDevicePluginOptions")
        assert not options.pre_start_required and not options.get_preferred_allocation_available
        await plugin.call("PreStartContainer", devices_ids=["redM0"])
        kind = MESSAGES["ContainerPreferredAllocationRequest"]
        wanted = kind(available_deviceIDs=["a", "redM0"], must_include_deviceIDs=["redM0"], allocation_size=1)
        answer = await plugin.call("GetPreferredAllocation", container_requests=[wanted])
        assert [list(each.deviceIDs) for each in answer.container_responses] == [["redM0"]]


async def test_an_agent_that_died(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """Sockets that a dead agent left are taken over or removed; files of others stay."""
    for name in ("k8slan-mac-red.sock", "k8slan-veth-gone.sock", "other.sock"):
        (directory / name).write_text("left")
    async with advertised(spokes, directory):
        await kubelet.until_allocatable(RED | BLUE)
        names = set(os.listdir(directory))
        assert "k8slan-veth-gone.sock" not in names and "other.sock" in names


async def test_a_node_without_a_kubelet_yet(spokes: FakeSpokes, tmp_path: Path) -> None:
    """The directory and the kubelet may come after the agent."""
    counts: list[int] = []
    async with advertised(spokes, tmp_path / "later", on_registered=counts.append):
        await asyncio.sleep(0)
        kubelet = DeviceManager(tmp_path / "later")
        await kubelet.start()
        await kubelet.until_allocatable(RED | BLUE)
        await kubelet.stop()
    assert counts[-1] == 4


async def test_a_kubelet_that_refuses(spokes: FakeSpokes, kubelet: DeviceManager, directory: Path) -> None:
    """A registration that is refused is tried again."""
    kubelet.refusal = GRPCError(Status.INTERNAL, "not now")
    async with advertised(spokes, directory):
        await kubelet.refused.wait()
        kubelet.refusal = None
        await kubelet.until_allocatable(RED | BLUE)


@pytest.mark.parametrize(
    ("program", "mode"), [("macvtap", "mac"), ("k8slanveth", "veth")], ids=["a machine", "a pod"]
)
async def test_from_the_scheduler_to_the_interface(
    spokes: FakeSpokes, kubelet: DeviceManager, directory: Path, node: Node, program: str, mode: str
) -> None:
    """The operator's NAD, kubelet's device and Multus's call bring a pod to its spoke."""
    name = f"k8slan-{mode}-red"
    config = {"cniVersion": "0.3.1", "name": name, "type": program}
    config |= {"veth": "red"} if mode == "veth" else {}
    resource = f"macvtap.k8slan.io/{name}"
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource}
    async with advertised(spokes, directory), serving(node.socket, LanCni(spokes)):
        await kubelet.until_allocatable(RED | BLUE)
        await kubelet.allocate("uid-1", resource)
        devices = kubelet.devices_of("uid-1")
        given = json.loads(with_device(json.dumps(config), annotations, devices))
        assert (await node.runtime.add(given))["interfaces"][0]["name"] == "net1"
        assert spokes.attached[("c0ffee", "net1")].device == spokes.devices()[resource]
        assert (await node.runtime.delete(given)).status == 0


@pytest.mark.parametrize(
    ("name", "concerns"),
    [
        ("kubelet.sock", True),
        ("k8slan-veth-web.sock", True),
        ("k8slan-mac-web.sock", True),
        ("kubelet_internal_checkpoint", False),
        (".kubelet_internal_checkpoint123", False),
        ("nvidia.sock", False),
    ],
)
def test_files_that_others_write(name: str, concerns: bool) -> None:
    """Plugins of others, and the checkpoint that kubelet writes at each allocation, cause no look at all devices."""
    assert is_socket(name) is concerns
