"""Who uses an isolated network lives on while it waits to be deleted, on either cluster."""

from typing import Any

import pytest

from lanloom.api.core import PODS, Pod
from lanloom.api.dummy import ADMITTED, DRAINING
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SET_TEMPLATES, DEPLOYMENTS
from lanloom.kube.errors import Forbidden
from tests.features.dummy.cluster.ground import REAL, Ground, eventually
from tests.features.dummy.cluster.managed import Managed, managed

pytestmark = pytest.mark.slow

Raw = dict[str, Any]
LABELS = {"app": "web"}


def workload(net: Managed, name: str = "web", **spec: Any) -> Raw:
    """Something that makes pods on the network."""
    annotations = {"k8s.v1.cni.cncf.io/networks": net.nad_name}
    template = {
        "metadata": {"labels": LABELS, "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "image": "image"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


async def pods(net: Managed, number: int, without: frozenset[str] = frozenset()) -> list[Pod]:
    """So many pods of workloads, none of them of these uids."""

    async def read() -> list[Pod]:
        found = (await net.client.list(PODS, net.place, labels="app=web")).items
        return [pod for pod in found if not pod.metadata.is_deleting and pod.metadata.uid not in without]

    return await eventually(read, lambda found: len(found) == number)


async def replaced(net: Managed, resource: Resource[Any], number: int) -> None:
    """The pods of a workload are deleted and replaced while the network drains; it goes when the workload does."""
    uid = (await net.create_ready()).metadata.uid
    made = await net.client.create(resource, workload(net), net.place)
    first = await pods(net, number)
    await net.is_later(made.metadata.creation_timestamp)  # of the second of the mark it would be too late
    await drain(net)
    for pod in first:
        await net.client.delete(PODS, pod.metadata.name, net.place, grace=0)
    await pods(net, number, frozenset(pod.metadata.uid for pod in first))
    await net.reaches("DeletionBlocked")
    await net.client.delete(resource, "web", net.place)
    for pod in await pods(net, 0):
        await net.client.delete(PODS, pod.metadata.name, net.place, grace=0)
    await net.gone(uid)


async def drain(net: Managed) -> None:
    """A user deletes the network; returns when it accepts no new users."""
    await net.delete()
    await eventually(net.nad, lambda nad: DRAINING in nad.metadata.annotations)


async def test_a_pod_of_a_daemon_set_is_replaced(cluster: Ground) -> None:
    """Pods of a DaemonSet on a network that drains are replaced; when it is deleted, the network goes."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await replaced(net, DAEMON_SET_TEMPLATES, 3)


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_a_pod_of_a_deployment_is_replaced(cluster: Ground) -> None:
    """A pod of a Deployment on a network that drains is replaced; when the Deployment is deleted the network goes."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await replaced(net, DEPLOYMENTS, 1)


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_a_deployment_that_comes_too_late_gets_no_pods(cluster: Ground) -> None:
    """The ReplicaSet of a Deployment that was made while the network drained learns that it has no owner any more."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        await drain(net)
        await net.client.create(DEPLOYMENTS, workload(net), net.place)

        async def told() -> str:
            found = await net.client.request("GET", f"/apis/apps/v1/namespaces/{net.place}/replicasets")
            every = [item["status"].get("conditions", []) for item in found["items"]]
            return " ".join(item["message"] for conditions in every for item in conditions)

        await eventually(told, lambda text: "does not accept new users" in text)
        await pods(net, 0)
        await net.client.delete(DEPLOYMENTS, "web", net.place)
        await net.remove_machine()
        await net.gone(uid)


async def test_a_machine_starts_again(cluster: Ground) -> None:
    """The instance of a machine on a network that drains comes again, and is noted; one without an owner is refused."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        machine = await net.client.get(VIRTUAL_MACHINES, "vm", net.place)
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "controller": True}
        metadata = {"name": "vm", "ownerReferences": [{**owner, "uid": machine.metadata.uid}]}
        networks = [{"name": "lan", "multus": {"networkName": f"{net.place}/{net.nad_name}"}}]
        body = {"metadata": metadata, "spec": {"networks": networks}}
        await net.client.create(VIRTUAL_MACHINE_INSTANCES, body, net.place)
        await drain(net)
        await net.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm", net.place)
        again = await net.client.create(VIRTUAL_MACHINE_INSTANCES, body, net.place)
        assert again.metadata.uid in (await net.nad()).metadata.annotations[ADMITTED]
        with pytest.raises(Forbidden, match="does not accept new users"):
            alone = {"metadata": {"name": "alone"}, "spec": {"networks": networks}}
            await net.client.create(VIRTUAL_MACHINE_INSTANCES, alone, net.place)
        await net.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm", net.place)
        await net.remove_machine()
        await net.gone(uid)
