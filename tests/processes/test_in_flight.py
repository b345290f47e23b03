"""What the webhooks of one manager allowed a moment ago counts for all of its features."""

import asyncio
import copy
import random
from typing import Any

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.processes.metrics import ManagerMetrics
from lanloom.runtime.context import ManagerContext
from lanloom.runtime.feature import in_order, load
from lanloom.runtime.webhooks import validate_all
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import first_storage, network, on_bridge
from tests.features.dummy.admission.test_networks import config
from tests.harness.admission import request
from tests.harness.virtual import run


def ask(*requests: AdmissionRequest) -> tuple[list[Verdict], list[str]]:
    """The verdicts of a manager with all features, to which watches bring nothing, and what is in flight then."""

    async def main() -> tuple[list[Verdict], list[str]]:
        rng, now, metrics = random.Random(1), asyncio.get_running_loop().time, ManagerMetrics(FEATURES)
        engine = Engine(storage, now=now, rng=rng)
        await engine.start()
        client = LocalClient(engine)
        context = ManagerContext(
            client=client,
            recorder=Recorder(client, "lanloom-manager", "test", now=now, rng=rng),
            identity="test",
            user="",
            now=now,
            rng=rng,
            observe=metrics.reconcile,
            settings={},
            metrics=metrics.features,
        )
        parts = {
            feature.name: load(feature.manager)(context) for feature in in_order(FEATURES) if feature.manager
        }
        found = (parts[feature.name].admission for feature in reversed(FEATURES) if feature.name in parts)
        admissions = [admission for admission in found if admission is not None]
        informers = context.informers.all()
        running = [asyncio.create_task(informer.run()) for informer in informers]
        await all_synced(informers)
        decide = validate_all(admissions, context.in_flight)
        verdicts = [await decide(asked) for asked in requests]
        for task in running:
            task.cancel()
        kinds: tuple[Resource[Any], ...] = (DUMMY_CLUSTER_NETWORKS, VLAN_CONFIGS, NADS)
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
