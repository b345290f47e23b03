"""Whatever is sent to the webhooks, they answer."""

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.admission import Verdict
from lanloom.api.core import PODS
from lanloom.api.dummy import ADMITTED, DRAINING, UID_LABEL
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import (
    MANAGER,
    NETWORKS_ANNOTATION,
    Raw,
    admission_of,
    first_storage,
    nad,
    network,
    server,
)
from tests.harness.admission import request
from tests.harness.examples import examples
from tests.harness.virtual import run

_RESOURCES = (DCNS, NADS, VLAN_CONFIGS, PODS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)
_KEYS = [
    "name",
    "namespace",
    "nadName",
    "nadNamespace",
    "bridgeName",
    "subnet",
    "gateway",
    "scope",
    "config",
    "clusterNetwork",
    "template",
    "networks",
    "multus",
    "networkName",
    "metadata",
    "spec",
    "labels",
    "annotations",
    "deletionTimestamp",
    "uid",
    "resourceVersion",
    UID_LABEL,
    DRAINING,
    ADMITTED,
    NETWORKS_ANNOTATION,
]
_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
_VALUES |= st.sampled_from(
    ["red", "nets", "nets/red", "red-br", "10.115.0.0/24", "node", "[{", "[]", "{}", "a,b@c"]
)
_JSON = st.recursive(
    _VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
_TEXTS = st.dictionaries(
    st.sampled_from(_KEYS), st.text(max_size=6) | st.sampled_from(["nets/red", "red", "[", "x"])
)
_METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(["red", "blue", ""]) | st.text(max_size=5)},
    optional={
        "namespace": st.sampled_from(["nets", "default"]),
        "uid": st.text(max_size=4),
        "resourceVersion": st.sampled_from(["", "7", "x"]),
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "deletionTimestamp": st.just("2026-01-01T00:00:00Z"),
    },
)
_OBJECTS: st.SearchStrategy[Raw] = st.fixed_dictionaries({"metadata": _METADATA, "spec": _JSON})
_ANY: st.SearchStrategy[Any] = _OBJECTS | st.fixed_dictionaries(
    {"metadata": _METADATA | _JSON, "spec": _JSON}
)


def answers(resource: Any, new: Raw | None, old: Raw | None, user: str, status: bool) -> list[Verdict]:
    """What both webhooks say."""
    storage = first_storage()

    async def ask() -> list[Verdict]:
        real, _ = await server([(DCNS, network()), (NADS, nad(of="red"))], copy.deepcopy(storage))
        tasks: list[asyncio.Task[None]] = []
        admission = await admission_of(LocalClient(real), LocalClient(real), tasks)
        shown = {"metadata": {"name": "x"}, "spec": {}}
        asked = request(resource, shown, user=user, status=status)
        asked = replace(asked, object=new, old_object=old, operation="UPDATE")
        found = [await admission.validate(asked), await admission.refer(asked)]
        for task in tasks:
            task.cancel()
        return found

    return run(ask())


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(_RESOURCES),
    st.none() | _ANY,
    st.none() | _ANY,
    st.sampled_from(["alice", MANAGER]),
    st.booleans(),
)
def test_whatever_is_sent_is_answered(
    resource: Any, new: Raw | None, old: Raw | None, user: str, status: bool
) -> None:
    """No request makes a webhook fail; a refusal always says why."""
    for verdict in answers(resource, new, old, user, status):
        assert verdict.allowed == (not verdict.message)
        assert verdict.message.isprintable()
