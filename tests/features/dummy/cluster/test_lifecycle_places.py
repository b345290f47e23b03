"""Places that others have or want, networks created again, and settings that change, on either cluster."""

from functools import partial
from typing import Any

import pytest

from lanloom.api.core import CONFIG_MAPS
from lanloom.api.dummy import CONFLICT, DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import DaemonSet
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import Forbidden
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.managed import IMAGE, Managed, managed

pytestmark = pytest.mark.slow


def is_in_conflict(dcn: DummyClusterNetwork) -> bool:
    """Whether a network says that something is in its way."""
    return is_true(dcn.status.conditions, CONFLICT)


async def add_second(net: Managed, **spec: Any) -> DummyClusterNetwork:
    """Another network, called -b, with what is not said as the first one has it."""
    standard = (await net.get()).spec
    wanted = {
        "bridgeName": standard.bridge_name,
        "nadName": standard.nad_name,
        "nadNamespace": net.place,
    } | spec
    return await net.client.create(
        DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": f"{net.name}-b"}, "spec": wanted}
    )


@pytest.mark.parametrize(
    "spec",
    [pytest.param({"nadName": "another"}, id="bridge"), pytest.param({"bridgeName": "zz-br"}, id="NAD")],
)
async def test_the_second_in_one_place_waits(cluster: Ground, spec: dict[str, str]) -> None:
    """Of two networks with one bridge or NAD the later one is refused, or has to wait until the first one is gone."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        made = (await net.create_ready()).metadata
        uid = made.uid
        with pytest.raises(Forbidden, match=net.name):
            await add_second(net, **spec)
        await net.unguarded()
        await net.is_later(made.creation_timestamp)
        second = (await add_second(net, **spec)).metadata.uid
        first, net.name = net.name, f"{net.name}-b"
        await net.reaches("InvalidSpec", is_in_conflict)
        assert await net.made(second) == []
        net.name = first
        assert (await net.get()).status.phase == "Ready"
        await net.delete()
        await net.gone(uid)
        net.name, net.nad_name = f"{first}-b", spec.get("nadName", net.nad_name)
        await net.reaches("Ready", lambda dcn: not is_in_conflict(dcn))
        await net.delete()
        await net.gone(second)


async def test_somebody_else_s_nad_stays(cluster: Ground) -> None:
    """A NAD that is in a network's place is reported, never taken over, and there when the network is gone."""
    async with managed(cluster) as net:
        config = '{"cniVersion": "0.3.1", "type": "macvlan", "master": "eth0"}'
        await net.client.create(
            NADS, {"metadata": {"name": net.nad_name}, "spec": {"config": config}}, net.place
        )
        theirs = await net.nad()
        await net.create()  # before there is a webhook that refuses it
        await (await net.manager()).leads()
        dcn = await net.reaches("ErrorEnsuringNAD", is_in_conflict)
        assert f"{net.place}/{net.nad_name}" in dcn.status.message
        await net.delete()
        await net.gone(dcn.metadata.uid)
        left = await net.nad()
        assert (left.metadata.uid, left.spec) == (theirs.metadata.uid, theirs.spec)


async def test_made_anew_at_once(cluster: Ground) -> None:
    """A network can be made again under its name as soon as it is gone, and nothing of the old one reaches the new."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uids: list[str] = []
        for _ in range(4):
            dcn = await eventually(net.create, lambda _: True)
            uids.append(dcn.metadata.uid)
            await net.reaches("Ready", lambda found: found.metadata.uid == uids[-1])
            await net.delete()
            await net.released(uids[-1])
        for uid in uids:
            await eventually(partial(net.made, uid), lambda found: found == [])
        assert len(set(uids)) == len(uids)


async def test_another_image_is_rolled_out(cluster: Ground) -> None:
    """An image that the ConfigMap names comes to every node, while the network stays."""
    async with managed(cluster) as net:
        body = {"metadata": {"name": CONFIG_MAP}, "data": {"image": IMAGE}}
        await net.client.create(CONFIG_MAPS, body, LANLOOM_NAMESPACE)
        await (await net.manager(image=None)).leads()
        uid = (await net.create_ready()).metadata.uid
        nad = (await net.nad()).metadata.uid
        image = IMAGE.replace("0", "1")
        await net.client.patch(CONFIG_MAPS, CONFIG_MAP, {"data": {"image": image}}, LANLOOM_NAMESPACE)

        def is_rolled_out(daemons: DaemonSet) -> bool:
            status = daemons.status
            return (
                daemons.spec.template["spec"]["containers"][0]["image"] == image
                and status.observed_generation == daemons.metadata.generation
                and status.updated_number_scheduled == status.number_ready == 3
            )

        await eventually(partial(net.daemons, uid), is_rolled_out)
        await net.reaches("Ready")
        assert (await net.nad()).metadata.uid == nad


async def test_a_subnet_is_given_later(cluster: Ground) -> None:
    """A network gets a subnet while it is not in use, and its NAD says so; with users it is refused."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        patch = {"spec": {"subnet": "10.116.0.0/24"}}
        await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, patch)
        await eventually(net.nad, lambda nad: "lanloom-ipam" in nad.spec.config)
        await net.reaches("Ready")
        await net.add_machine()
        with pytest.raises(Forbidden, match=f"VirtualMachine {net.place}/vm"):
            patch = {"spec": {"subnet": "10.117.0.0/24"}}
            await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, patch)
        await net.remove_machine()
        await net.delete()
        await net.gone(uid)
