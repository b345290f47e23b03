"""Managers that die in the middle of things, and the network that they make at start, on either cluster."""

from functools import partial
from itertools import count

import pytest

from lanloom.api.core import CONFIG_MAPS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, MANAGED_BY, MANAGED_BY_CONTROLLER
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.dummy.rights import CONFIG_MAP
from tests.features.dummy.cluster.ground import REAL, Ground, eventually
from tests.features.dummy.cluster.managed import Managed, Replica, managed

pytestmark = pytest.mark.slow

LONG = 90.0
"""Seconds of a lease that no leader loses because the machine is busy; a dead leader's is taken away by the test."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_a_leader_dies_after_each_of_its_writes(cluster: Ground) -> None:
    """After whichever write of a deletion the leader dies, the next one ends it, harms no user, leaves nothing."""
    async with managed(cluster) as net:
        leader = await net.manager("replica-0", lease=LONG)
        for writes in count(1):
            await leader.leads()
            standby = await net.manager(f"replica-{writes}", lease=LONG)
            await standby.watches()
            net.name, net.nad_name = f"{cluster.place}-{writes}", f"isolated-{writes}"
            uid = (await net.create_ready()).metadata.uid
            await net.add_machine()
            leader.client.die_after(writes)
            await net.delete()
            await eventually(partial(is_dead_or, net, leader, "DeletionBlocked"), bool)
            assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}
            await net.client.get(NADS, net.nad_name, net.place)
            await net.remove_machine()
            await eventually(partial(is_dead_or, net, leader, ""), bool)
            if not leader.client.died.is_set():
                break
            await net.unattended(leader)
            leader = standby
            await leader.leads()
            await net.gone(uid)
        await net.gone(uid)
        assert writes > 5  # the mark, the status, the NAD, the DaemonSet, what else was made, the finalizer


async def is_dead_or(net: Managed, leader: Replica, phase: str) -> bool:
    """Whether the leader has died, or the network is in that phase, or is gone."""
    return leader.client.died.is_set() or await net.is_gone() or (await net.get()).status.phase == phase


@pytest.mark.parametrize("cluster", [REAL], indirect=True)
async def test_the_one_that_waits_takes_over(cluster: Ground) -> None:
    """Of two managers the second goes on with a deletion when the first one dies."""
    async with managed(cluster) as net:
        first = await net.manager("one")
        await first.leads()
        second = await net.manager("two")
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        await net.delete()
        await net.reaches("DeletionBlocked")
        await first.kill()
        await net.remove_machine()
        await second.leads()
        await net.gone(uid)


def call_default(net: Managed) -> None:
    """Lets the words be about the network that is made at start."""
    net.name, net.place, net.nad_name = "br-dummy-cluster", LANLOOM_NAMESPACE, "dummy-bridge-net"


async def test_a_network_is_there_from_the_start(cluster: Ground) -> None:
    """A manager makes the default network without being asked, marked as its own, and it becomes ready."""
    async with managed(cluster) as net:
        call_default(net)
        await (await net.manager(default=None)).leads()
        dcn = await net.reaches("Ready")
        assert dcn.metadata.annotations[MANAGED_BY] == MANAGED_BY_CONTROLLER
        assert (dcn.spec.bridge_name, dcn.spec.nad_namespace) == ("dummy-br", LANLOOM_NAMESPACE)
        await net.nad()


async def test_who_deletes_the_default_network_means_it(cluster: Ground) -> None:
    """The default network is not made again while the manager runs, but by the next one that starts."""
    async with managed(cluster) as net:
        call_default(net)
        replica = await net.manager(default=None)
        await replica.leads()
        uid = (await net.reaches("Ready")).metadata.uid
        await net.delete()
        await net.gone(uid)
        await net.passes(2)
        assert await net.is_gone()
        await net.unattended(replica)
        await (await net.manager("two", default=None)).leads()
        assert (await net.reaches("Ready")).metadata.uid != uid


async def test_an_administrator_can_opt_out(cluster: Ground) -> None:
    """Where the ConfigMap says so there is no default network."""
    async with managed(cluster) as net:
        body = {"metadata": {"name": CONFIG_MAP}, "data": {"default": "false"}}
        await net.client.create(CONFIG_MAPS, body, LANLOOM_NAMESPACE)
        await (await net.manager(default=None)).leads()
        await net.passes(2)
        assert (await net.client.list(DUMMY_CLUSTER_NETWORKS)).items == ()
