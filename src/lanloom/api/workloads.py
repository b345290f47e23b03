"""Kinds of Kubernetes that run pods (apps/v1, batch/v1), with the fields that Lanloom uses."""

from typing import Any

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Resource


class DaemonSetSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What runs on every node; selector, template and strategy as on the wire."""

    selector: dict[str, Any] = {}
    template: dict[str, Any] = {}
    update_strategy: dict[str, Any] = {}
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far the cluster is with it: numbers of nodes."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    number_misscheduled: int = 0


class DaemonSet(Object, frozen=True, kw_only=True):
    """A pod on every node."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


DAEMON_SETS = Resource(
    group="apps",
    version="v1",
    kind="DaemonSet",
    plural="daemonsets",
    type=DaemonSet,
    namespaced=True,
    short_names=("ds",),
    status=True,
)
