"""containerd's own calls of the CNI programs: configuration lists of each version that it knows."""

from itertools import product
from typing import Any

import pytest

from lanloom.api.lan import Mode
from lanloom.features.lan.agent.ports import Device
from tests.features.lan.realserver.cluster import LanCluster, lan

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(600)]

MODES: tuple[Mode, ...] = ("veth", "macvtap")
VERSIONS = ("0.3.1", "0.4.0", "1.0.0")
"""Those of containerd 1.6. It calls ADD and DEL, never CHECK."""

CASES = [
    (version, Device(f"orange{number}", mode))
    for number, (version, mode) in enumerate(product(VERSIONS, MODES), 1)
]


def plugin(device: Device) -> dict[str, Any]:
    """The program's configuration; the device of a machine is what Multus would add."""
    if device.mode == "veth":
        return {"type": "k8slanveth", "veth": device.spoke}
    return {"type": "macvtap", "deviceID": device.id}


async def test_pods_are_attached_and_detached(lan_cluster: LanCluster) -> None:
    """In each version a pod gets its interface by either program, and the node carries the LAN until the pod goes."""
    cluster, node = lan_cluster, lan_cluster.other
    await cluster.create(lan("orange", 20, *(device.spoke for _, device in CASES)))
    for _, device in CASES:
        await cluster.allocatable(node, device.resource, "1")
    node.node.attach_also(
        [
            {"cniVersion": version, "name": f"lan-{device.spoke}", "plugins": [plugin(device)]}
            for version, device in CASES
        ]
    )
    pod = await cluster.pods.run("orange", node.node)
    for number, (_, device) in enumerate(CASES, 1):
        link = node.in_pod(pod, "ip", "-details", "link", "show", f"eth{number}")
        assert f" {device.mode} " in link
    await cluster.delete("orange", node)
    await cluster.left(node, "orange")
    node.node.attach_also([])
