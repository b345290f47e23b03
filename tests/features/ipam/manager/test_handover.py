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
from tests.features.ipam.manager.realm import PLACE, Realm, in_a_realm

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


async def _old_and_young(realm: Realm, *wanted: str) -> None:
    """Two NICs, the older of which asks for nothing yet."""
    await realm.network()
    await realm.nic("old")
    await asyncio.sleep(2)
    await realm.nic("young", *wanted)
    await realm.rest()


async def _no_address_twice(realm: Realm) -> None:
    await realm.rest()
    young, old = await realm.ips("young"), await realm.ips("old")
    assert not set(young) & set(old), (young, old)


@in_a_realm
async def test_a_new_leader_keeps_what_its_predecessor_granted(realm: Realm) -> None:
    """A write of the predecessor's that arrives just after the new leader's grant meets an address that it kept."""
    await _old_and_young(realm)
    await realm.kill("manager-1")
    await realm.change("young", ips=[ADDRESS])
    young, network = await realm.get("young"), await realm.net()
    grant = Grant(nic=str(young.metadata.key), uid=young.metadata.uid, ips=(ADDRESS,))
    await realm.admin.patch(
        NETWORKS, "net", {"status": {"grants": [to_builtins(grant)]}}, subresource="status"
    )
    await realm.change("old", ips=[ADDRESS])

    async def arrive() -> None:
        late = {"ips": [ADDRESS], "network": "net", "epoch": network.status.allocator.epoch}
        base = {"resourceVersion": young.metadata.resource_version}
        await realm.admin.patch(
            NICS, "young", {"metadata": base, "status": late}, PLACE, subresource="status"
        )

    successor = Meddled(realm.engine)
    successor.granted = arrive
    realm.lead("manager-2", successor)
    await _no_address_twice(realm)
    assert await realm.ips("young") == (ADDRESS,)


@in_a_realm
async def test_a_write_without_an_answer_is_not_forgotten(realm: Realm) -> None:
    """What was granted to a NIC stays its own while a write of that may still arrive, and another asks for it."""
    await realm.kill("manager-1")
    client = Meddled(realm.engine)
    realm.lead("manager-2", client)
    await _old_and_young(realm, "192.0.2.15")
    client.losing = "young"
    await realm.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost

    async def arrive() -> None:
        await client.lost[0]()

    client.granted = arrive
    await realm.change("old", ips=[ADDRESS])
    await asyncio.sleep(10)
    client.losing = ""
    await _no_address_twice(realm)
    assert await realm.ips("young") == (ADDRESS,)


@in_a_realm
async def test_a_write_that_would_be_refused_holds_nothing(realm: Realm) -> None:
    """What was granted is free as soon as the NIC has a later version: the write that is under way can't succeed."""
    await realm.kill("manager-1")
    client = Meddled(realm.engine)
    realm.lead("manager-2", client)
    await _old_and_young(realm)
    client.losing = "young"
    await realm.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost
    await realm.change("old", ips=[ADDRESS])
    await realm.change("young", ips=[])
    await asyncio.sleep(10)
    assert await realm.ips("old") == (ADDRESS,)
    with pytest.raises(Conflict):
        await client.lost[0]()
    client.losing = ""
    await _no_address_twice(realm)


@in_a_realm
async def test_a_new_leader_takes_up_a_write_without_a_version(realm: Realm) -> None:
    """A grant that does not say on which version its write is based holds its address until the NIC was written."""
    await _old_and_young(realm)
    await realm.kill("manager-1")
    await realm.change("young", ips=[ADDRESS])
    young = await realm.get("young")
    grant = {"nic": str(young.metadata.key), "uid": young.metadata.uid, "ips": [ADDRESS]}
    await realm.admin.patch(NETWORKS, "net", {"status": {"grants": [grant]}}, subresource="status")
    await realm.change("old", ips=[ADDRESS])
    await realm.change("young", ips=["192.0.2.15"])
    successor = Meddled(realm.engine)
    successor.losing = "young"
    realm.lead("manager-2", successor)
    await asyncio.sleep(10)
    assert await realm.ips("old") == ()
    successor.losing = ""
    await _no_address_twice(realm)
    assert (await realm.ips("old"), await realm.ips("young")) == ((ADDRESS,), ("192.0.2.15",))


@in_a_realm
async def test_a_new_leader_does_not_go_by_what_it_watched(realm: Realm) -> None:
    """Addresses are given by a list that was begun after the take-over, however far behind the watch is."""
    await _old_and_young(realm)
    before = await realm.get("young")
    await realm.change("young", ips=[ADDRESS])
    await realm.rest()
    await realm.kill("manager-1")
    await realm.change("old", ips=[ADDRESS])
    present = await realm.admin.list(NICS)
    successor = Meddled(realm.engine)
    successor.stale = replace(present, readable=(await realm.get("old"), before))
    realm.lead("manager-2", successor)
    await _no_address_twice(realm)


@in_a_realm
async def test_a_server_that_does_not_know_nics_yet(realm: Realm) -> None:
    """A NIC is not taken for gone because a server that has just started says that there are no NICs at all."""
    await realm.kill("manager-1")
    client = Meddled(realm.engine)
    realm.lead("manager-2", client)
    await _old_and_young(realm, ADDRESS)
    client.unserved = "young"
    await realm.change("young", ips=["192.0.2.15"])
    await asyncio.sleep(1)
    await realm.change("old", ips=[ADDRESS])
    await asyncio.sleep(2)
    assert await realm.ips("young") == (ADDRESS,)
    assert await realm.ips("old") == ()
    client.unserved = ""
    await _no_address_twice(realm)


@in_a_realm
async def test_a_nic_that_went_where_nobody_saw_it(realm: Realm) -> None:
    """When a NIC is gone that the watch has only shown without a network, its address is free at once."""
    await _old_and_young(realm)
    await realm.change("young", network="")
    await realm.rest()
    await realm.kill("manager-1")
    successor = Meddled(realm.engine)
    successor.stale, successor.ears = await realm.admin.list(NICS), asyncio.Event()
    await realm.change("young", network="net", ips=[ADDRESS])
    realm.lead("manager-2", successor)
    await asyncio.sleep(3)
    assert (await realm.net()).status.used == "1"
    await realm.delete("young")
    await asyncio.sleep(1)
    successor.ears.set()
    await asyncio.sleep(3)
    assert (await realm.net()).status.used == "0"


@in_a_realm
async def test_a_network_stays_while_a_write_may_arrive(realm: Realm) -> None:
    """A network that is deleted while an address is on its way to a NIC is still there, and can't be made anew."""
    await realm.kill("manager-1")
    client = Meddled(realm.engine)
    realm.lead("manager-2", client)
    await _old_and_young(realm)
    client.losing = "young"
    await realm.change("young", ips=[ADDRESS])
    await asyncio.sleep(3)
    assert client.lost
    await realm.admin.delete(NETWORKS, "net")
    await realm.rest()
    with pytest.raises(AlreadyExists):
        await realm.network()
    client.losing = ""
    await realm.delete("young")
    await realm.rest()
    await realm.network()


@in_a_realm
async def test_many_networks_are_taken_over_with_one_list(realm: Realm) -> None:
    """A new leader lists all NICs once for its informer and once for all books, however many networks there are."""
    for number in range(40):
        await realm.network(f"net{number}")
        await realm.nic(f"nic{number}", "pool", network=f"net{number}")
    await realm.rest()
    await realm.kill("manager-1")
    successor = Meddled(realm.engine)
    realm.lead("manager-2", successor)
    await realm.rest()
    assert successor.lists == 2
    holders = {item.status.allocator.holder for item in (await realm.admin.list(NETWORKS)).items}
    assert holders == {"manager-2"}
