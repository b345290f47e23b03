"""Metrics of spokes: what passed the ports of those that are attached on the node."""

from msgspec.structs import replace

from lanloom.features.lan.agent.metrics import SPOKES_SHOWN, LanAgentMetrics, SpokeTraffic
from lanloom.features.lan.rules.observed import Traffic
from lanloom.runtime.exposition import CollectorRegistry
from tests.features.lan.agent.nodes import LanCluster, macvtap, veth
from tests.harness.cluster import play

PASSED = Traffic((3, 5), (300, 500), (1, 0))


def test_attached_spokes_are_counted() -> None:
    """Each attached spoke has its port's counters; the VXLAN and spokes that nothing is attached to have none."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        assert node.plane is not None and list(node.plane.traffic()) == []
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        await node.spokes.attach(macvtap("blue-b", node.pod("p2"), container="c2"))
        node.world.traffic = {"blue-aV0": PASSED, "blue-bM0": PASSED, "vx0": PASSED}
        shown = [
            SpokeTraffic(namespace="default", lan="blue", spoke=spoke, mode=mode, traffic=PASSED)
            for spoke, mode in (("blue-b", "macvtap"), ("blue-a", "veth"))
        ]
        found = list(node.plane.traffic())
        assert sorted(found, key=lambda each: each.spoke) == sorted(shown, key=lambda each: each.spoke)
        await node.spokes.detach("c2", "net1")
        assert [each.spoke for each in node.plane.traffic()] == ["blue-a"]

    play(story, LanCluster)


def test_refused() -> None:
    """Counters that can't be read are left out, and the other metrics are shown."""

    async def story(cluster: LanCluster) -> None:
        await cluster.lan()
        node = await cluster.node("n1", 1)
        await cluster.until(lambda: len(node.spokes.devices()) == 8)
        await node.spokes.attach(veth("blue-a", node.pod("p1")))
        assert node.plane is not None
        node.world.traffic = None
        assert list(node.plane.traffic()) == []

    play(story, LanCluster)


def test_refused_frames_are_shown() -> None:
    """Frames that options dropped are shown by option, for spokes that have it, and are absent for others."""
    registry = CollectorRegistry()
    metrics = LanAgentMetrics(registry)
    passed = PASSED._replace(refused=(("port-security", 7), ("isolation", 0)))
    metrics.follow(lambda: [replace(spoke(1), traffic=passed), spoke(2)])
    labels = {"namespace": "default", "lan": "blue", "spoke": "s1", "mode": "veth"}
    name = "lanloom_agent_lan_spoke_refused_frames_total"
    assert registry.get_sample_value(name, labels | {"option": "port-security"}) == 7
    assert registry.get_sample_value(name, labels | {"option": "isolation"}) == 0
    shown = [each for family in registry.collect() for each in family.samples if each.name == name]
    assert len(shown) == 2


def spoke(number: int) -> SpokeTraffic:
    """The traffic of one of many spokes."""
    return SpokeTraffic(namespace="default", lan="blue", spoke=f"s{number}", mode="veth", traffic=PASSED)


def test_shown() -> None:
    """Frames, bytes and drops are shown by LAN, spoke, mode and direction."""
    registry = CollectorRegistry()
    metrics = LanAgentMetrics(registry)
    metrics.follow(lambda: [spoke(1)])
    labels = {"namespace": "default", "lan": "blue", "spoke": "s1", "mode": "veth"}
    for name, values in (("frames", (3, 5)), ("bytes", (300, 500)), ("dropped_frames", (1, 0))):
        for direction, value in zip(("in", "out"), values, strict=True):
            found = registry.get_sample_value(
                f"lanloom_agent_lan_spoke_{name}_total", labels | {"direction": direction}
            )
            assert found == value


def test_bounded() -> None:
    """No more spokes are shown than the documentation says."""
    registry = CollectorRegistry()
    LanAgentMetrics(registry).follow(lambda: map(spoke, range(SPOKES_SHOWN + 5)))
    samples = [sample for family in registry.collect() for sample in family.samples]
    frames = [each for each in samples if each.name == "lanloom_agent_lan_spoke_frames_total"]
    assert len(frames) == 2 * SPOKES_SHOWN
