"""The moments at which an address could be given twice, played one by one: a simulation may take long to meet them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.ipam import FINALIZER, NETWORKS, NICS, Grant, Nic
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    ServerError,
    from_status,
)
from lanloom.kube.ports import Listing, WatchEvent
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, STANDARD, IpamCluster, in_a_cluster
from tests.harness.interceptor import Request, ScriptedClient

T = TypeVar("T", bound=Object)

ADDRESS = "192.0.2.12"


class Behind(ScriptedClient):
    """A client that lists, the first time, NICs as they were; it hears no more of them until `ears` is set."""

    def __init__(self, engine: Engine, stale: Listing[Nic]) -> None:
        super().__init__(LocalClient(engine))
        self.ears = asyncio.Event()
        self._stale: Listing[Any] | None = stale
        self._is_behind = True

    async def send(self, request: Request) -> Any:
        if (request.verb, request.resource) == ("list", NICS) and self._stale is not None:
            stale, self._stale = self._stale, None
            return stale
        return await super().send(request)

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        if resource == NICS and self._is_behind:
            self._is_behind = False
            await self.ears.wait()
            raise Gone(410, "Expired", "too old resource version")
        async for event in super()._hear(resource, begin):
            yield event


def _granted(request: Request) -> bool:
    return "grants" in request.body.get("status", {})


def _lose(client: ScriptedClient) -> None:
    """Writes of the young NIC's status get no answer, and may arrive later."""
    client.lose("patch", of=NICS, name="young")


async def _old_and_young(cluster: IpamCluster, *wanted: str) -> None:
    """Two NICs, the older of which asks for nothing yet."""
    await cluster.network()
    await cluster.nic("old")
    await asyncio.sleep(2)
    await cluster.nic("young", *wanted)
    await cluster.rest()


async def _under_way(cluster: IpamCluster, *wanted: str) -> ScriptedClient:
    """The client of a leader whose write of the young NIC's address is under way."""
    await cluster.kill("manager-1")
    client = ScriptedClient(LocalClient(cluster.engine))
    cluster.lead("manager-2", client)
    await _old_and_young(cluster, *wanted)
    _lose(client)
    await cluster.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost
    return client


async def _no_address_twice(cluster: IpamCluster) -> None:
    await cluster.rest()
    young, old = await cluster.ips("young"), await cluster.ips("old")
    assert not set(young) & set(old), (young, old)


@in_a_cluster
async def test_a_new_leader_keeps_what_its_predecessor_granted(cluster: IpamCluster) -> None:
    """A write of the predecessor's that arrives just after the new leader's grant meets an address that it kept."""
    await _old_and_young(cluster)
    await cluster.kill("manager-1")
    await cluster.change("young", ips=[ADDRESS])
    young, network = await cluster.get("young"), await cluster.net()
    grant = Grant(nic=str(young.metadata.key), uid=young.metadata.uid, ips=(ADDRESS,))
    await cluster.client.patch(
        NETWORKS, "net", {"status": {"grants": [to_builtins(grant)]}}, subresource="status"
    )
    await cluster.change("old", ips=[ADDRESS])

    async def arrive() -> None:
        late = {"ips": [ADDRESS], "network": "net", "epoch": network.status.allocator.epoch}
        base = {"resourceVersion": young.metadata.resource_version}
        await cluster.client.patch(
            NICS, "young", {"metadata": base, "status": late}, PLACE, subresource="status"
        )

    successor = ScriptedClient(LocalClient(cluster.engine))
    successor.after(arrive, "patch", of=NETWORKS, where=_granted)
    cluster.lead("manager-2", successor)
    await _no_address_twice(cluster)
    assert await cluster.ips("young") == (ADDRESS,)


@in_a_cluster
async def test_a_write_without_an_answer_is_not_forgotten(cluster: IpamCluster) -> None:
    """What was granted to a NIC stays its own while a write of that may still arrive, and another asks for it."""
    client = await _under_way(cluster, "192.0.2.15")

    async def arrive() -> None:
        await client.lost[0]()

    client.after(arrive, "patch", of=NETWORKS, where=_granted)
    await cluster.change("old", ips=[ADDRESS])
    await asyncio.sleep(10)
    client.calm()
    await _no_address_twice(cluster)
    assert await cluster.ips("young") == (ADDRESS,)


@in_a_cluster
async def test_a_write_that_would_be_refused_holds_nothing(cluster: IpamCluster) -> None:
    """What was granted is free as soon as the NIC has a later version: the write that is under way can't succeed."""
    client = await _under_way(cluster)
    await cluster.change("old", ips=[ADDRESS])
    await cluster.change("young", ips=[])
    await asyncio.sleep(10)
    assert await cluster.ips("old") == (ADDRESS,)
    with pytest.raises(Conflict):
        await client.lost[0]()
    client.calm()
    await _no_address_twice(cluster)


@in_a_cluster
async def test_a_new_leader_takes_up_a_write_without_a_version(cluster: IpamCluster) -> None:
    """A grant that does not say on which version its write is based holds its address until the NIC was written."""
    await _old_and_young(cluster)
    await cluster.kill("manager-1")
    await cluster.change("young", ips=[ADDRESS])
    young = await cluster.get("young")
    grant = {"nic": str(young.metadata.key), "uid": young.metadata.uid, "ips": [ADDRESS]}
    await cluster.client.patch(NETWORKS, "net", {"status": {"grants": [grant]}}, subresource="status")
    await cluster.change("old", ips=[ADDRESS])
    await cluster.change("young", ips=["192.0.2.15"])
    successor = ScriptedClient(LocalClient(cluster.engine))
    _lose(successor)
    cluster.lead("manager-2", successor)
    await asyncio.sleep(10)
    assert await cluster.ips("old") == ()
    successor.calm()
    await _no_address_twice(cluster)
    assert (await cluster.ips("old"), await cluster.ips("young")) == ((ADDRESS,), ("192.0.2.15",))


@in_a_cluster
async def test_a_new_leader_does_not_go_by_what_it_watched(cluster: IpamCluster) -> None:
    """Addresses are given by a list that was begun after the take-over, however far behind the watch is."""
    await _old_and_young(cluster)
    before = await cluster.get("young")
    await cluster.change("young", ips=[ADDRESS])
    await cluster.rest()
    await cluster.kill("manager-1")
    await cluster.change("old", ips=[ADDRESS])
    present = await cluster.client.list(NICS)
    successor = Behind(cluster.engine, replace(present, readable=(await cluster.get("old"), before)))
    cluster.lead("manager-2", successor)
    await _no_address_twice(cluster)


@in_a_cluster
async def test_a_server_that_does_not_know_nics_yet(cluster: IpamCluster) -> None:
    """A NIC is not taken for gone because a server that has just started says that there are no NICs at all."""
    await cluster.kill("manager-1")
    client = ScriptedClient(LocalClient(cluster.engine))
    cluster.lead("manager-2", client)
    await _old_and_young(cluster, ADDRESS)
    client.fail(from_status(404, {}), "patch", of=NICS, where=lambda request: request.name == "young")
    await cluster.change("young", ips=["192.0.2.15"])
    await asyncio.sleep(1)
    await cluster.change("old", ips=[ADDRESS])
    await asyncio.sleep(2)
    assert await cluster.ips("young") == (ADDRESS,)
    assert await cluster.ips("old") == ()
    client.calm()
    await _no_address_twice(cluster)


@in_a_cluster
async def test_a_nic_that_went_where_nobody_saw_it(cluster: IpamCluster) -> None:
    """When a NIC is gone that the watch has only shown without a network, its address is free at once."""
    await _old_and_young(cluster)
    await cluster.change("young", network="")
    await cluster.rest()
    await cluster.kill("manager-1")
    successor = Behind(cluster.engine, await cluster.client.list(NICS))
    await cluster.change("young", network="net", ips=[ADDRESS])
    cluster.lead("manager-2", successor)
    await asyncio.sleep(3)
    assert (await cluster.net()).status.used == "1"
    await cluster.delete("young")
    await asyncio.sleep(1)
    successor.ears.set()
    await asyncio.sleep(3)
    assert (await cluster.net()).status.used == "0"


@in_a_cluster
async def test_a_network_stays_while_a_write_may_arrive(cluster: IpamCluster) -> None:
    """A network that is deleted while an address is on its way to a NIC is still there, and can't be created again."""
    client = await _under_way(cluster)
    await cluster.client.delete(NETWORKS, "net")
    await cluster.rest()
    with pytest.raises(AlreadyExists):
        await cluster.network()
    client.calm()
    await cluster.delete("young")
    await cluster.rest()
    await cluster.network()


@in_a_cluster
async def test_many_networks_are_taken_over_with_one_list(cluster: IpamCluster) -> None:
    """A new leader lists all NICs once for its informer and once for all books, however many networks there are."""
    for number in range(40):
        await cluster.network(f"net{number}")
        await cluster.nic(f"nic{number}", "pool", network=f"net{number}")
    await cluster.rest()
    await cluster.kill("manager-1")
    successor = ScriptedClient(LocalClient(cluster.engine))
    cluster.lead("manager-2", successor)
    await cluster.rest()
    assert successor.count("list", of=NICS) == 2
    holders = {item.status.allocator.holder for item in (await cluster.client.list(NETWORKS)).items}
    assert holders == {"manager-2"}


@pytest.mark.parametrize("failing", [1, 40, 60, 110])
def test_claims_that_fail_at_first_take_no_more_lists(failing: int) -> None:
    """Networks that can't be written for some seconds, as while a dead leader's webhook is called, share one list."""

    async def refuse() -> None:
        raise ServerError(500, "InternalError", "failed calling webhook: connection refused")

    @in_a_cluster
    async def story(cluster: IpamCluster) -> None:
        for number in range(40):
            await cluster.network(f"net{number}")
            await cluster.nic(f"nic{number}", "pool", network=f"net{number}")
        await cluster.rest()
        await cluster.kill("manager-1")
        successor = ScriptedClient(LocalClient(cluster.engine))
        successor.before(refuse, "patch", of=NETWORKS, times=failing)
        cluster.lead("manager-2", successor)
        await cluster.rest()
        assert successor.count("list", of=NICS) == 2
        found = (await cluster.client.list(NETWORKS)).items
        assert {item.status.allocator.holder for item in found} == {"manager-2"}
        assert {item.status.used for item in found} == {"1"}

    story()


@in_a_cluster
async def test_networks_that_stay_refused_hold_no_others_up(cluster: IpamCluster) -> None:
    """A network that can't be claimed costs the others some seconds, and gives addresses once it can be."""
    await cluster.network("one")
    await cluster.network("two")
    await cluster.kill("manager-1")
    successor = ScriptedClient(LocalClient(cluster.engine))
    successor.fail(
        ServerError(500, "InternalError", "refused"),
        "patch",
        of=NETWORKS,
        where=lambda request: request.name == "one",
    )
    cluster.lead("manager-2", successor)
    await cluster.nic("first", "pool", network="one")
    await cluster.nic("second", "pool", network="two")
    await cluster.rest()
    assert (await cluster.ips("first"), len(await cluster.ips("second"))) == ((), 1)
    successor.calm()
    await cluster.rest()
    assert len(await cluster.ips("first")) == 1


@in_a_cluster
async def test_a_new_network_is_written_once(cluster: IpamCluster) -> None:
    """A network that no NIC asks for addresses yet is claimed and reported on by one write."""
    await cluster.kill("manager-1")
    manager = ScriptedClient(LocalClient(cluster.engine))
    cluster.lead("manager-2", manager)
    await cluster.rest()
    body = {"metadata": {"name": "net", "finalizers": [FINALIZER]}, "spec": {"subnets": [STANDARD]}}
    await cluster.client.create(NETWORKS, body)
    await cluster.rest()
    assert manager.count("patch", of=NETWORKS) == 1
    status = (await cluster.net()).status
    assert (status.allocator.holder, status.allocator.epoch) == ("manager-2", 1)
    assert (status.size, status.used, status.observed_generation) == ("10", "0", 1)


@in_a_cluster
async def test_a_new_network_with_an_owner_that_was_not_watched(cluster: IpamCluster) -> None:
    """What a new network's first status foresaw is put right once the NICs are listed, and nothing is given twice."""
    await cluster.kill("manager-1")
    await cluster.nic("old", ADDRESS)
    old = {"ips": [ADDRESS], "network": "net"}
    stale = await cluster.client.list(NICS, "nowhere")
    manager = Behind(cluster.engine, stale)
    cluster.lead("manager-2", manager)
    await asyncio.sleep(1)
    await cluster.force("old", **old)
    await cluster.network()
    await asyncio.sleep(3)
    status = (await cluster.net()).status
    assert (status.used, status.nics) == ("1", 1)
    manager.ears.set()
    await cluster.nic("young", ADDRESS)
    await cluster.rest()
    assert await cluster.ips("old") == (ADDRESS,)
    assert await cluster.ips("young") == ()
