"""The pods of the agents of a lab's nodes, in virtual time, with the lab's kubelet and controller of DaemonSets."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from lanloom.api.core import NAMESPACES, NODES, PODS, Pod
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.lan.counters import AGENTS, agents_of
from lanloom.kube.conditions import is_true
from lanloom_lab.workloads.agentpods import MIRROR, AgentPods
from lanloom_lab.workloads.daemonsets import DaemonSets
from tests.lab.workloads.site import Site, on_a_site


def among_agents(test: Callable[[Site], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a site whose nodes n1 and n2 have Node objects."""

    @on_a_site
    async def run_it(site: Site) -> None:
        parts = (
            AgentPods(site.client, site.machines, Random(3)),
            DaemonSets(site.client, Random(4), site.now),
        )
        workers = [asyncio.create_task(part.run()) for part in parts]
        try:
            await site.client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
            for node in ("n1", "n2"):
                site.start(node)
                await site.client.create(NODES, {"metadata": {"name": node}})
            await site.rest()
            await test(site)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it


async def pods(site: Site) -> dict[str, Pod]:
    """The agents' pods by node, as clients look for them."""
    found = (await site.client.list(PODS, LANLOOM_NAMESPACE, labels=AGENTS)).items
    assert len({pod.spec.node_name for pod in found}) == len(found)
    return {pod.spec.node_name: pod for pod in found}


def ready(pod: Pod) -> bool:
    """Whether the pod's condition says so."""
    return is_true(pod.status.conditions, "Ready")


@among_agents
async def test_an_agent_is_found_as_in_any_cluster(site: Site) -> None:
    """Each node has a pod that names the port of its agent's metrics and its node's address, and runs nothing."""
    found = await pods(site)
    assert agents_of(found.values()) == {"n1": "lanloom-lan-n1:9810", "n2": "lanloom-lan-n2:9810"}
    for node, address in (("n1", "192.0.2.1"), ("n2", "192.0.2.2")):
        assert (found[node].status.pod_ip, ready(found[node])) == (address, True)
    assert not site.hosts.sessions
    assert not site.hosts.calls


@among_agents
async def test_a_pod_is_its_nodes(site: Site) -> None:
    """A drain leaves the pod alone, and a DaemonSet of the chart with the same labels does not adopt it."""
    labels = dict([AGENTS.split("=")])
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "agent", "image": "any"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "lanloom-lan"}, "spec": spec}
    await site.client.create(DAEMON_SETS, body, LANLOOM_NAMESPACE)
    await site.rest()
    found = (await site.client.list(PODS, LANLOOM_NAMESPACE, labels=AGENTS)).items
    mirrors = [pod for pod in found if MIRROR in pod.metadata.annotations]
    assert (len(found), len(mirrors)) == (4, 2)
    for pod in mirrors:
        (owner,) = pod.metadata.owner_references
        node = await site.client.get(NODES, pod.spec.node_name)
        assert (owner.kind, owner.uid, owner.controller) == (NODES.kind, node.metadata.uid, True)


@among_agents
async def test_a_deleted_pod_comes_again(site: Site) -> None:
    """A deleted pod comes again while its node runs, gently or at once."""
    for grace in (None, 0):
        before = (await pods(site))["n1"].metadata
        await site.client.delete(PODS, before.name, LANLOOM_NAMESPACE, grace=grace)
        await site.rest()
        after = (await pods(site))["n1"]
        assert after.metadata.uid != before.uid
        assert ready(after)


@among_agents
async def test_a_node_that_is_off_keeps_its_pod(site: Site) -> None:
    """The pod of a node that is off stays and is not ready; it is ready again after the next boot."""
    before = (await pods(site))["n1"].metadata.uid
    site.stop("n1")
    await site.rest()
    off = (await pods(site))["n1"]
    assert (off.metadata.uid, ready(off)) == (before, False)
    site.start("n1")
    await site.rest()
    on = (await pods(site))["n1"]
    assert (on.metadata.uid, ready(on)) == (before, True)


@among_agents
async def test_a_pod_goes_with_its_node(site: Site) -> None:
    """The pod of a node that is removed goes, and a new node of that name gets one of its own."""
    before = (await pods(site))["n1"].metadata.uid
    site.stop("n1")
    await site.client.delete(NODES, "n1")
    site.machines.removed("n1")
    await site.rest()
    assert (await pods(site)).keys() == {"n2"}
    await site.client.create(NODES, {"metadata": {"name": "n1"}})
    await site.rest()
    assert (await pods(site)).keys() == {"n2"}
    site.start("n1")
    await site.rest()
    after = (await pods(site))["n1"]
    assert after.metadata.uid != before
    assert ready(after)


@among_agents
async def test_a_pod_comes_back_with_the_node_object(site: Site) -> None:
    """A deleted Node object takes the pod of its running node along, and brings it when it is back."""
    await site.client.delete(NODES, "n1")
    await site.rest(60)
    assert (await pods(site)).keys() == {"n2"}
    node = await site.client.create(NODES, {"metadata": {"name": "n1"}})
    await site.rest()
    (owner,) = (await pods(site))["n1"].metadata.owner_references
    assert owner.uid == node.metadata.uid
