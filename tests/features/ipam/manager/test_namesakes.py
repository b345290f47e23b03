"""Networks with one name or UUID, which two replicas of the webhooks may let pass at once: their conditions tell."""

from typing import Any

import pytest

from lanloom.api.ipam import NAME_UNIQUE, NETWORKS
from lanloom.kube.conditions import find
from tests.features.ipam.cluster import condition
from tests.features.ipam.manager.wirecluster import SUBNET, WireCluster
from tests.harness.cluster import play

Raw = dict[str, Any]

UUID = "6f1f2a1e-0000-4000-8000-000000000002"

TAKEN: dict[str, tuple[Raw, Raw, str]] = {
    "a name twice": ({"name": "prod"}, {"name": "prod"}, "name prod"),
    "the name of an object": ({}, {"name": "net1"}, "name net1"),
    "a UUID twice": ({"uuid": UUID}, {"uuid": UUID.upper()}, f"UUID {UUID}"),
}


async def add(cluster: WireCluster, name: str, /, **more: Any) -> None:
    """A network, without a webhook that could refuse it."""
    await cluster.client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": [SUBNET], **more}})


async def told(cluster: WireCluster, *names: str) -> list[str]:
    """What the conditions of networks say of others with their names; empty where there is none."""
    await cluster.rest()
    found = [find((await cluster.net(name)).status.conditions, NAME_UNIQUE) for name in names]
    return [item.message if item is not None else "" for item in found]


@pytest.mark.parametrize(("one", "other", "what"), TAKEN.values(), ids=TAKEN)
def test_networks_with_one_name_report_each_other(one: Raw, other: Raw, what: str) -> None:
    """Both have a condition and an Event until one has another name, and give addresses away meanwhile."""

    async def story(cluster: WireCluster) -> None:
        cluster.lead()
        await add(cluster, "net1", **one)
        assert await told(cluster, "net1") == [""]
        await add(cluster, "net2", **other)
        assert await told(cluster, "net1", "net2") == [
            f"{what} is that of Network {theirs} as well; give one of them another"
            for theirs in ("net2", "net1")
        ]
        assert condition((await cluster.net("net1")).status, NAME_UNIQUE).status == "False"
        about = {item.involved_object.name for item in await cluster.events("NameTaken")}
        assert about == {"net1", "net2"}
        await cluster.nic("web", "pool", network="net2")
        await cluster.rest()
        assert await cluster.ips("web") == ("192.0.2.10",)
        await cluster.client.patch(NETWORKS, "net2", {"spec": {"name": "mine", "uuid": None}})
        assert await told(cluster, "net1", "net2") == ["", ""]

    play(story, WireCluster)


def test_a_namesake_that_goes_takes_the_condition_along() -> None:
    """The condition ends with the other network, and a third one is named next to the second."""

    async def story(cluster: WireCluster) -> None:
        cluster.lead()
        for name in ("net1", "net2", "net3"):
            await add(cluster, name, name="prod")
        (message,) = await told(cluster, "net1")
        assert "Network net2 as well" in message
        assert "Network net3 as well" in message
        for name in ("net2", "net3"):
            await cluster.client.delete(NETWORKS, name)
        assert await told(cluster, "net1") == [""]

    play(story, WireCluster)


def test_the_name_of_an_object_that_was_renamed_is_free() -> None:
    """A network that is called as the object of another one, which is called otherwise, is no namesake."""

    async def story(cluster: WireCluster) -> None:
        cluster.lead()
        await add(cluster, "net1", name="prod")
        await add(cluster, "net2", name="net1")
        assert await told(cluster, "net1", "net2") == ["", ""]

    play(story, WireCluster)
