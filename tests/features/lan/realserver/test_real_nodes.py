"""LANs on real nodes: kubelet's device manager, containerd's CNI, and frames between pods."""

import pytest

from lanloom.api.core import NAMESPACES
from lanloom.api.lan import LANS, nad_name, resource_name
from tests.features.lan.realserver.checked import checked, load_image
from tests.features.lan.realserver.cluster import LanCluster, lan
from tests.harness.nodes.enclosure import EnclosureError
from tests.harness.nodes.pods import container_of
from tests.harness.servers.eventually import eventually

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]


async def test_pods_ping_each_other(lan_cluster: LanCluster) -> None:
    """Pods with the NADs of two spokes have an interface each, and reach each other across the nodes."""
    cluster = lan_cluster
    await cluster.create(lan("blue", 7, "blue1", "blue2"))
    pods = []
    for number, node in enumerate((cluster.one, cluster.other), 1):
        spoke = f"blue{number}"
        resource = resource_name(spoke, "veth")
        await cluster.allocatable(node, resource, "1")
        pod = await cluster.attach(spoke, node, nad_name(spoke, "veth"), resource)
        node.in_pod(pod, "ip", "address", "add", f"10.7.0.{number}/24", "dev", "net1")
        pods.append(pod)
    assert (
        '"interface": "net1"'
        in (await cluster.pods.get("blue1"))["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"]
    )
    assert " 0% packet loss" in cluster.one.in_pod(pods[0], "ping", "-c", "3", "-W", "10", "10.7.0.2")
    for name, node in (("blue1", cluster.one), ("blue2", cluster.other)):
        await cluster.delete(name, node)
        await cluster.left(node, "blue")


async def test_a_machine_gets_its_device(lan_cluster: LanCluster) -> None:
    """A pod that requests a spoke's resource for machines gets the macvtap, and its character device."""
    cluster, node = lan_cluster, lan_cluster.one
    await cluster.create(lan("green", 8, "green1"))
    resource = resource_name("green1", "macvtap")
    await cluster.allocatable(node, resource, "1")
    pod = await cluster.attach("machine", node, nad_name("green1", "macvtap"), resource)
    link = node.in_pod(pod, "ip", "-details", "-oneline", "link", "show", "net1")
    assert "macvtap mode passthru" in link
    index = link.partition(":")[0]
    # Reading waits for a frame, which does not come: opening is what the container's rights allow.
    node.node.exec(container_of(pod), "/bin/sh", "-c", f": <>/dev/tap{index}")
    with pytest.raises(EnclosureError, match="not permitted"):
        node.node.exec(container_of(pod), "/bin/sh", "-c", "busybox mknod /tmp/kmsg c 1 11 && : </tmp/kmsg")
    await cluster.delete("machine", node)


async def test_devices_are_registered_again(lan_cluster: LanCluster) -> None:
    """After a restart of kubelet the spokes are registered again, and a pod gets one."""
    cluster, node = lan_cluster, lan_cluster.one
    await cluster.create(lan("red", 9, "red1"))
    resource = resource_name("red1", "veth")
    await cluster.allocatable(node, resource, "1")
    node.node.stop_kubelet()
    await cluster.forget_devices(node, resource)
    node.node.start_kubelet()
    await cluster.allocatable(node, resource, "1")
    pod = await cluster.attach("again", node, nad_name("red1", "veth"), resource)
    assert "net1" in node.in_pod(pod, "ip", "link", "show", "net1")
    await cluster.delete("again", node)


async def test_a_spoke_is_given_once(lan_cluster: LanCluster) -> None:
    """Kubelet refuses a second pod for the same spoke of a node, and the first one keeps its interface."""
    cluster, node = lan_cluster, lan_cluster.other
    await cluster.create(lan("white", 10, "white1"))
    resource = resource_name("white1", "veth")
    await cluster.allocatable(node, resource, "1")
    first = await cluster.attach("white-first", node, nad_name("white1", "veth"), resource)
    await cluster.pods.create("white-second", node.node, resources=[resource])
    second = await cluster.pods.ended("white-second")
    assert second["status"]["phase"] == "Failed"
    assert resource in second["status"]["message"]
    assert "net1" in node.in_pod(first, "ip", "link", "show", "net1")
    await cluster.delete("white-first", node)


async def test_a_pod_outlives_the_agent(lan_cluster: LanCluster) -> None:
    """A pod keeps its interface while the agent is restarted, and the agent knows it again."""
    cluster, node = lan_cluster, lan_cluster.one
    await cluster.create(lan("grey", 11, "grey1"))
    resource = resource_name("grey1", "veth")
    await cluster.allocatable(node, resource, "1")
    pod = await cluster.attach("grey1", node, nad_name("grey1", "veth"), resource)

    async def link() -> str:
        return node.in_pod(pod, "ip", "-oneline", "link", "show", "net1")

    # The kernel tells the state up to a second later.
    before = await eventually(link, lambda text: " state UP " in text)
    node.stop_agent()
    await cluster.allocatable(node, resource, "0")
    node.start_agent()
    await cluster.allocatable(node, resource, "1")
    assert await link() == before
    await cluster.delete("grey1", node)
    await cluster.left(node, "grey")


async def test_a_lan_in_use_stays(lan_cluster: LanCluster) -> None:
    """A LAN that is deleted keeps its pod's interface until the pod goes; then it goes with its NADs."""
    cluster, node = lan_cluster, lan_cluster.one
    await cluster.create(lan("black", 12, "black1"))
    resource = resource_name("black1", "veth")
    await cluster.allocatable(node, resource, "1")
    pod = await cluster.attach("black1", node, nad_name("black1", "veth"), resource)
    await cluster.client.delete(LANS, "black", "default")
    await cluster.until_in_use("black")
    assert "net1" in node.in_pod(pod, "ip", "link", "show", "net1")
    await cluster.delete("black1", node)
    await cluster.gone("black")
    await cluster.allocatable(node, resource, "0")


async def test_the_check_finds_the_nodes_connected(lan_cluster: LanCluster) -> None:
    """`lanloom check` runs the image on both nodes, its pods hear each other over VXLAN, and nothing of it stays."""
    load_image(lan_cluster)
    (found,) = await checked(lan_cluster)
    assert (found.name, found.result, found.found) == ("lan", "ok", "on node1, node2"), found
    assert "lanloom-check" not in str(await lan_cluster.client.request("GET", NAMESPACES.path()))
    for node in (lan_cluster.one, lan_cluster.other):
        await lan_cluster.left(node, "lanloom-chk")
