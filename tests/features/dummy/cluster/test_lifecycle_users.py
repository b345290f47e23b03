"""Users of an isolated network that are hard to see, or that come at the worst moment, on either cluster."""

import asyncio

import pytest

from lanloom.api.core import CRDS
from lanloom.api.dummy import DRAINING
from lanloom.api.workloads import DEPLOYMENTS
from lanloom.kube.errors import Forbidden
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.installed import KUBEVIRT, ensure
from tests.features.dummy.cluster.managed import Managed, managed

pytestmark = pytest.mark.slow

ROUNDS, MACHINES = 6, 8


async def test_a_deployment_without_pods_keeps_it(cluster: Ground) -> None:
    """What makes pods keeps a network by its template, though it has none at the moment."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        annotations = {"k8s.v1.cni.cncf.io/networks": f'[{{"name": "{net.nad_name}"}}]'}
        template = {
            "metadata": {"labels": {"app": "web"}, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "image"}]},
        }
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await net.client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, net.place)
        await net.delete()
        await net.reaches("DeletionBlocked", lambda dcn: f"Deployment {net.place}/web" in dcn.status.message)
        await net.client.delete(DEPLOYMENTS, "web", net.place)
        await net.gone(uid)


async def test_machines_of_a_kind_that_is_new(cluster: Ground) -> None:
    """A machine keeps the network though no webhook saw it, and its kind is so new that no watch knows it yet."""
    async with managed(cluster, kubevirt=False) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.unguarded()
        for crd in KUBEVIRT:
            await ensure(net.client, CRDS, crd)
        await eventually(net.add_machine, lambda _: True)
        await net.delete()
        await net.reaches(
            "DeletionBlocked", lambda dcn: f"VirtualMachine {net.place}/vm" in dcn.status.message
        )
        await net.remove_machine()
        await net.gone(uid)


async def come(net: Managed, number: int, start: asyncio.Event) -> bool:
    """A machine that wants to use the network as soon as it may go; whether it got in."""
    await start.wait()
    for _ in range(number):
        await asyncio.sleep(0)
    try:
        await net.add_machine(f"vm-{number}")
    except Forbidden:
        return False
    return True


async def they_keep_it(net: Managed, uid: str, machines: list[str]) -> None:
    """The network has all these machines as its users, and is whole, until the last one of them goes."""
    wanted = {f"VirtualMachine {net.place}/{name}" for name in machines}
    if wanted:
        await net.reaches("DeletionBlocked", lambda dcn: wanted <= set(dcn.status.users))
        await eventually(net.nad, lambda nad: DRAINING in nad.metadata.annotations)
        assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}
    for name in machines:
        assert not await net.is_gone()
        await net.remove_machine(name)


async def test_machines_come_while_it_goes(cluster: Ground) -> None:
    """Every machine that gets in while a network is being deleted has it until its end, whenever it comes."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        outcomes = set()
        for turn in range(ROUNDS):
            net.name, net.nad_name = f"{cluster.place}-{turn}", f"isolated-{turn}"
            uid = (await net.create_ready()).metadata.uid
            start = asyncio.Event()
            coming = [asyncio.create_task(come(net, number, start)) for number in range(MACHINES)]
            if turn % 2:
                start.set()
            await net.delete()
            start.set()
            entered = await asyncio.gather(*coming)
            outcomes |= set(entered)
            await they_keep_it(net, uid, [f"vm-{number}" for number in range(MACHINES) if entered[number]])
            await net.gone(uid)
        assert True in outcomes
