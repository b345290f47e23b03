"""Pods with a network of their own, under a kubelet of the lab."""

import json
from typing import Any

from lanloom.api.multus import NETWORK_STATUS
from lanloom_lab.workloads.multus import RESOURCE_NAME
from lanloom_lab.workloads.pods import PODS
from tests.lab.workloads.site import PLACE, Site, on_a_site


@on_a_site
async def test_a_pod_without_networks(site: Site) -> None:
    """A pod that names no network gets a namespace without an interface, and runs."""
    await site.add_pod("a")
    await site.rest()
    pod = await site.seen("a")
    assert (pod.status.phase, await site.is_ready("a")) == ("Running", True)
    assert site.hosts.namespaces == {("n1", "default.a")}
    assert not site.hosts.calls
    assert NETWORK_STATUS not in pod.metadata.annotations


@on_a_site
async def test_interfaces_follow_the_annotation(site: Site) -> None:
    """Every NAD that a pod names gives it an interface, called as it wants or by its place; all are reported."""
    await site.add_nad("one")
    await site.add_nad("two")
    await site.add_pod("a", networks="one, default/two@iso0, one")
    await site.rest()
    assert [call[3] for call in site.hosts.calls] == ["net1", "iso0", "net3"]
    status = json.loads((await site.seen("a")).metadata.annotations[NETWORK_STATUS])
    assert [(item["name"], item["interface"], item["ips"], item["mac"]) for item in status] == [
        ("default/one", "net1", ["10.0.0.1"], "02:00:00:00:00:01"),
        ("default/two", "iso0", ["10.0.0.2"], "02:00:00:00:00:02"),
        ("default/one", "net3", ["10.0.0.3"], "02:00:00:00:00:03"),
    ]


@on_a_site
async def test_the_end_of_a_pod(site: Site) -> None:
    """A deleted pod is detached in reverse order, its namespace goes, and then its object."""
    await site.add_nad("one")
    await site.add_nad("two")
    await site.add_pod("a", networks="one,two")
    await site.rest()
    await site.delete("a")
    await site.rest(1)
    assert [call[3] for call in site.hosts.calls if call[0] == "DEL"] == ["net2", "net1"]
    assert site.hosts.configs[-1]["prevResult"]["ips"] == [{"address": "10.0.0.1/24"}]
    assert not site.hosts.namespaces
    assert await site.pod("a") is None


@on_a_site
async def test_a_pod_that_is_gone_at_once(site: Site) -> None:
    """A pod whose object is removed by force is detached all the same, and so is one that has ended."""
    await site.add_nad("one")
    await site.add_pod("a", networks="one")
    await site.add_pod("b", networks="one")
    await site.rest()
    await site.delete("a", grace=0)
    await site.client.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, PLACE, subresource="status")
    await site.rest()
    assert sum(call[0] == "DEL" for call in site.hosts.calls) == 2
    assert not site.hosts.namespaces
    assert (await site.seen("b")).status.phase == "Succeeded"


@on_a_site
async def test_a_plugin_that_fails(site: Site) -> None:
    """A pod whose plugin fails is cleared up, told of in the plugin's words, and tried again until it works."""
    await site.add_nad("one")
    await site.add_nad("full")
    site.hosts.refusing.add("full")
    await site.add_pod("a", networks="one,full")
    await site.rest(0.5)
    (message,) = await site.events()
    assert message.startswith("Failed to create pod sandbox: [default/a/")
    assert message.endswith(
        'to network "full": plugin type="bridge" failed (add): no address is free; later perhaps'
    )
    assert [call[:1] + call[3:] for call in site.hosts.calls] == [
        ("ADD", "net1"),
        ("ADD", "net2"),
        ("DEL", "net2"),
        ("DEL", "net1"),
    ]
    assert not site.hosts.namespaces
    assert (await site.seen("a")).status.phase == "Pending"
    site.hosts.refusing.clear()
    await site.rest(20)
    assert await site.is_ready("a")


@on_a_site
async def test_a_network_that_does_not_exist_yet(site: Site) -> None:
    """A pod may come before its NAD."""
    await site.add_pod("a", networks="one")
    await site.rest()
    assert "there is no network-attachment-definition default/one" in (await site.events())[0]
    await site.add_nad("one")
    await site.rest(20)
    assert await site.is_ready("a")


@on_a_site
async def test_an_annotation_that_cannot_be_read(site: Site) -> None:
    """A pod whose annotation makes no sense is refused with the reason, and can be deleted."""
    await site.add_pod("a", networks="one@")
    await site.rest()
    assert "'one@' is not [namespace/]name[@interface]" in (await site.events())[0]
    await site.delete("a")
    await site.rest()
    assert await site.pod("a") is None


@on_a_site
async def test_a_chain_of_plugins(site: Site) -> None:
    """Each plugin of a list gets the name, the version and the result of the one before."""
    chain = {"cniVersion": "1.0.0", "name": "chain", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}
    await site.add_nad("one", chain)
    await site.add_pod("a", networks="one")
    await site.rest()
    assert [call[2] for call in site.hosts.calls] == ["bridge", "tuning"]
    first, second = site.hosts.configs
    assert (first["name"], second["name"], second["cniVersion"]) == ("chain", "chain", "1.0.0")
    assert second["prevResult"]["ips"] == [{"address": "10.0.0.1/24"}]


@on_a_site
async def test_a_node_that_reboots(site: Site) -> None:
    """After a reboot the pods of a node get new namespaces; nothing of the old ones is called."""
    await site.add_nad("one")
    await site.add_pod("a", networks="one")
    await site.rest()
    site.stop("n1")
    await site.rest()
    assert not await site.is_ready("a")
    site.start("n1")
    await site.rest()
    assert [call[0] for call in site.hosts.calls] == ["ADD", "ADD"]
    assert site.hosts.namespaces == {("n1", "default.a")}
    assert await site.is_ready("a")


@on_a_site
async def test_a_pod_deleted_while_its_node_is_off(site: Site) -> None:
    """It stays until the node is back, as its state is unknown."""
    await site.add_pod("a")
    await site.rest()
    site.stop("n1")
    await site.delete("a")
    await site.rest(600)
    assert (await site.seen("a")).metadata.deletion_timestamp
    site.start("n1")
    await site.rest()
    assert await site.pod("a") is None


@on_a_site
async def test_a_node_that_is_removed(site: Site) -> None:
    """The pods of a node that will not come back are gone, those of others not."""
    await site.add_pod("a")
    await site.add_pod("b", node="n2")
    await site.rest()
    site.stop("n1")
    site.machines.removed("n1")
    await site.rest()
    assert await site.pod("a") is None
    assert await site.is_ready("b")


@on_a_site
async def test_a_pod_of_the_same_name(site: Site) -> None:
    """A pod that takes the name of one that was removed by force gets a namespace of its own."""
    await site.add_nad("one")
    await site.add_pod("a", networks="one")
    await site.rest()
    await site.delete("a", grace=0)
    await site.add_pod("a", networks="one")
    await site.rest()
    assert [call[0] for call in site.hosts.calls] == ["ADD", "DEL", "ADD"]
    assert await site.is_ready("a")


RED = "example.com/red"


def asking(resource: str) -> list[dict[str, Any]]:
    """Containers of a pod that asks for a device."""
    return [{"name": "main", "image": "any", "resources": {"limits": {resource: "1", "cpu": "1"}}}]


@on_a_site
async def test_a_pod_that_asks_for_a_device(site: Site) -> None:
    """The plugin of a NAD is called with the pod's device of its resource, which is free again afterwards."""
    site.hosts.devices[RED] = "red0"
    await site.add_nad("one", None, **{RESOURCE_NAME: RED})
    await site.add_nad("two")
    await site.add_pod("a", networks="one,two", containers=asking(RED))
    await site.rest()
    assert [config.get("deviceID") for config in site.hosts.configs] == ["red0", None]
    assert list(site.hosts.device_managers["n1"].given.values()) == [[RED]]
    await site.delete("a")
    await site.rest(1)
    assert not site.hosts.device_managers["n1"].given


@on_a_site
async def test_a_device_that_is_missing(site: Site) -> None:
    """A pod waits for its device, and starts when there is one."""
    await site.add_pod("a", containers=asking(RED))
    await site.rest()
    assert not site.hosts.namespaces
    site.hosts.devices[RED] = "red0"
    await site.rest(20)
    assert await site.is_ready("a")
