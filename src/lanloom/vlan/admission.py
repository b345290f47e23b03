"""The webhooks' side of VLAN networks: turns admission requests into typed values and asks the rules."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from lanloom.api import names
from lanloom.api.admission import AdmissionRequest, Raw, UserInfo, Verdict
from lanloom.api.core import Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.vlan.manager import BY_CLUSTER_NETWORK, VlanInformers
from lanloom.vlan.rules.admit_networks import check_nad, label_changes
from lanloom.vlan.rules.admit_uplinks import (
    check_cluster_network,
    check_cluster_network_deletion,
    check_vlan_config,
    check_vlan_status,
)
from lanloom.vlan.rules.refusal import Refused, World

T = TypeVar("T", bound=Object)

MUTATED: tuple[tuple[Resource[NetworkAttachmentDefinition], tuple[str, ...]], ...] = (
    (NADS, ("CREATE", "UPDATE")),
)
"""The resources and operations that `mutate` wants to see."""

VALIDATED = (
    (NADS, ("CREATE", "UPDATE")),
    (CLUSTER_NETWORKS, ("CREATE", "DELETE")),
    (VLAN_CONFIGS, ("CREATE", "UPDATE")),
    (VLAN_STATUSES, ("CREATE", "UPDATE", "DELETE")),
)
"""The resources and operations that `validate` wants to see; statuses include their subresource."""


class StoreWorld:
    """The cluster as the manager's informers see it (see `rules.refusal.World`)."""

    def __init__(self, informers: VlanInformers) -> None:
        self._informers = informers

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """One cluster network."""
        return self._informers.cluster_networks.store.get(Key("", name))

    def cluster_networks(self) -> Iterable[ClusterNetwork]:
        """Every cluster network."""
        return self._informers.cluster_networks.store.items()

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """The VlanConfigs of a cluster network."""
        return self._informers.configs.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """The NADs of a cluster network."""
        return self._informers.nads.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def statuses_of(self, cluster_network: str) -> Iterable[VlanStatus]:
        """What the agents report of a cluster network."""
        return self._informers.statuses.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        return {item.metadata.name: item for item in self._informers.nodes.store.items()}


class VlanAdmission:
    """Answers admission requests about the kinds of VLAN networks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._validators: dict[str, Callable[[AdmissionRequest], tuple[str, ...]]] = {
            NADS.plural: self._nad,
            CLUSTER_NETWORKS.plural: self._cluster_network,
            VLAN_CONFIGS.plural: self._vlan_config,
            VLAN_STATUSES.plural: self._vlan_status,
        }

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Fills in the labels that a NAD's configuration implies; anything else passes unchanged."""
        if request.resource.resource != NADS.plural:
            return Verdict()
        try:
            new, old = _new(NADS, request), _old(NADS, request)
        except Refused:
            return Verdict()  # the validating webhook says what is wrong
        if new is None:
            return Verdict()
        changes = label_changes(new, old)
        if changes and not new.metadata.labels:
            return Verdict(patch=({"op": "add", "path": "/metadata/labels", "value": changes},))
        return Verdict(patch=tuple(_label_operation(key, value) for key, value in changes.items()))

    def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses, with the reason."""
        validator = self._validators.get(request.resource.resource)
        if validator is None:
            return Verdict()
        try:
            return Verdict(warnings=validator(request))
        except Refused as refusal:
            return Verdict(allowed=False, message=str(refusal))

    def _nad(self, request: AdmissionRequest) -> tuple[str, ...]:
        new = _new(NADS, request)
        if new is None or new.metadata.deletion_timestamp is not None:
            return ()
        return check_nad(new, _old(NADS, request), self._world)

    def _cluster_network(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = _new(CLUSTER_NETWORKS, request), _old(CLUSTER_NETWORKS, request)
        if new is not None and old is None:
            check_cluster_network(new, self._world)
        elif old is not None and new is None:
            check_cluster_network_deletion(old, self._world)
        return ()

    def _vlan_config(self, request: AdmissionRequest) -> tuple[str, ...]:
        new = _new(VLAN_CONFIGS, request)
        if new is not None and new.metadata.deletion_timestamp is None:
            check_vlan_config(new, _old(VLAN_CONFIGS, request), self._world)
        return ()

    def _vlan_status(self, request: AdmissionRequest) -> tuple[str, ...]:
        node = agent_node(request.user_info)
        if node is None:
            return ()
        for status in (_new(VLAN_STATUSES, request), _old(VLAN_STATUSES, request)):
            if status is not None:
                check_vlan_status(status, node)
        return ()


def agent_node(user: UserInfo) -> str | None:
    """The node whose agent a user is, or None for anybody else.

    On the embedded server agents have a user each; on Kubernetes all share a service account, whose tokens name the
    node that they were issued for. A token of that account without a node is nobody's: it gets a name that fits none.
    """
    if user.username.startswith(names.NODE_USER_PREFIX):
        return user.username.removeprefix(names.NODE_USER_PREFIX)
    if user.username == f"system:serviceaccount:{names.LANLOOM_NAMESPACE}:lanloom-agent":
        return next(iter(user.extra.get("authentication.kubernetes.io/node-name", ())), "")
    return None


def _label_operation(key: str, value: str | None) -> Raw:
    """An operation of a JSON patch (RFC 6902): the label's new value, or None to remove it."""
    pointer = key.replace("~", "~0").replace("/", "~1")
    path = f"/metadata/labels/{pointer}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}


def _typed(resource: Resource[T], raw: Raw) -> T:
    try:
        return msgspec.convert(raw, resource.type)
    except msgspec.ValidationError as error:
        name = raw.get("metadata", {}).get("name", "")
        raise Refused(f"can't read {resource.kind} {name} because {error}") from None


def _new(resource: Resource[T], request: AdmissionRequest) -> T | None:
    return None if request.object is None else _typed(resource, request.object)


def _old(resource: Resource[T], request: AdmissionRequest) -> T | None:
    return None if request.old_object is None else _typed(resource, request.old_object)
