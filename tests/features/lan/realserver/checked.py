"""`lanloom check` on real nodes: the image on both, and what binds pods as a scheduler would."""

import asyncio

from msgspec.structs import replace

from lanloom import __version__
from lanloom.api.core import PODS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.features import FEATURES
from lanloom.processes.trials.facts import CheckOptions, read_facts
from lanloom.processes.trials.run import check
from lanloom.processes.trials.verdicts import Verdict
from lanloom.runtime.feature import trials_of
from lanloom.runtime.trials import HOSTNAME, NAMESPACE
from lanloom_lab.assets import default_cache
from scripts.image.build import build
from tests.features.lan.realserver.cluster import UNDERLAY, LanCluster
from tests.harness.nodes.pods import Raw

EPOCH = 1767225600


def load_image(cluster: LanCluster) -> None:
    """Load the image onto both nodes, as without a registry."""
    archive = build(default_cache(), "amd64", EPOCH, print).archive
    for each in (cluster.one, cluster.other):
        each.node.write("/run/node/lanloom.tar", archive)
        each.node.ctr("images", "import", "/run/node/lanloom.tar")


async def checked(cluster: LanCluster) -> tuple[Verdict, ...]:
    """Check LANs, which are what the agents of these nodes run."""
    options = CheckOptions(image=f"lanloom:{__version__}", underlay=UNDERLAY, seconds=300)
    facts = await read_facts(cluster.client, options, "real")
    facts = replace(facts, kinds=frozenset({LANS.full_name, NADS.full_name}), pull_policy="Never")
    binder = asyncio.create_task(_bind(cluster))
    try:
        return await check(cluster.client, facts, trials_of(FEATURES, facts), print)
    finally:
        binder.cancel()


async def _bind(cluster: LanCluster) -> None:
    """Bind pods to the nodes that they ask for, once these offer what they ask for."""
    nodes = {each.name: each for each in (cluster.one, cluster.other)}
    while True:
        listing = await cluster.client.request("GET", PODS.path(NAMESPACE))
        for pod in listing["items"]:
            if not pod["spec"].get("nodeName"):
                await _bind_one(cluster, pod, nodes[pod["spec"]["nodeSelector"][HOSTNAME]].name)
        await asyncio.sleep(0.5)


async def _bind_one(cluster: LanCluster, pod: Raw, node: str) -> None:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    on = cluster.one if cluster.one.name == node else cluster.other
    for resource in (name for name in limits if "/" in name):
        await cluster.allocatable(on, resource, "1")
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await cluster.client.request("POST", f"{PODS.path(NAMESPACE, name)}/binding", body)
