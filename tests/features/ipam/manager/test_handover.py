"""The moments at which an address could be given twice, played one by one: a simulation may take long to meet them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.ipam import NETWORKS, NICS, Grant
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    TransportError,
    from_status,
)
from lanloom.kube.ports import Listing, WatchEvent
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster

T = TypeVar("T", bound=Object)

ADDRESS = "192.0.2.12"


class Meddled(LocalClient):
    """The client of a manager to whom things happen.

    `granted` happens just after it has written a grant. While `losing` is set, its writes of that NIC's status get no
    answer, and are in `lost`, to be made by whoever wants. While `unserved` is set, the server says of writes of that
    NIC that there is no such resource. `stale` is what its informer lists; it hears no more until `ears` is set.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.granted: Callable[[], Awaitable[None]] | None = None
        self.losing = ""
        self.unserved = ""
        self.lost: list[Callable[[], Awaitable[Any]]] = []
        self.stale: Listing[Any] | None = None
        self.ears: asyncio.Event | None = None
        self.lists = 0

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says, or a loss."""

        def write() -> Awaitable[T]:
            return LocalClient.patch(self, resource, name, patch, namespace, subresource=subresource)

        if self.losing and (resource.plural, name) == (NICS.plural, self.losing):
            self.lost.append(write)
            raise TransportError("no answer")
        if self.unserved and (resource.plural, name) == (NICS.plural, self.unserved):
            raise from_status(404, {})
        answer = await write()
        if resource.plural == NETWORKS.plural and "grants" in patch.get("status", {}) and self.granted:
            happens, self.granted = self.granted, None
            await happens()
        return answer

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says, or the first time what was there some time ago."""
        if resource.plural == NICS.plural:
            self.lists += 1
            if self.lists == 1 and self.stale is not None:
                return self.stale
        return await super().list(resource, namespace, labels=labels, fields=fields)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """As the port says, or nothing."""
        if resource.plural == NICS.plural and self.stale is not None:
            ears, self.stale = self.ears or asyncio.Event(), None
            await ears.wait()
            raise Gone(410, "Expired", "too old resource version")
        async for event in super().watch(
            resource, namespace, resource_version=resource_version, labels=labels, fields=fields
        ):
            yield event


async def _old_and_young(cluster: IpamCluster, *wanted: str) -> None:
    """Two NICs, the older of which asks for nothing yet."""
    await cluster.network()
    await cluster.nic("old")
    await asyncio.sleep(2)
    await cluster.nic("young", *wanted)
    await cluster.rest()


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

    successor = Meddled(cluster.engine)
    successor.granted = arrive
    cluster.lead("manager-2", successor)
    await _no_address_twice(cluster)
    assert await cluster.ips("young") == (ADDRESS,)


@in_a_cluster
async def test_a_write_without_an_answer_is_not_forgotten(cluster: IpamCluster) -> None:
    """What was granted to a NIC stays its own while a write of that may still arrive, and another asks for it."""
    await cluster.kill("manager-1")
    client = Meddled(cluster.engine)
    cluster.lead("manager-2", client)
    await _old_and_young(cluster, "192.0.2.15")
    client.losing = "young"
    await cluster.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost

    async def arrive() -> None:
        await client.lost[0]()

    client.granted = arrive
    await cluster.change("old", ips=[ADDRESS])
    await asyncio.sleep(10)
    client.losing = ""
    await _no_address_twice(cluster)
    assert await cluster.ips("young") == (ADDRESS,)


@in_a_cluster
async def test_a_write_that_would_be_refused_holds_nothing(cluster: IpamCluster) -> None:
    """What was granted is free as soon as the NIC has a later version: the write that is under way can't succeed."""
    await cluster.kill("manager-1")
    client = Meddled(cluster.engine)
    cluster.lead("manager-2", client)
    await _old_and_young(cluster)
    client.losing = "young"
    await cluster.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost
    await cluster.change("old", ips=[ADDRESS])
    await cluster.change("young", ips=[])
    await asyncio.sleep(10)
    assert await cluster.ips("old") == (ADDRESS,)
    with pytest.raises(Conflict):
        await client.lost[0]()
    client.losing = ""
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
    successor = Meddled(cluster.engine)
    successor.losing = "young"
    cluster.lead("manager-2", successor)
    await asyncio.sleep(10)
    assert await cluster.ips("old") == ()
    successor.losing = ""
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
    successor = Meddled(cluster.engine)
    successor.stale = replace(present, readable=(await cluster.get("old"), before))
    cluster.lead("manager-2", successor)
    await _no_address_twice(cluster)


@in_a_cluster
async def test_a_server_that_does_not_know_nics_yet(cluster: IpamCluster) -> None:
    """A NIC is not taken for gone because a server that has just started says that there are no NICs at all."""
    await cluster.kill("manager-1")
    client = Meddled(cluster.engine)
    cluster.lead("manager-2", client)
    await _old_and_young(cluster, ADDRESS)
    client.unserved = "young"
    await cluster.change("young", ips=["192.0.2.15"])
    await asyncio.sleep(1)
    await cluster.change("old", ips=[ADDRESS])
    await asyncio.sleep(2)
    assert await cluster.ips("young") == (ADDRESS,)
    assert await cluster.ips("old") == ()
    client.unserved = ""
    await _no_address_twice(cluster)


@in_a_cluster
async def test_a_nic_that_went_where_nobody_saw_it(cluster: IpamCluster) -> None:
    """When a NIC is gone that the watch has only shown without a network, its address is free at once."""
    await _old_and_young(cluster)
    await cluster.change("young", network="")
    await cluster.rest()
    await cluster.kill("manager-1")
    successor = Meddled(cluster.engine)
    successor.stale, successor.ears = await cluster.client.list(NICS), asyncio.Event()
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
    """A network that is deleted while an address is on its way to a NIC is still there, and can't be made anew."""
    await cluster.kill("manager-1")
    client = Meddled(cluster.engine)
    cluster.lead("manager-2", client)
    await _old_and_young(cluster)
    client.losing = "young"
    await cluster.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost
    await cluster.client.delete(NETWORKS, "net")
    await cluster.rest()
    with pytest.raises(AlreadyExists):
        await cluster.network()
    client.losing = ""
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
    successor = Meddled(cluster.engine)
    cluster.lead("manager-2", successor)
    await cluster.rest()
    assert successor.lists == 2
    holders = {item.status.allocator.holder for item in (await cluster.client.list(NETWORKS)).items}
    assert holders == {"manager-2"}
