"""Changes of instances alongside others: who was faster, what can't be undone, managers that lag, many at once."""

import asyncio
from collections.abc import Mapping

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.features.ipam.cli.grammar.net_option import new_nics
from lanloom.features.ipam.commands import instancechange
from lanloom.features.ipam.commands.instancechange import ApplyOptions
from lanloom.kube.errors import TransportError
from lanloom.kube.ports import Client
from lanloom.refusals import Denied
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.commands.instances import add, everything, key, modify, owned, with_
from tests.harness.interceptor import WRITES, Deed, ScriptedClient


def scripted(cluster: IpamCluster, between: Mapping[int, Deed]) -> Client:
    """The administrator's client; before its nth write (from 0) the nth of these happens."""
    client = ScriptedClient(cluster.client)
    for number, deed in between.items():
        client.before(deed, *WRITES, skip=number)
    return client


@in_a_cluster
async def test_somebody_else_is_faster(cluster: IpamCluster) -> None:
    """If another one takes an address before it is written, nothing is left of a new instance."""
    await cluster.network()

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.rest()

    nets = ("0:ip=192.0.2.5,network=net", "1:ip=192.0.2.4,network=net")
    with pytest.raises(
        Denied, match=r"inst1-1 were refused, so nothing was changed: IP 192.0.2.4 is already used"
    ):
        await add(scripted(cluster, {1: take}), "inst1", *nets)
    await cluster.rest()
    assert await owned(cluster) == {"rival": ("192.0.2.4",)}


@in_a_cluster
async def test_a_change_of_several_nics_is_undone_whole(cluster: IpamCluster) -> None:
    """If one NIC is refused, the others have what they had, also where they had given it up for something new."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")
    before = await everything(cluster)

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.nic("hungry", "pool")
        await cluster.rest()

    client = scripted(cluster, {1: take})
    with pytest.raises(Denied, match="inst1-1 were refused"):
        await modify(client, "inst1", "0:ip=192.0.2.5", "1:ip=192.0.2.4", "-1:add,ip=192.0.2.6,network=net")
    await cluster.rest()
    after = await everything(cluster)
    assert after.pop("rival")[-1] == ("192.0.2.4",)
    assert after.pop("hungry")[-1] == ("192.0.2.12",)
    assert after == before


@in_a_cluster
async def test_nobody_gives_addresses(cluster: IpamCluster) -> None:
    """Without a manager a command gives up after half a minute, undoes what it wrote and says what to look at."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net")
    await cluster.kill("manager-1")
    before = await everything(cluster)
    with pytest.raises(Denied, match=r"NIC default/inst2-0 got no addresses .*lanloom manager"):
        await add(cluster.client, "inst2", "0:ip=pool,network=net")
    with pytest.raises(Denied, match="got no addresses"):
        await modify(cluster.client, "inst1", "0:ip1=pool", "0:name=web")
    assert await everything(cluster) == before
    done = await instancechange.add(
        cluster.client, key("inst3"), new_nics(["0:ip=pool,network=net"]), with_(), ApplyOptions(wait=False)
    )
    assert [(view.state, view.ips, view.wanted) for view in done.after] == [("waiting", (), ("pool",))]


@in_a_cluster
async def test_a_manager_that_lags_behind(cluster: IpamCluster) -> None:
    """A refusal that does not hold any more is waited over; one that holds is reported at once."""
    await cluster.network()
    await cluster.kill("manager-1")
    late = {
        "type": "Allocated",
        "status": "False",
        "reason": "NetworkMissing",
        "message": "there is no network net",
    }
    task = asyncio.create_task(add(cluster.client, "inst1", "0:ip=pool,network=net"))
    await asyncio.sleep(1)
    await cluster.force("inst1-0", observedGeneration=1, conditions=[late])
    await asyncio.sleep(5)
    assert not task.done()
    cluster.lead("manager-2")
    assert await task == [("192.0.2.10",)]
    await cluster.kill("manager-2")
    task = asyncio.create_task(add(cluster.client, "inst2", "0:ip=pool,network=net"))
    await asyncio.sleep(1)
    await cluster.force("inst2-0", observedGeneration=1, conditions=[late])
    with pytest.raises(Denied, match=r"inst2-0 were refused, .*: there is no network net"):
        await task


@in_a_cluster
async def test_a_command_that_is_interrupted_undoes_what_it_wrote(cluster: IpamCluster) -> None:
    """Ctrl-C while addresses are waited for leaves nothing of a new instance."""
    await cluster.network()
    await cluster.kill("manager-1")
    task = asyncio.create_task(add(cluster.client, "inst1", "0:ip=pool,network=net"))
    await asyncio.sleep(5)
    assert await owned(cluster) == {"inst1-0": ()}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await owned(cluster) == {}


@in_a_cluster
async def test_what_can_not_be_undone_is_told(cluster: IpamCluster) -> None:
    """Where the API server is lost in between, the message names what is left."""
    await cluster.network()

    async def fail() -> None:
        raise TransportError("the server is gone")

    client = scripted(cluster, {1: fail, 2: fail})
    with pytest.raises(Denied, match=r"gone; this could not be undone: NIC default/inst1-0 is changed"):
        await add(client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")


@in_a_cluster
async def test_an_address_that_is_lost_is_told(cluster: IpamCluster) -> None:
    """NICs that move give their addresses up; if another one takes such an address, the message names it."""
    await cluster.network()
    await cluster.network("net2", {"cidr": "192.0.2.8/29", "pools": [{"range": "192.0.2.8/29"}]})
    await add(cluster.client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")

    async def take() -> None:
        await cluster.rest()
        await cluster.nic("rival", "192.0.2.9", network="net2")
        await cluster.nic("thief", "192.0.2.10")
        await cluster.rest()

    with pytest.raises(Denied, match=r"undone: NIC default/inst1-0 is changed \(it had 192.0.2.10\)"):
        await modify(scripted(cluster, {1: take}), "inst1", "0:network=net2", "1:network=net2,ip=192.0.2.9")
    await cluster.rest()
    kept = await owned(cluster)
    assert (kept["inst1-1"], kept["thief"]) == (("192.0.2.11",), ("192.0.2.10",))
    assert kept["inst1-0"] == ("192.0.2.12",)


@in_a_cluster
async def test_a_machine_is_left_no_nic_of_a_refused_change(cluster: IpamCluster) -> None:
    """What was made for a virtual machine and is undone gives its addresses back before it goes."""
    await cluster.network()
    await cluster.client.create(CRDS, manifest(VIRTUAL_MACHINES))
    await cluster.client.create(VIRTUAL_MACHINES, {"metadata": {"name": "vm1"}}, PLACE)

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.rest()

    with pytest.raises(Denied, match="vm1-1 were refused"):
        await add(
            scripted(cluster, {1: take}), "vm1", "0:ip=192.0.2.5,network=net", "1:ip=192.0.2.4,network=net"
        )
    await cluster.rest()
    assert await owned(cluster) == {"rival": ("192.0.2.4",)}


@in_a_cluster
async def test_an_instance_that_others_change(cluster: IpamCluster) -> None:
    """A change is planned again on what another one wrote in between, as if it had come after it."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip0=pool,ip1=pool,network=net")

    async def rival() -> None:
        await modify(cluster.client, "inst1", "0:ip0=none", "-1:add,name=rival")

    client = scripted(cluster, {0: rival})
    assert await modify(client, "inst1", "0:ip1=192.0.2.4") == [("192.0.2.11", "192.0.2.4"), ()]
    client = scripted(cluster, {0: lambda: modify(cluster.client, "inst1", "0:ip1=none")})
    with pytest.raises(Denied, match="has 1 address, so there is no ip1"):
        await modify(client, "inst1", "0:ip1=none")


@in_a_cluster
async def test_many_at_once(cluster: IpamCluster) -> None:
    """Of many who add instances at once, each gets other addresses; of those with one name, one gets it."""
    await cluster.network()
    names = [f"inst{number}" for number in range(8)]
    found = await asyncio.gather(*(add(cluster.client, name, "0:ip=pool,network=net") for name in names))
    assert sorted(addresses for (addresses,) in found) == [(f"192.0.2.{number}",) for number in range(10, 18)]
    same = await asyncio.gather(
        *(add(cluster.client, "same", "0:ip=pool,network=net") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(item, Denied) for item in same) == 4
    assert ("192.0.2.18",) in [item[0] for item in same if isinstance(item, list)]
