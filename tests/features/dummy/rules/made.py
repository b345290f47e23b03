"""DummyClusterNetworks, and what rules make of them, for tests of rules."""

from ipaddress import ip_network
from typing import Any

import msgspec

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork, Gateway
from lanloom.api.meta import Key
from lanloom.features.dummy.rules.model import Isolated, Settings

UID = "3f1e7c1a-0d6b-4f8e-9a53-0c6f2f7f5b11"
IMAGE = f"registry.example/lanloom@sha256:{'0123456789abcdef' * 4}"
SETTINGS = Settings(image=IMAGE)
SPEC = {"bridgeName": "dummy-br", "nadName": "dummy-bridge-net", "nadNamespace": "harvester-system"}


def dcn(name: str = "net1", uid: str = UID, **spec: Any) -> DummyClusterNetwork:
    """A DummyClusterNetwork with a whole spec, of which some fields are changed."""
    raw = {"metadata": {"name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}}
    return msgspec.convert({**raw, "spec": {**SPEC, **spec}}, DUMMY_CLUSTER_NETWORKS.type)


def isolated(
    name: str = "net1", uid: str = UID, subnet: str = "", gateway: Gateway = "none", bridge: str = "dummy-br"
) -> Isolated:
    """The same as its rules see it."""
    return Isolated(
        name=name,
        uid=uid,
        created="2026-01-01T00:00:00Z",
        bridge=bridge,
        nad=Key("harvester-system", "dummy-bridge-net"),
        subnets=tuple(map(ip_network, subnet.split(","))) if subnet else (),
        gateway=gateway,
    )
