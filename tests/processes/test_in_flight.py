"""What the webhooks of one manager allowed a moment ago counts for all of its features."""

import asyncio
import copy
import random
from typing import Any

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.informer import all_synced
from lanloom.runtime.feature import in_order, load
from lanloom.runtime.webhooks import validate_all
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import Present, first_storage, network, on_bridge
from tests.features.dummy.admission.test_networks import config
from tests.features.ipam.admission.test_wires import SECOND, WHOLE, lan
from tests.features.lan.manager.scene import PLACE
from tests.features.lan.reviews import review_lan
from tests.features.lan.test_namespaces import VETH, nad
from tests.features.vlan.cluster import cluster_network
from tests.harness.admission import request
from tests.harness.leader import manager_context
from tests.harness.virtual import run


def ask(*requests: AdmissionRequest, present: tuple[Present, ...] = ()) -> tuple[list[Verdict], list[str]]:
    """The verdicts of a manager with all features, to which watches bring nothing, and what is in flight then."""

    async def main() -> tuple[list[Verdict], list[str]]:
        engine = Engine(storage, now=asyncio.get_running_loop().time, rng=random.Random(1))
        await engine.start()
        client = LocalClient(engine)
        for kind, body in present:
            await client.create(kind, body)
        context = manager_context(client)
        parts = {
            feature.name: load(feature.manager)(context) for feature in in_order(FEATURES) if feature.manager
        }
        found = (parts[feature.name].admission for feature in reversed(FEATURES) if feature.name in parts)
        admissions = [admission for admission in found if admission is not None]
        informers = context.informers.all()
        running = [asyncio.create_task(informer.run()) for informer in informers]
        await all_synced(informers)
        decide = validate_all(admissions, context.in_flight)
        verdicts = [await decide(replace(asked, uid=str(uid))) for uid, asked in enumerate(requests)]
        for task in running:
            task.cancel()
        kinds: tuple[Resource[Any], ...] = (LANS, DUMMY_CLUSTER_NETWORKS, VLAN_CONFIGS, NADS)
        coming = [item.metadata.name for kind in kinds for item in context.in_flight.of(kind)]
        return verdicts, coming

    storage = copy.deepcopy(first_storage())
    return run(main())


def test_features_remember_an_object_once() -> None:
    """A NAD that three features judge is in flight once."""
    assert ask(request(NADS, on_bridge("docker0"))) == ([Verdict()], ["own"])


def test_what_another_feature_refuses_counts_for_none() -> None:
    """A VlanConfig that VLAN networks refuse keeps no isolated network from its bridge, though that one allowed it."""
    isolated = request(DUMMY_CLUSTER_NETWORKS, network())
    refused = request(VLAN_CONFIGS, config())
    verdicts, coming = ask(refused, isolated)
    assert [verdict.allowed for verdict in verdicts] == [False, True]
    assert "does not exist; create the ClusterNetwork first" in verdicts[0].message
    assert coming == ["red"]


def test_a_lan_of_the_same_file_has_a_wire() -> None:
    """Pools of two Networks don't overlap on a VLAN of which one has its NADs by a LAN that is just being created."""
    joined = review_lan(uplink={"clusterNetwork": "cluster-1", "vlan": 150})
    at_spoke = nad({**VETH, "ipam": {"type": "lanloom-ipam", "network": "whole"}}, namespace=PLACE)
    present = ((CLUSTER_NETWORKS, cluster_network("cluster-1")), (NETWORKS, WHOLE), (NETWORKS, SECOND))
    asked = (request(LANS, joined), request(NADS, at_spoke), request(NADS, lan("b", "second")))
    verdicts, coming = ask(*asked, present=present)
    assert [verdict.allowed for verdict in verdicts] == [True, True, False], verdicts
    assert "pools of Networks second and whole overlap on VLAN 150" in verdicts[-1].message
    assert coming == ["blue", "own"]
