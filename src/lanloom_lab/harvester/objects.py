"""Harvester's objects as its own processes see them, and the patches of their conditions."""

from collections.abc import Iterable
from typing import Any

import msgspec

from lanloom.api import names
from lanloom.api.harvester import GROUP, HOST_NETWORK_CONFIGS, VERSION, HostNetworkConfig
from lanloom.api.meta import Condition, Object
from lanloom.api.resource import Resource

Raw = dict[str, Any]

READY = "ready"
"""Harvester's one condition (Ready of pkg/apis/network.harvesterhci.io/v1beta1/clusternetwork.go)."""


class HostNetwork(HostNetworkConfig, frozen=True, kw_only=True):
    """A HostNetworkConfig with its status."""

    status: Raw = {}


HOST_NETWORKS: Resource[HostNetwork] = Resource(
    group=GROUP,
    version=VERSION,
    kind=HOST_NETWORK_CONFIGS.kind,
    plural=HOST_NETWORK_CONFIGS.plural,
    type=HostNetwork,
    namespaced=False,
)


class LinkMonitor(Object, frozen=True, kw_only=True):
    """What reports on NICs; its status is left out here, because no part of Lanloom reads it."""

    spec: Raw = {}


MONITORS: Resource[LinkMonitor] = Resource(
    group=GROUP,
    version=VERSION,
    kind="LinkMonitor",
    plural="linkmonitors",
    type=LinkMonitor,
    namespaced=False,
)


def is_ready(conditions: Iterable[Condition]) -> bool:
    """Return whether the condition says so."""
    return any(item.type == READY and item.status == "True" for item in conditions)


def is_not_ready(conditions: Iterable[Condition]) -> bool:
    """Return whether the condition says that it is not, which is more than that it does not say anything."""
    return any(item.type == READY and item.status == "False" for item in conditions)


def with_ready(conditions: Iterable[Condition], ready: bool, message: str = "") -> list[Raw]:
    """Return the conditions with this one as it is now; all others stay."""
    others: list[Raw] = [msgspec.to_builtins(item) for item in conditions if item.type != READY]
    own: Raw = {"type": READY, "status": "True" if ready else "False"}
    return [*others, own | ({"message": message} if message else {})]


def annotated(**annotations: str | None) -> Raw:
    """Return a patch of Harvester's annotations, by their names without the prefix, dashes as underscores."""
    found = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return {"metadata": {"annotations": found}}
