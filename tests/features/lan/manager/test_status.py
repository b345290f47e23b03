"""The status of a LAN follows what its nodes report."""

from msgspec.structs import replace

from lanloom.api.lan import LANS, UnderlayLink
from tests.features.lan.manager.scene import ETH0, PLACE, Scene, in_a_scene
from tests.features.lan.samples import entry


@in_a_scene
async def test_the_nodes_of_a_lan(scene: Scene) -> None:
    """Each node that carries the LAN is listed with its endpoint; the MTU is the smallest one."""
    lan = await scene.add()
    for name in ("node1", "node2"):
        await scene.add_node(name)
    await scene.carries("node2", entry(lan, address="10.0.0.2", mtu=8950))
    await scene.carries("node1", entry(lan))
    await scene.rest()
    status = (await scene.get()).status
    assert [(node.name, node.ready, node.address, node.mtu) for node in status.nodes] == [
        ("node1", True, "10.0.0.1", 1450),
        ("node2", True, "10.0.0.2", 8950),
    ]
    assert (status.mtu, status.summary) == (1450, "2/2")
    assert await scene.reason() == "True Ready"
    await scene.carries("node1")
    await scene.rest()
    status = (await scene.get()).status
    assert (status.mtu, status.summary) == (8950, "1/1")


@in_a_scene
async def test_a_node_that_fails_is_named(scene: Scene) -> None:
    """The condition names the node and what is missing there; an Event tells when that changes."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan, ready=False, message="eth0 is not there", mtu=0))
    await scene.rest()
    assert await scene.reason() == "False NodesNotReady"
    assert await scene.message() == "node1: eth0 is not there"
    assert (await scene.get()).status.summary == "0/1"
    await scene.carries("node1", entry(lan))
    await scene.rest()
    assert await scene.reason() == "True Ready"
    reasons = [text.partition(":")[0] for text in await scene.events()]
    assert reasons == ["Ready", "NodesNotReady", "Ready"]


@in_a_scene
async def test_the_underlay_before_the_first_pod(scene: Scene) -> None:
    """A LAN on a link that no node has is not ready before anything is attached, and is when a node gets the link."""
    await scene.add(defaultVxlanDev="eth7")
    await scene.rest()
    assert await scene.reason() == "False NotReported"
    assert "no agent of LANs has reported its underlay link eth7 yet" in await scene.message()
    await scene.has_links("agent", ETH0, UnderlayLink(name="eth7"))
    await scene.rest()
    assert await scene.reason() == await scene.reason(type="UnderlayReady") == "False NoUnderlay"
    assert (await scene.message()).startswith("agent: the underlay link eth7 is not there")
    assert [text.partition(":")[0] for text in await scene.events()] == ["NoUnderlay"]
    await scene.has_links("agent", ETH0, replace(ETH0, name="eth7"))
    await scene.rest()
    assert await scene.reason() == await scene.reason(type="UnderlayReady") == "True Ready"


@in_a_scene
async def test_links_wake_their_lans_only(scene: Scene) -> None:
    """What nodes say of a link costs a write of the LANs that name it, and nothing where it says the same."""
    await scene.add()
    await scene.add("red", ns="red", vni=8, spokes=["x"], defaultVxlanDev="eth7")
    await scene.rest()
    scene.counted.requests.clear()
    for number in range(20):
        await scene.has_links(f"n{number}", ETH0)
    await scene.rest()
    assert scene.counted.requests == []
    await scene.has_links("n1", ETH0, UnderlayLink(name="eth7"))
    await scene.rest()
    assert scene.counted.requests == ["patch LAN"]


@in_a_scene
async def test_a_node_that_is_away_is_not_ready(scene: Scene) -> None:
    """Whatever a node said last, a LAN is not ready on it while the node is not."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.rest()
    await scene.node_is("node1", "Unknown")
    await scene.rest()
    assert await scene.message() == "node1: the node is not Ready"


@in_a_scene
async def test_a_report_wakes_its_lans_only(scene: Scene) -> None:
    """What a node says of one LAN costs one write, of that LAN's status."""
    lan = await scene.add()
    await scene.add("red", ns="red", vni=8, spokes=["x"])
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.rest()
    scene.counted.requests.clear()
    await scene.carries("node1", entry(lan, message="still well"))
    await scene.rest()
    assert scene.counted.requests == ["patch LAN"]


UPLINK = {"clusterNetwork": "cluster-1", "vlan": 2012}


@in_a_scene
async def test_the_node_of_the_uplink(scene: Scene) -> None:
    """A LAN with an uplink is ready while a node joins it to the VLAN, which the status names."""
    lan = await scene.add(uplink=UPLINK)
    for name in ("node1", "node2"):
        await scene.add_node(name)
    await scene.rest()
    assert await scene.reason() == "False UplinkDown"
    assert (await scene.message()).startswith("no node joins it to VLAN 2012 of cluster network cluster-1")
    await scene.carries("node1", entry(lan))
    await scene.carries("node2", replace(entry(lan, address="10.0.0.2"), uplink=True))
    await scene.rest()
    assert await scene.reason() == "True Ready"
    assert [(node.name, node.uplink) for node in (await scene.get()).status.nodes] == [
        ("node1", False),
        ("node2", True),
    ]


@in_a_scene
async def test_a_status_of_somebody_else(scene: Scene) -> None:
    """A status of another writer, or of which the manager knows nothing, is written again, once."""
    lan = await scene.add()
    await scene.rest()
    before = (await scene.get()).status
    wrong = {"status": {"summary": "9/9", "conditions": []}}
    scene.counted.requests.clear()
    await scene.client.patch(LANS, lan.metadata.name, wrong, PLACE, subresource="status")
    await scene.rest()
    status = (await scene.get()).status
    assert (status.summary, len(status.conditions)) == (before.summary, len(before.conditions))
    assert scene.counted.requests == ["patch LAN"]
