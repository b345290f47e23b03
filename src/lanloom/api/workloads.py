"""Kinds of Kubernetes that run pods (apps/v1, batch/v1), with the fields that Lanloom uses.

Pods are the most numerous objects by far, and Lanloom needs little of each: `strip_pod` drops the rest. The pods of
Lanloom itself are kept with all that their kubelets report.
"""

from sys import intern
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from lanloom.api.core import Pod, PodStatus
from lanloom.api.dummy import UID_LABEL
from lanloom.api.kubevirt import LAUNCHER_MARKS, STARTED_WITH
from lanloom.api.meta import Condition, Object
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.api.names import LANLOOM_NAMESPACE
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


class Maker(Object, frozen=True, kw_only=True):
    """Base of what makes pods by a template, of which many are kept to know which networks their pods use.

    So nothing else is: its own labels, annotations and finalizers are dropped when it is read.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", replace(self.metadata, labels={}, annotations={}, finalizers=()))


class TemplateMeta(Struct, frozen=True):
    """Of a template's metadata, the annotations that say which networks its pods use; others are dropped."""

    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        kept = {
            key: text for key, text in self.annotations.items() if key in (MULTUS_NETWORKS, DEFAULT_NETWORK)
        }
        force_setattr(self, "annotations", kept)


class PodTemplate(Struct, frozen=True):
    """The pods that something makes."""

    metadata: TemplateMeta = TemplateMeta()


class WorkloadSpec(Struct, frozen=True):
    """A controller that makes pods by a template."""

    template: PodTemplate = PodTemplate()


class Workload(Maker, frozen=True, kw_only=True):
    """A Deployment, StatefulSet or DaemonSet by its template alone."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSetOrdinals(Struct, frozen=True):
    """The number of a StatefulSet's first pod."""

    start: int = 0


class StatefulSetSpec(Struct, frozen=True):
    """How many pods a StatefulSet wants, and with which numbers in their names."""

    replicas: int = 1
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()


class StatefulSet(Object, frozen=True, kw_only=True):
    """Pods whose names come again, by their numbers alone."""

    spec: StatefulSetSpec = StatefulSetSpec()

    def wants(self, number: int) -> bool:
        """Return whether it wants a pod of that number."""
        return 0 <= number - self.spec.ordinals.start < self.spec.replicas and not self.metadata.is_deleting


class ReplicaSet(Maker, frozen=True, kw_only=True):
    """A number of pods of one template; most belong to a Deployment, which keeps those of its former templates."""

    spec: WorkloadSpec = WorkloadSpec()

    @property
    def is_controlled(self) -> bool:
        """Whether something else decides about it."""
        return any(item.controller for item in self.metadata.owner_references)


class JobStatus(Struct, frozen=True):
    """How a job is getting on."""

    conditions: tuple[Condition, ...] = ()


class Job(Maker, frozen=True, kw_only=True):
    """Pods that run until they are done."""

    spec: WorkloadSpec = WorkloadSpec()
    status: JobStatus = JobStatus()

    @property
    def is_finished(self) -> bool:
        """Whether it will make no more pods."""
        return any(
            item.type in ("Complete", "Failed") and item.status == "True" for item in self.status.conditions
        )


class JobTemplate(Struct, frozen=True):
    """The jobs that a CronJob makes."""

    spec: WorkloadSpec = WorkloadSpec()


class CronJobSpec(Struct, frozen=True, rename="camel"):
    """Jobs at certain times."""

    job_template: JobTemplate = JobTemplate()


class CronJob(Maker, frozen=True, kw_only=True):
    """A job at certain times."""

    spec: CronJobSpec = CronJobSpec()


DEPLOYMENTS = Resource(
    group="apps", version="v1", kind="Deployment", plural="deployments", type=Workload, namespaced=True
)
STATEFUL_SETS = Resource(
    group="apps", version="v1", kind="StatefulSet", plural="statefulsets", type=Workload, namespaced=True
)
STATEFUL_SET_SIZES = Resource(
    group="apps", version="v1", kind="StatefulSet", plural="statefulsets", type=StatefulSet, namespaced=True
)
"""The same, for the names of their pods."""

DAEMON_SET_TEMPLATES = Resource(
    group="apps", version="v1", kind="DaemonSet", plural="daemonsets", type=Workload, namespaced=True
)
"""All DaemonSets of a cluster, for the networks of their pods alone; `DAEMON_SETS` has the rest."""

REPLICA_SETS = Resource(
    group="apps", version="v1", kind="ReplicaSet", plural="replicasets", type=ReplicaSet, namespaced=True
)
JOBS = Resource(group="batch", version="v1", kind="Job", plural="jobs", type=Job, namespaced=True)
CRON_JOBS = Resource(
    group="batch", version="v1", kind="CronJob", plural="cronjobs", type=CronJob, namespaced=True
)


_KEPT = frozenset({MULTUS_NETWORKS, DEFAULT_NETWORK, NETWORK_STATUS, STARTED_WITH, *LAUNCHER_MARKS})


def strip_pod(pod: Pod) -> Pod:
    """Return the pod without the fields that no reader needs."""
    meta, status = pod.metadata, pod.status
    if meta.namespace == LANLOOM_NAMESPACE or UID_LABEL in meta.labels:
        return pod
    kept = replace(
        meta,
        namespace=intern(meta.namespace),
        labels=_kept(meta.labels),
        annotations=_kept(meta.annotations),
        finalizers=(),
    )
    return replace(pod, metadata=kept, status=PodStatus(phase=intern(status.phase)))


def _kept(marks: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in marks.items() if key in _KEPT}
