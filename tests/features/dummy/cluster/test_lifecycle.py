"""The life of an isolated network in a whole cluster: the embedded server's and a real one, with the same manager."""

import json
from functools import partial
from typing import Literal

import pytest

from lanloom.api.core import PODS
from lanloom.api.dummy import (
    DRAINING,
    IN_USE,
    UID_LABEL,
    NodeCounts,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import Forbidden
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.managed import Managed, managed


@pytest.mark.slow
async def test_a_whole_life(cluster: Ground) -> None:
    """A network becomes ready, is kept while a machine uses it, and goes with everything when that is gone."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        dcn = await net.create_ready()
        uid = dcn.metadata.uid
        nad = await net.nad()
        config = json.loads(nad.spec.config)
        assert (config["type"], config["bridge"]) == ("bridge", f"{net.name}-br")
        assert nad.metadata.labels[UID_LABEL] == uid
        # Its controller counts ready pods after the manager knows of them.
        await eventually(partial(net.daemons, uid), lambda daemons: daemons.status.number_ready == 3)
        assert (dcn.status.nodes.live, dcn.status.nodes.acknowledged) == (3, 3) if dcn.status.nodes else False
        assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}
        assert {item.kind for item in dcn.status.resources} >= {"NetworkAttachmentDefinition", "DaemonSet"}

        await net.add_machine()
        await net.delete()
        blocked = await net.reaches("DeletionBlocked", lambda found: is_true(found.status.conditions, IN_USE))
        assert f"VirtualMachine {net.place}/vm" in blocked.status.message
        assert blocked.status.users == (f"VirtualMachine {net.place}/vm",)
        user = f"VirtualMachine {net.place}/vm"
        await eventually(
            partial(net.events, "DeletionBlocked"), lambda told: any(user in message for message in told)
        )
        await eventually(net.nad, lambda nad: DRAINING in nad.metadata.annotations)
        assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}

        await net.remove_machine()
        await net.gone(uid)


@pytest.mark.slow
async def test_a_bridge_that_can_t_be_removed_keeps_the_network(cluster: Ground) -> None:
    """The finalizer stays until each node has acknowledged, and the node that has not says why."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        message = "bridge has a port: veth1"
        cluster.kubelets.verdict = lambda pod: message if pod.spec.node_name == "n2" else None
        await net.delete()
        waiting = await net.reaches(
            "Terminating",
            lambda found: (
                message in found.status.message
                and found.status.nodes
                == NodeCounts(live=3, acknowledged=2)  # who has nothing to say may be later
            ),
        )
        assert "n2" in waiting.status.message
        cluster.kubelets.verdict = lambda pod: None
        cluster.kubelets.look_again()
        await net.gone(uid)


@pytest.mark.slow
async def test_nobody_new_gets_in(cluster: Ground) -> None:
    """A machine that is to use a network which is being deleted is refused with that reason."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        await net.delete()
        await net.reaches("DeletionBlocked")
        await eventually(net.nad, lambda nad: DRAINING in nad.metadata.annotations)
        with pytest.raises(Forbidden, match="deleted"):
            await net.add_machine("late")
        await net.remove_machine()
        await net.gone(uid)


@pytest.mark.slow
async def test_nothing_is_asked_while_a_user_stays(cluster: Ground) -> None:
    """A network that is used is not looked at again by the clock: the manager waits for a watch to tell."""
    async with managed(cluster) as net:
        replica = await net.manager()
        await replica.leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        await net.delete()
        await net.reaches("DeletionBlocked")
        requests = replica.client.requests

        async def is_quiet() -> bool:
            before = requests.total()
            await net.passes(5)
            return requests.total() == before

        await eventually(is_quiet, bool, 60)
        await net.remove_machine()
        await net.gone(uid)


@pytest.mark.slow
@pytest.mark.parametrize("propagation", ["Foreground", "Orphan"])
async def test_no_way_of_deleting_takes_it_from_under_users(
    cluster: Ground, propagation: Literal["Foreground", "Orphan"]
) -> None:
    """Deleted in the foreground or without dependents, a network that is used keeps all that it is made of."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        before = sorted(await net.made(uid))
        pods = {node: pod.metadata.uid for node, pod in (await net.bridge_pods(uid)).items()}
        await net.delete(propagation)
        await net.reaches("DeletionBlocked")
        # The collector has done its part when its own finalizer is gone: then it would have taken the rest.
        own = {"orphan", "foregroundDeletion"}
        await eventually(net.get, lambda dcn: not own & set(dcn.metadata.finalizers))
        assert sorted(await net.made(uid)) == before
        assert {node: pod.metadata.uid for node, pod in (await net.bridge_pods(uid)).items()} == pods
        await net.remove_machine()
        await net.gone(uid)


@pytest.mark.slow
async def test_a_pod_keeps_it_too(cluster: Ground) -> None:
    """A pod that names the network by an annotation keeps it until it has ended."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await add_pod(net, "user", f"{net.place}/{net.nad_name}@net1")
        await net.runs(net.place, "user")
        await net.delete()
        await net.reaches("DeletionBlocked", lambda dcn: f"Pod {net.place}/user" in dcn.status.message)
        ended = {"status": {"phase": "Succeeded"}}
        await net.client.patch(PODS, "user", ended, net.place, subresource="status")
        await net.gone(uid)


async def add_pod(net: Managed, name: str, networks: str) -> None:
    """A user's pod on n1."""
    body = {
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "image"}]},
    }
    await net.client.create(PODS, body, net.place)


@pytest.mark.slow
async def test_an_unused_network_goes_at_once(cluster: Ground) -> None:
    """A network that was never used goes without being blocked."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.delete()
        await net.gone(uid)
        assert await net.events("DeletionBlocked") == []


@pytest.mark.slow
async def test_a_subnet_comes_and_goes_with_it(cluster: Ground) -> None:
    """With a subnet there is a Network of address management, which goes with the rest."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        dcn = await net.create_ready(subnet="10.115.0.0/24", gateway="node")
        assert any(item.kind == "Network" for item in dcn.status.resources)
        await net.delete()
        await net.gone(dcn.metadata.uid)


@pytest.mark.slow
async def test_a_cluster_network_of_somebody_else_stays(cluster: Ground) -> None:
    """A ClusterNetwork that was there before is used, and is there afterwards."""
    async with managed(cluster) as net:
        await net.client.create(CLUSTER_NETWORKS, {"metadata": {"name": net.name}})
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.delete()
        await net.gone(uid)
        await net.client.get(CLUSTER_NETWORKS, net.name)


@pytest.mark.slow
async def test_without_kubevirt(cluster: Ground) -> None:
    """Where there are no machines as a kind, a network comes and goes like anywhere."""
    async with managed(cluster, kubevirt=False) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.delete()
        await net.gone(uid)


@pytest.mark.slow
async def test_an_invalid_network_can_go(cluster: Ground) -> None:
    """A network whose spec is wrong says so, and can be deleted."""
    async with managed(cluster) as net:
        await net.create(bridgeName="not a bridge")  # before there is a webhook that refuses it
        await (await net.manager()).leads()
        dcn = await net.reaches("InvalidSpec")
        await net.delete()
        await net.gone(dcn.metadata.uid)
