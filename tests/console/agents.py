"""Agents of LANs behind the API server: what they answer to those who ask their pods for metrics."""

from lanloom.features.lan.agent.metrics import LanAgentMetrics, SpokeTraffic
from lanloom.features.lan.rules.observed import Traffic
from lanloom.kube.errors import TransportError
from lanloom.runtime.exposition import CollectorRegistry, generate_latest
from lanloom_embedded.front.proxy import Answer

ADDRESSES = {"node1": "198.51.100.1", "node2": "198.51.100.2"}
"""The addresses of the agents' pods. The second one does not answer, and node3 has none."""

PASSED = Traffic((7, 1200), (900, 1_234_567), (1, 2), (("port-security", 5), ("isolation", 0)))


def exposition(*lans: str, traffic: Traffic = PASSED) -> str:
    """The metrics of an agent on whose node the spoke `web` of these LANs is attached."""
    registry = CollectorRegistry()
    LanAgentMetrics(registry).follow(
        lambda: [
            SpokeTraffic(
                namespace=lan.partition("/")[0],
                lan=lan.partition("/")[2],
                spoke="web",
                mode="veth",
                traffic=traffic,
            )
            for lan in lans
        ]
    )
    return generate_latest(registry).decode()


async def get(url: str) -> Answer:
    """Answer as the pod at that address."""
    if url != f"http://{ADDRESSES['node1']}:9811/metrics":
        raise TransportError("connection refused")
    body = exposition("ours/blue", "ours/green", "theirs/secret")
    return Answer(200, "text/plain", body.encode())
