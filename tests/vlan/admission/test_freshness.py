"""Nobody is refused because the manager's view of the cluster lags behind."""

from random import Random
from typing import Any

from lanloom.api.admission import Verdict
from lanloom.api.core import CRDS
from lanloom.api.crds import manifests
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.local import LocalClient
from lanloom.vlan.admission import VlanAdmission
from lanloom.vlan.worlds import FreshWorld
from tests.virtual import run
from tests.vlan.admission.requests import Raw, network, request
from tests.vlan.cluster import cluster_network, vlan_config

NOTHING = FreshWorld()
"""What a manager has seen whose watches bring nothing."""


def answer(resource: Resource[Any], new: Raw, *present: tuple[Resource[Any], Raw]) -> Verdict:
    """The verdict of a manager that has seen nothing yet, on a server that has these objects."""

    async def ask() -> Verdict:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        for manifest in manifests():
            await client.create(CRDS, manifest)
        for kind, body in present:
            await client.create(kind, body)
        verdict = await VlanAdmission(client, NOTHING, lambda _pod: "").validate(request(resource, new))
        await engine.close()
        return verdict

    return run(ask())


def test_an_object_of_a_moment_ago_is_seen() -> None:
    """What was created just before counts, although no watch has brought it."""
    present = (CLUSTER_NETWORKS, cluster_network("cluster-1"))
    assert answer(VLAN_CONFIGS, vlan_config("one", "cluster-1"), present).allowed
    assert answer(NADS, network(mode=""), present).allowed


def test_what_is_not_there_is_refused() -> None:
    """A second look that finds nothing either refuses, also where the name could be no label's value."""
    for name in ("cluster-1", "no label!"):
        verdict = answer(NADS, network(cluster_network=name))
        assert f'its cluster network "{name}" does not exist' in verdict.message
