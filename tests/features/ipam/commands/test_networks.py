"""Changes of networks on an API server, with others who write at the same time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest

from lanloom.api.core import CRDS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.ipam import Network as NetworkObject
from lanloom.features.ipam.cli.grammar.syntax import add_steps, modify_steps
from lanloom.features.ipam.commands.networks import (
    PATIENCE,
    Edit,
    Result,
    add,
    modify,
    name_is_free,
    remove,
)
from lanloom.features.ipam.commands.networkviews import described, information
from lanloom.features.ipam.rules.change import Step
from lanloom.features.ipam.rules.general import AddTags, RemoveTags, Rename
from lanloom.features.ipam.state import read_state
from lanloom.kube.errors import Conflict
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom.refusals import Denied, Malformed
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.interceptor import WRITES, ScriptedClient
from tests.harness.virtual import run


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[ScriptedClient, LocalClient]]:
    """A server with Lanloom's kinds: one client that follows a script, and that of another user."""
    engine = Engine(MemoryStorage(), now=time.time, rng=Random(1))
    await engine.start()
    other = LocalClient(engine)
    for manifest in manifests():
        await other.create(CRDS, manifest)
    try:
        yield ScriptedClient(LocalClient(engine)), other
    finally:
        await engine.close()


def uuids() -> Iterator[str]:
    """UUIDs that can be distinguished."""
    return (f"00000000-0000-4000-8000-{number:012}" for number in count())


async def added(client: Client, name: str = "net1", cidr: str = "192.0.2.0/24") -> NetworkObject:
    """A network with one subnet and a pool over all of it."""
    await add(client, name, add_steps([f"cidr={cidr},pool"]), uuids().__next__)
    return next(
        item for item in (await read_state(client)).networks if name in (item.spec.name, item.metadata.name)
    )


async def changed(client: Client, *steps: Step, ident: str = "net1") -> Result:
    """Change a network by steps."""
    edit = Edit(ident=ident, steps=lambda _: steps, new_uuid=uuids().__next__)
    return await modify(client, edit, Random(1))


async def renamed(client: Client, name: str, ident: str = "net1") -> None:
    """Give a network another name."""
    edit = Edit(ident=ident, steps=lambda _: [Rename(name=name)], new_uuid=str, check=name_is_free)
    await modify(client, edit, Random(1))


async def test_a_change_is_computed_anew_when_somebody_else_wrote_first() -> None:
    """What another one wrote between reading and writing is kept, and judged again."""
    async with cluster() as (client, other):
        await added(client)

        async def meddle() -> None:
            await other.patch(NETWORKS, "net1", {"spec": {"tags": ["theirs"]}})

        client.before(meddle, *WRITES)
        done = await changed(client, AddTags(tags=("ours",)))
        assert (await other.get(NETWORKS, "net1")).spec.tags == ("ours", "theirs")
        assert done.before is not None
        assert done.before.tags == ("theirs",)


async def test_a_change_that_is_not_allowed_any_more_is_refused() -> None:
    """A second attempt is judged by what is there then."""
    async with cluster() as (client, other):
        await added(client)
        await changed(client, AddTags(tags=("ours",)))

        async def meddle() -> None:
            await other.patch(NETWORKS, "net1", {"spec": {"tags": None}})

        client.before(meddle, *WRITES)
        with pytest.raises(Denied, match="has no tag"):
            await changed(client, RemoveTags(tags=("ours",)))


def test_a_change_gives_up_on_a_network_that_never_stands_still() -> None:
    """After half a minute, with ever longer pauses, it says so."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with cluster() as (client, other):
            await added(client)
            numbers, began = count(), loop.time()

            async def meddle() -> None:
                await other.patch(NETWORKS, "net1", {"spec": {"tags": [f"t{next(numbers)}"]}})

            client.before(meddle, *WRITES, times=None)
            with pytest.raises(Denied, match="another client changes network net1 continuously"):
                await changed(client, AddTags(tags=("ours",)))
            assert PATIENCE <= loop.time() - began < PATIENCE + 2
            assert client.count("patch") < 100
            assert "ours" not in (await other.get(NETWORKS, "net1")).spec.tags

    run(story())


def test_changes_at_the_same_time_are_all_made() -> None:
    """Ten administrators who change one network each get what they asked for."""

    async def story() -> None:
        async with cluster() as (client, other):
            await added(client)
            tags = [f"tag{index}" for index in range(10)]
            await asyncio.gather(*(changed(client, AddTags(tags=(tag,))) for tag in tags))
            assert (await other.get(NETWORKS, "net1")).spec.tags == tuple(tags)

    run(story())


async def test_what_is_as_it_was_is_not_written() -> None:
    """A change without an effect writes nothing, also where the text of a value is not canonical."""
    async with cluster() as (client, other):
        spec = {
            "subnets": [{"cidr": "192.0.2.9/24", "uuid": "u", "pools": [{"range": "192.0.2.0/27"}]}],
            "tags": ["a"],
        }
        await other.create(NETWORKS, {"metadata": {"name": "net1"}, "spec": spec})
        before = await other.get(NETWORKS, "net1")
        await changed(client, AddTags(tags=("a",)))
        assert client.count("patch") == 0
        assert await other.get(NETWORKS, "net1") == before


async def test_everything_else_of_the_object_stays() -> None:
    """The network's own UUID, labels, annotations, status and the objects of its subnets survive a change."""
    async with cluster() as (client, other):
        body = {
            "metadata": {"name": "net1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "uuid": "5d1f3e2c-1111-4222-8333-444455556666",
                "mac_prefix": "aa:00:00",
                "name": "Net_1",
            },
        }
        await other.create(NETWORKS, body)
        await other.patch(NETWORKS, "net1", {"status": {"allocator": {"epoch": 7}}}, subresource="status")
        await changed(client, *modify_steps(["add:cidr=10.0.0.0/24"]))
        now = await other.get(NETWORKS, "net1")
        assert (now.spec.uuid, now.spec.name) == ("5d1f3e2c-1111-4222-8333-444455556666", "Net_1")
        assert now.status.allocator.epoch == 7
        assert (now.metadata.labels, now.metadata.annotations) == ({"a": "b"}, {"c": "d"})
        assert [subnet.cidr for subnet in now.spec.subnets] == ["10.0.0.0/24"]


async def test_refused_and_malformed_changes_write_nothing() -> None:
    """One refused step, and none of the operation is made."""
    async with cluster() as (client, other):
        before = await added(client)
        with pytest.raises(Denied):
            await changed(client, *modify_steps(["add:cidr=10.0.0.0/24"], ["add:172.16.0.1"]))
        with pytest.raises(Malformed):
            await changed(client, AddTags(tags=("no tag",)))
        assert await other.get(NETWORKS, "net1") == before
        with pytest.raises(Denied):
            await add(client, "net2", add_steps(["cidr=10.0.0.0/24"], ["172.16.0.1"]), uuids().__next__)
        assert len((await read_state(other)).networks) == 1


async def test_two_who_add_one_name_at_the_same_time() -> None:
    """The second one is refused because the name is taken."""
    async with cluster() as (client, other):

        async def meddle() -> None:
            await added(other)

        client.before(meddle, *WRITES)
        with pytest.raises(Denied, match="there is a network net1 already"):
            await added(client)


async def test_a_name_is_unique_whatever_the_object_is_called() -> None:
    """Names with capitals become objects of other names; the name counts."""
    async with cluster() as (client, _):
        item = await added(client, "Net_1")
        assert item.metadata.name != "Net_1"
        with pytest.raises(Denied, match="there is a network Net_1 already"):
            await add(client, "Net_1", (), uuids().__next__)


async def test_the_name_of_a_renamed_network_is_free() -> None:
    """Its object keeps its name, so that NICs find it; another network of that name gets another object."""
    async with cluster() as (client, other):
        first = await added(client, "Net_1")
        await renamed(client, "old", "Net_1")
        for _ in range(2):
            await added(client, "Net_1", cidr="10.0.0.0/24")
            await renamed(client, "older", "Net_1")
            await remove(client, "older")
        await added(client, "Net_1", cidr="10.0.0.0/24")
        state = await read_state(other)
        assert state.find("old").metadata.name == first.metadata.name
        assert state.find("Net_1").metadata.name != first.metadata.name


async def test_the_name_of_an_object_is_free() -> None:
    """A renamed network's name goes to another one, by add or by rename; objects that name the first still find it."""
    async with cluster() as (client, other):
        first = await added(client)
        await added(client, "net2", cidr="10.0.0.0/24")
        await renamed(client, "old")
        await renamed(client, "net1", "net2")
        await renamed(client, "net2", "net1")
        await added(client, "net1", cidr="10.0.1.0/24")
        state = await read_state(other)
        assert state.find("net1").metadata.name != "net1"
        assert state.find("old").metadata.name == state.find_referred("net1").metadata.name == "net1"
        assert state.find_referred("old").metadata.uid == first.metadata.uid
        with pytest.raises(Denied, match="there is a network net1 already"):
            await renamed(client, "net1", "old")


async def test_only_the_network_that_was_looked_at_is_removed() -> None:
    """One that was created again under the same name in between stays."""
    async with cluster() as (client, other):
        await added(client)

        async def meddle() -> None:
            await other.delete(NETWORKS, "net1")
            await added(other, cidr="10.0.0.0/24")

        client.before(meddle, *WRITES)
        with pytest.raises(Conflict):
            await remove(client, "net1")
        assert len((await read_state(other)).networks) == 1


async def test_fields_count_what_is_granted_and_not_yet_written() -> None:
    """An address that the allocator gave away is not free, before the NIC's status says so."""
    async with cluster() as (client, other):
        await added(client)
        owner = {"kind": "Instance", "name": "inst1"}
        spec = {"owner": owner, "network": "net1", "ips": ["pool"]}
        for name in ("one", "two"):
            two = await other.create(NICS, {"metadata": {"name": name}, "spec": spec}, "default")
        held = {"network": "net1", "ips": ["192.0.2.1"]}
        await other.patch(NICS, "one", {"status": held}, "default", subresource="status")
        grants = [{"nic": "default/two", "uid": two.metadata.uid, "ips": ["192.0.2.2"]}]
        status = {"grants": grants, "modified": "2026-01-02T03:04:05Z"}
        await other.patch(NETWORKS, "net1", {"status": status}, subresource="status")
        (found,) = described(await read_state(client), ["net1"])
        said = information(found)
        assert (said["free_count"], said["reserved_count"]) == (252, 4)
        assert said["inst_list"] == ("inst1",)
        assert said["mtime"] == "2026-01-02T03:04:05Z"
        assert said["ctime"] != said["mtime"]
        assert said["serial_no"] == 1
