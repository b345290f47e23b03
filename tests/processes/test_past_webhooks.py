"""Objects that were stored while no webhook answered: each says itself what a webhook would have refused of it."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import pytest

from lanloom.api.core import EVENTS, NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.conditions import STALLED
from lanloom.kube.errors import ApiError
from lanloom.kube.invalid import MOST
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission import test_networks as isolated
from tests.features.ipam.admission import test_nads as ipam_nads
from tests.features.ipam.admission import test_network_shapes as shapes
from tests.features.ipam.admission import test_networks as ranges
from tests.features.ipam.admission import test_nics as nics
from tests.features.lan import test_options_refused as options
from tests.features.lan.reviews import review_lan
from tests.features.liveupdate import test_admission as swaps
from tests.features.liveupdate.manager.scene import first_storage
from tests.features.vlan.admission import (
    test_addresses,
    test_cluster_networks,
    test_configs,
    test_namespaces,
    test_networks,
    test_routing,
    test_uplinks,
)
from tests.harness.leader import lead
from tests.harness.virtual import run

Raw = dict[str, Any]

SECONDS = 30.0

BY_SERVER = (413, 422)
"""Codes by which the API server refuses what is too large, or against the schema."""


class Stored(NamedTuple):
    """An object that a webhook refuses, and the whole message."""

    resource: Resource[Any]
    body: Raw
    message: str


COMPARED = frozenset(
    {
        "the cluster network exists",
        "also in an edit",
        "the cluster network of an overlay network exists",
        "the cluster network of a network is immutable",
        "also not for another plugin",
        "the VLAN of an exclusive storage network is taken",
        "a trunk leaves out the VLAN of an exclusive storage network",
        "the untagged frames of an exclusive storage network are taken",
        "an edit moves no network to an exclusive storage network",
        "a NIC is not the bond of another cluster network",
        "interfaces of two cluster networks have different names",
        "the subnet of a gateway is not the management network's",
        "an IPv6 route leads not to pods",
        "a route leads not to the management network",
        "networks have no default route in parts between them",
        "a route leads not to services",
        "a route leads not to link-local addresses",
    }
)
"""Rules of the groups below that compare an object with others, with its former state, or with the cluster's ranges."""

OTHER_WORDS = {"another network": "spec.to is spec.from"}
"""What a status says in other words than the webhook, by rule."""

MENDED = frozenset({"the NIC of a node's pod is held from the beginning"})
"""Rules of what the manager mends."""


def reviewed(cases: Mapping[str, Any], *kinds: Resource[Any]) -> dict[str, Stored]:
    """Objects of these kinds in requests that name no other objects."""
    plurals = {kind.plural: kind for kind in kinds}
    return {
        rule: Stored(plurals[case.asked.resource.resource], case.asked.object, case.message)
        for rule, case in cases.items()
        if case.asked.resource.resource in plurals
        and not getattr(case, "present", ())
        and rule not in COMPARED | MENDED
    }


def of_lans() -> Iterator[tuple[str, Stored]]:
    """LANs, and NADs at LANs."""
    for cases in (options.OPTION_CASES, options.NAD_CASES, options.IPAM_CASES):
        for rule, case in cases.items():
            if case.spec:
                yield rule, Stored(LANS, review_lan(**case.spec), case.message)
            elif case.config:
                yield rule, Stored(NADS, options.nad(case.config), case.message)


def of_swaps() -> Iterator[tuple[str, Stored]]:
    """New swaps."""
    for rule, case in swaps.SWAP_CASES.items():
        if case.old is None and case.there is None and not case.isolated and not case.status:
            body = swaps.request_of(case).object
            if body is not None:
                yield rule, Stored(NETWORK_SWAPS, body, case.message)


GROUPS: dict[str, dict[str, Stored]] = {
    "networks": reviewed(test_networks.NETWORK_CASES, NADS),
    "configurations": reviewed(test_configs.CONFIG_CASES, NADS),
    "node addresses": reviewed(test_addresses.WORD_CASES, NADS),
    "routing": reviewed(test_routing.ROUTING_CASES, NADS),
    "lists of namespaces": reviewed(test_namespaces.NAMESPACE_CASES, CLUSTER_NETWORKS),
    "uplinks": reviewed(test_uplinks.ATTRIBUTE_CASES, VLAN_CONFIGS),
    "names of cluster networks": reviewed(test_cluster_networks.NAME_CASES, CLUSTER_NETWORKS),
    "roll-out policies": reviewed(test_cluster_networks.ROLLOUT_CASES, CLUSTER_NETWORKS),
    "links given to Lanloom": reviewed(test_cluster_networks.GRANT_CASES, CLUSTER_NETWORKS),
    "MTUs of cluster networks": reviewed(test_cluster_networks.MTU_CASES, CLUSTER_NETWORKS),
    "Networks": reviewed(shapes.SHAPE_CASES, NETWORKS),
    "ranges of Networks": reviewed(ranges.RANGE_CASES, NETWORKS),
    "NICs": reviewed(nics.SHAPE_CASES, NICS),
    "NADs with addresses": reviewed(ipam_nads.NAD_CASES, NADS),
    "isolated networks": reviewed(isolated.NETWORK_CASES, DUMMY_CLUSTER_NETWORKS),
    "LANs": dict(of_lans()),
    "swaps": dict(of_swaps()),
}
"""The cases of `docs/validation.md` that are about one object alone."""


def led(story: Callable[[LocalClient], Awaitable[None]]) -> None:
    """Play a story in a cluster with a leader of all features, and no webhook."""

    async def main(storage: MemoryStorage) -> None:
        engine = Engine(storage, now=asyncio.get_running_loop().time, rng=Random(1))
        client = LocalClient(engine)
        for place in ("nets", LANLOOM_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": place}})
        leader = asyncio.create_task(lead(client))
        await story(client)
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        await engine.close()

    run(main(copy.deepcopy(first_storage())))


@pytest.mark.parametrize("group", GROUPS)
def test_objects_say_what_is_wrong(group: str) -> None:
    """What a webhook refuses of an object alone, its conditions or Warnings say, unless the API server refuses it."""
    silent: dict[str, list[str]] = {}

    async def story(client: LocalClient) -> None:
        for rule, case in GROUPS[group].items():
            try:
                made = await client.create(
                    case.resource, case.body, case.body["metadata"].get("namespace", "")
                )
            except ApiError as error:
                assert error.code in BY_SERVER, error
                continue
            await asyncio.sleep(SECONDS)
            said = await said_of(client, case.resource, made.metadata)
            words = OTHER_WORDS.get(rule, why_of(case.message))
            if not any(words in text for text in said):
                silent[rule] = said
            await client.delete(case.resource, made.metadata.name, made.metadata.namespace)
            await asyncio.sleep(SECONDS)

    led(story)
    assert not silent


VLAN_CONFIG = {"metadata": {"name": "one"}, "spec": {"clusterNetwork": "one", "uplink": {"nics": ["eth1"]}}}
MULTICAST = {"spec": {"uplink": {"linkAttributes": {"hardwareAddr": "AQBeAAAB"}}}}
"""01:00:5e:00:00:01, as Harvester's clients write it."""


def test_a_fault_is_reported_once() -> None:
    """A fault is reported again when it comes again, and not with each other change of the object."""

    async def story(client: LocalClient) -> None:
        async def change(patch: Raw) -> list[int]:
            await client.patch(VLAN_CONFIGS, "one", patch)
            await asyncio.sleep(SECONDS)
            events = (await client.list(EVENTS, "default")).items
            return [event.count for event in events if event.reason == "Invalid"]

        await client.create(CLUSTER_NETWORKS, {"metadata": {"name": "one"}})
        await client.create(VLAN_CONFIGS, VLAN_CONFIG)
        assert await change({"spec": {"description": "sound"}}) == []
        assert await change(MULTICAST) == [1]
        assert await change({"spec": {"description": "another one"}}) == [1]
        assert await change({"spec": {"uplink": {"linkAttributes": None}}}) == [1]
        assert await change(MULTICAST) == [2]
        await client.delete(VLAN_CONFIGS, "one")
        await asyncio.sleep(SECONDS)

    led(story)


def test_an_object_with_many_faults_is_no_storm() -> None:
    """Of an object with many faults, some are reported."""
    routes = [{"dst": f"10.0.{number}.1/24"} for number in range(MOST + 5)]
    config = {
        "type": "bridge",
        "bridge": "b",
        "ipam": {"type": "lanloom-ipam", "network": "n", "routes": routes},
    }
    nad = {"metadata": {"name": "many", "namespace": "nets"}, "spec": {"config": json.dumps(config)}}

    async def story(client: LocalClient) -> None:
        made = await client.create(NADS, nad, "nets")
        await asyncio.sleep(SECONDS)
        said = await said_of(client, NADS, made.metadata)
        assert len([text for text in said if "/24" in text]) == MOST

    led(story)


def why_of(message: str) -> str:
    """A webhook's message without the object's title."""
    _, because, why = message.partition(" because ")
    return why if because else message.split(": ", 1)[1]


async def said_of(client: LocalClient, resource: Resource[Any], meta: ObjectMeta) -> list[str]:
    """The messages of an object's conditions that are not as they should be, and of Warnings about it."""
    found = await client.get(resource, meta.name, meta.namespace)
    conditions: tuple[Condition, ...] = getattr(getattr(found, "status", None), "conditions", ())
    events = (await client.list(EVENTS, meta.namespace or "default")).items
    warnings = (event for event in events if event.type == "Warning")
    return [
        *(item.message for item in conditions if (item.status == "True") == (item.type == STALLED)),
        *(event.message for event in warnings if event.involved_object.uid == meta.uid),
    ]
