"""Isolated networks as values: objects in every phase, and who uses them."""

from typing import Any

from msgspec import Struct

from lanloom.api.core import (
    ContainerState,
    ContainerStatus,
    Ended,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from lanloom.api.dummy import (
    ADMITTED,
    BRIDGE_LABEL,
    FINALIZER,
    UID_LABEL,
    DummyClusterNetwork,
    DummyClusterNetworkSpec,
    DummyClusterNetworkStatus,
)
from lanloom.api.meta import Condition, Key, ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.api.workloads import DaemonSet, DaemonSetSpec
from lanloom.features.dummy.views import DummyObjects, DummyView, dummy_view
from lanloom.nads.references import User

UID = "0b9fd7b2-8d53-4f43-b1c0-0a1f9f7d2f10"
NAD = Key("harvester-system", "dummy-bridge-net")
BORN, ASKED = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
NOW = 1_767_400_000.0
"""A day after the deletion was asked for."""

MACHINE = User("VirtualMachine", "default", "a")
POD = User("Pod", "shop", "web-0")


class FixedNadUse(Struct, frozen=True):
    """A `NadUse` of values."""

    users: tuple[User, ...] = ()
    versions: dict[str, int] = {}

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """The users, of the one NAD."""
        return self.users if nad == NAD else ()

    def user_of(self, pod: Key) -> User:
        """Never called."""
        raise NotImplementedError

    def seen(self, uid: str) -> int | None:
        """The version."""
        return self.versions.get(uid)


def network(phase: str = "Ready", *, leaving: bool = False, message: str = "") -> DummyClusterNetwork:
    """The default network."""
    metadata = ObjectMeta(
        name="br-dummy-cluster",
        uid=UID,
        creation_timestamp=BORN,
        deletion_timestamp=ASKED if leaving else None,
        finalizers=(FINALIZER,),
    )
    spec = DummyClusterNetworkSpec(bridge_name="dummy-br", nad_name=NAD.name, nad_namespace=NAD.namespace)
    status = DummyClusterNetworkStatus(phase=phase, message=message)  # type: ignore[arg-type]
    return DummyClusterNetwork(metadata=metadata, spec=spec, status=status)


def nad(annotation: str = "") -> NetworkAttachmentDefinition:
    """The network's NAD with that note of requests."""
    notes = {ADMITTED: annotation} if annotation else {}
    metadata = ObjectMeta(name=NAD.name, namespace=NAD.namespace, labels={UID_LABEL: UID}, annotations=notes)
    return NetworkAttachmentDefinition(metadata=metadata)


def daemon_set(state: str = "present") -> DaemonSet:
    """The network's DaemonSet."""
    template: dict[str, Any] = {"metadata": {"labels": {BRIDGE_LABEL: state}}}
    metadata = ObjectMeta(namespace=BRIDGES_NAMESPACE, labels={UID_LABEL: UID})
    return DaemonSet(metadata=metadata, spec=DaemonSetSpec(template=template))


def node(name: str, *, up: bool = True) -> Node:
    """A node that is ready, or has not been for two days."""
    ready = Condition(
        type="Ready", status="True" if up else "Unknown", last_transition_time="2026-01-01T00:00:00Z"
    )
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(conditions=(ready,)))


def pod(
    on: str, state: str = "present", *, ready: bool = True, said: str = "", namespace: str = BRIDGES_NAMESPACE
) -> Pod:
    """The DaemonSet's pod on a node; `said` is what its daemon wrote when it ended."""
    ended = ContainerState(terminated=Ended(exit_code=1, message=said)) if said else ContainerState()
    return Pod(
        metadata=ObjectMeta(
            name=f"dummy-{on}", namespace=namespace, labels={UID_LABEL: UID, BRIDGE_LABEL: state}
        ),
        spec=PodSpec(node_name=on),
        status=PodStatus(
            phase="Running",
            conditions=(Condition(type="Ready", status=str(ready)),),
            container_statuses=(ContainerStatus(name="bridge", last_state=ended),),
        ),
    )


def view(network: DummyClusterNetwork, users: FixedNadUse | None = None, **objects: Any) -> DummyView:
    """The network as it is shown."""
    return dummy_view(network, DummyObjects(**objects), users or FixedNadUse(), NOW)
