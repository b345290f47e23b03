"""Kinds of Kubernetes itself that Lanloom reads or writes, with the fields that it uses."""

from typing import Any, Literal

from msgspec import Struct, field

from lanloom.api.admission import UserInfo
from lanloom.api.meta import Condition, Object, ObjectMeta
from lanloom.api.resource import Resource


class NodeAddress(Struct, frozen=True):
    """An address of a node; `type` is InternalIP, ExternalIP or Hostname."""

    type: str
    address: str


class NodeStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the node's kubelet reports, and resources that others count there. `capacity` is by the resource's name."""

    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, Any] = {}


class NodeSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of pods on a node (CIDRs), where the cluster gives each node a range.

    `unschedulable` is a node that was cordoned: no new pods but those of DaemonSets.
    """

    unschedulable: bool = False
    pod_cidr: str = field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = field(name="podCIDRs", default=())


class Node(Object, frozen=True, kw_only=True):
    """A machine of the cluster."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Active or Terminating; the conditions of one that goes say what is left in it."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True, kw_only=True):
    """A namespace."""

    status: NamespaceStatus = NamespaceStatus()


class ObjectReference(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who reports an Event."""

    component: str = ""
    host: str = ""


class Event(Object, frozen=True, kw_only=True):
    """Something that an operator should know about an object. `type` is Normal or Warning."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


class EventDraft(Struct, frozen=True):
    """An Event to be recorded. `about` is empty where the recorder's caller knows the object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: ObjectReference = ObjectReference()


class Secret(Object, frozen=True, kw_only=True):
    """A secret; values of `data` are base64."""

    type: str = "Opaque"
    immutable: bool = False
    data: dict[str, str] = {}


class ConfigMap(Object, frozen=True, kw_only=True):
    """A configuration map."""

    data: dict[str, str] = {}


class ServiceAccount(Object, frozen=True, kw_only=True):
    """The identity of a workload."""


class PodSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Where a pod runs, and the labels that its node must have."""

    node_name: str = ""
    node_selector: dict[str, str] = {}


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How a container ended; `message` is what it wrote to its termination log."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Waiting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a container does not run: ImagePullBackOff, CrashLoopBackOff, …"""

    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a container is; neither is set for one that runs."""

    waiting: Waiting | None = None
    terminated: Ended | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a kubelet reports of a container.

    `image` is the name of the image that runs, and `image_id` its name and digest, or its digest alone where it was
    loaded onto the node and not pulled.
    """

    name: str = ""
    ready: bool = False
    image: str = ""
    image_id: str = field(name="imageID", default="")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodAddress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An IP address of a pod."""

    ip: str = ""


class PodStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far a pod is: Pending, Running, Succeeded, Failed or Unknown. Its addresses are those of its own network."""

    phase: str = ""
    pod_ip: str = field(name="podIP", default="")
    pod_ips: tuple[PodAddress, ...] = field(name="podIPs", default=())
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended(self) -> bool:
        """Whether none of its containers will run any more."""
        return self.status.phase in ("Succeeded", "Failed")


class LeaseSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Who holds a lease. Times are RFC 3339 with microseconds (metav1.MicroTime)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, kw_only=True):
    """A lease of coordination.k8s.io, by which replicas elect a leader."""

    spec: LeaseSpec = LeaseSpec()


class WebhookConfiguration(Object, frozen=True, kw_only=True):
    """A mutating or validating webhook configuration; each webhook as on the wire."""

    webhooks: tuple[dict[str, Any], ...] = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """A CRD; its spec as on the wire."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ManagedMeta(ObjectMeta, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Metadata with the owners of fields, which are as on the wire."""

    managed_fields: tuple[dict[str, Any], ...] = ()


class ManagedDefinition(Object, frozen=True, kw_only=True):
    """A CRD by the owners of its fields."""

    metadata: ManagedMeta = ManagedMeta()


class SelfReviewStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The answer to a SelfSubjectReview."""

    user_info: UserInfo = UserInfo()


class SelfReview(Object, frozen=True, kw_only=True):
    """The question which user a client is: created, answered, and never stored (authentication.k8s.io/v1)."""

    status: SelfReviewStatus = SelfReviewStatus()


NODES = Resource(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    type=Node,
    namespaced=False,
    short_names=("no",),
    status=True,
)
NAMESPACES = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    type=Namespace,
    namespaced=False,
    short_names=("ns",),
    status=True,
)
EVENTS = Resource(
    group="", version="v1", kind="Event", plural="events", type=Event, namespaced=True, short_names=("ev",)
)
SECRETS = Resource(group="", version="v1", kind="Secret", plural="secrets", type=Secret, namespaced=True)
CONFIG_MAPS = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    type=ConfigMap,
    namespaced=True,
    short_names=("cm",),
)
SERVICE_ACCOUNTS = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    type=ServiceAccount,
    namespaced=True,
    short_names=("sa",),
)
PODS = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    type=Pod,
    namespaced=True,
    short_names=("po",),
    status=True,
)
LEASES = Resource(
    group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", type=Lease, namespaced=True
)
MUTATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations",
    type=WebhookConfiguration,
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    type=WebhookConfiguration,
    namespaced=False,
)
CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    type=CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    status=True,
)
CRD_OWNERS = Resource(
    group=CRDS.group,
    version=CRDS.version,
    kind=CRDS.kind,
    plural=CRDS.plural,
    type=ManagedDefinition,
    namespaced=False,
)
SELF_REVIEWS = Resource(
    group="authentication.k8s.io",
    version="v1",
    kind="SelfSubjectReview",
    plural="selfsubjectreviews",
    type=SelfReview,
    namespaced=False,
)
