"""A plan refuses an object of a manifest if and only if the API server would: seeds of manifests, with all webhooks.

Objects come twice, on cluster networks that the manifest has not brought yet, with addresses and ids of others.
"""

import json
from random import Random
from typing import Any

import msgspec
import pytest

from lanloom.api import names
from lanloom.features.vlan.views import read_objects
from lanloom.features.vlan.views.apply import LAST_APPLIED, Document, applied
from lanloom.features.vlan.views.plan import plan
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.patches import merge, merge_diff
from tests.features.liveupdate.whole import WholeScene, play
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.features.vlan.views.test_plan import documents
from tests.harness.examples import seeds

Raw = dict[str, Any]
DOCUMENTS = 10


def _nad(rng: Random) -> Raw:
    """A NAD, often of a VLAN or with addresses that another has."""
    mode = rng.choice(("", "", "dhcp", "static"))
    addresses = {
        node: f"192.0.{rng.randrange(6)}.{rng.randrange(9, 12)}/{33 if rng.random() < 0.05 else 24}"
        for node in ("node1", "node2")
    }
    return nad(
        rng.choice(("one", "two", "three")),
        rng.choice((*["cluster-1"] * 6, "cluster-2", "mgmt")),
        rng.choice((0, 10, 11, 12, 13, 14, 4095)),
        mode=mode,
        addresses=addresses if mode == "static" or rng.random() < 0.1 else None,
    )


def _body(rng: Random) -> Raw:
    """An object of a manifest."""
    kind, name = rng.choice("nnnnvvc"), rng.choice(("cluster-1", "cluster-2"))
    if kind == "n":
        return _nad(rng)
    if kind == "v":
        mtu = {"linkAttributes": {"mtu": rng.choice((1500, 9000, 9000, 20))}} if rng.random() < 0.4 else {}
        nics = rng.choice((("eth1",), ("eth2",), ("eth1", "eth2"), ("eth3",), ()))
        return vlan_config(rng.choice(("left", "right")), name, nics=nics, uplink=mtu)
    return cluster_network(
        name, **({names.UPLINK_MTU: rng.choice(("1500", "9000", "x"))} if rng.random() < 0.5 else {})
    )


async def apply(scene: WholeScene, document: Document) -> bool:
    """Apply an object as kubectl does, with what it notes; whether it was accepted."""
    resource, (namespace, name) = document.resource, document.key
    assert resource is not None
    note = {"metadata": {"annotations": {LAST_APPLIED: json.dumps(document.body)}}}
    try:
        try:
            live = msgspec.to_builtins(await scene.person.get(resource, name, namespace))
        except NotFound:
            await scene.person.create(resource, merge(document.body, note), namespace)
        else:
            patch = merge_diff(live, merge(applied(live, document.body), note))
            await scene.person.patch(resource, name, patch, namespace)
    except KubeError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
def test_a_plan_is_the_application(seed: int) -> None:
    """What the plan says would be refused is refused, and everything else is accepted."""
    rng = Random(seed)
    begun = [cluster_network("cluster-1"), vlan_config("left", "cluster-1")] if seed % 4 else []
    bodies = begun + [_body(rng) for _ in range(DOCUMENTS)]

    async def story(scene: WholeScene) -> None:
        await scene.rest(10)
        manifest = documents(*bodies)
        found = plan(await read_objects(scene.person, with_vms=True), manifest)
        for document, outcome in zip(manifest, found.objects, strict=True):
            assert await apply(scene, document) == (outcome.outcome != "refused"), (document.body, outcome)
            await scene.rest(2)

    play(story)
