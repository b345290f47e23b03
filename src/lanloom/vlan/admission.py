"""The webhooks' side of VLAN networks: turns admission requests into typed values and asks the rules."""

from collections.abc import Callable

from lanloom.api import names
from lanloom.api.admission import (
    AdmissionRequest,
    Raw,
    Unreadable,
    UserInfo,
    Verdict,
    new_of,
    old_of,
    refusal,
)
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.vlan.rules.admit_configs import check_vlan_config, check_vlan_config_deletion
from lanloom.vlan.rules.admit_networks import check_nad, label_changes
from lanloom.vlan.rules.admit_uplinks import (
    check_cluster_network,
    check_cluster_network_deletion,
    check_vlan_status,
    check_vlan_status_deletion,
)
from lanloom.vlan.rules.admit_vms import check_nad_deletion
from lanloom.vlan.rules.refusal import Malformed, Refused, World
from lanloom.vlan.worlds import fresh_world

MUTATED: tuple[tuple[Resource[NetworkAttachmentDefinition], tuple[str, ...]], ...] = (
    (NADS, ("CREATE", "UPDATE")),
)
"""The resources and operations that `mutate` wants to see."""

VALIDATED = (
    (NADS, ("CREATE", "UPDATE", "DELETE")),
    (CLUSTER_NETWORKS, ("CREATE", "UPDATE", "DELETE")),
    (VLAN_CONFIGS, ("CREATE", "UPDATE", "DELETE")),
    (VLAN_STATUSES, ("CREATE", "UPDATE", "DELETE")),
)
"""The resources and operations that `validate` wants to see; statuses include their subresource."""


NodeOfPod = Callable[[str], str]
"""The node of a pod in Lanloom's namespace, empty for one that isn't known."""

Rule = Callable[[AdmissionRequest, World], tuple[str, ...]]


class VlanAdmission:
    """Answers admission requests about the kinds of VLAN networks."""

    def __init__(self, client: Client, world: World, node_of_pod: NodeOfPod) -> None:
        self._client = client
        self._world = world
        self._node_of_pod = node_of_pod

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Fills in the labels that a NAD's configuration implies; anything else passes unchanged."""
        if request.resource.resource != NADS.plural:
            return Verdict()
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return Verdict()  # the validating webhook says what is wrong
        if new is None:
            return Verdict()
        changes = label_changes(new, old)
        if changes and not new.metadata.labels:
            return Verdict(patch=({"op": "add", "path": "/metadata/labels", "value": changes},))
        return Verdict(patch=tuple(_label_operation(key, value) for key, value in changes.items()))

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses, with the reason. Nobody is refused because a watch lags behind, but if nobody can tell.

        A malformed object is no reason to read the cluster anew, however often somebody sends it.
        """
        if request.resource.resource == VLAN_STATUSES.plural:
            return _vlan_status(request, self._node_of_pod)
        if _is_harvesters_own(request):
            return Verdict()
        try:
            return Verdict(warnings=_ask(request, self._world))
        except (Malformed, Unreadable) as refused:
            return refusal(refused)
        except Refused:
            return await self._judge_anew(request)

    async def _judge_anew(self, request: AdmissionRequest) -> Verdict:
        try:
            fresh = await fresh_world(self._client, _concerned(request), self._world)
        except KubeError as error:
            return refusal(f"this can't be checked now, because {error}; try again")
        return judge(request, fresh)


def _is_harvesters_own(request: AdmissionRequest) -> bool:
    """Whether Harvester's controller writes a kind of its own: what users may not, such as VlanConfigs of mgmt, it may.

    Networks are users' objects, whoever writes them, and its requests about them are judged.
    """
    own = (CLUSTER_NETWORKS.plural, VLAN_CONFIGS.plural)
    return request.user_info.username == names.HARVESTER_CONTROLLER and request.resource.resource in own


def judge(request: AdmissionRequest, world: World) -> Verdict:
    """What the rules say of a request in that state of the cluster."""
    try:
        return Verdict(warnings=_ask(request, world))
    except (Refused, Unreadable) as refused:
        return refusal(refused)


def _ask(request: AdmissionRequest, world: World) -> tuple[str, ...]:
    """The warnings of the rule for that kind; none for other kinds."""
    rule = _RULES.get(request.resource.resource)
    return rule(request, world) if rule is not None else ()


def _nad(request: AdmissionRequest, world: World) -> tuple[str, ...]:
    new, old = new_of(NADS, request), old_of(NADS, request)
    if new is not None:
        return () if new.metadata.is_leaving else check_nad(new, old, world)
    if old is not None and not old.metadata.is_leaving:
        check_nad_deletion(old, world)
    return ()


def _cluster_network(request: AdmissionRequest, world: World) -> tuple[str, ...]:
    new, old = new_of(CLUSTER_NETWORKS, request), old_of(CLUSTER_NETWORKS, request)
    if new is not None:
        return () if new.metadata.is_leaving else check_cluster_network(new, old, world)
    if old is not None:
        check_cluster_network_deletion(old, world)
    return ()


def _vlan_config(request: AdmissionRequest, world: World) -> tuple[str, ...]:
    new, old = new_of(VLAN_CONFIGS, request), old_of(VLAN_CONFIGS, request)
    if new is not None:
        return () if new.metadata.is_leaving else check_vlan_config(new, old, world)
    if old is not None and not old.metadata.is_leaving:
        check_vlan_config_deletion(old, world)
    return ()


def _vlan_status(request: AdmissionRequest, node_of_pod: NodeOfPod) -> Verdict:
    node = agent_node(request.user_info, node_of_pod)
    try:
        new, old = new_of(VLAN_STATUSES, request), old_of(VLAN_STATUSES, request)
        check = check_vlan_status_deletion if new is None else check_vlan_status
        for status in (new, old):
            if status is not None and node is not None:
                check(status, node)
    except (Refused, Unreadable) as refused:
        return refusal(refused)
    return Verdict()


_RULES: dict[str, Rule] = {
    NADS.plural: _nad,
    CLUSTER_NETWORKS.plural: _cluster_network,
    VLAN_CONFIGS.plural: _vlan_config,
}


def _concerned(request: AdmissionRequest) -> str:
    """The cluster network that a request is about; empty for none, or an object that can't be read."""
    try:
        match request.resource.resource:
            case CLUSTER_NETWORKS.plural:
                return request.name
            case VLAN_CONFIGS.plural:
                config = new_of(VLAN_CONFIGS, request) or old_of(VLAN_CONFIGS, request)
                return config.spec.cluster_network if config else ""
            case NADS.plural:
                nad = new_of(NADS, request) or old_of(NADS, request)
                return cluster_network_of(nad) if nad else ""
    except Unreadable:
        pass
    return ""


def agent_node(user: UserInfo, node_of_pod: NodeOfPod) -> str | None:
    """The node whose agent a user is, or None for anybody else.

    On the embedded server agents have a user each; on Kubernetes all share a service account, whose tokens name the
    pod (and, since 1.30, the node) that they were issued for. A token of that account that names neither is nobody's:
    it gets a name that fits no node.
    """
    if user.username.startswith(names.NODE_USER_PREFIX):
        return user.username.removeprefix(names.NODE_USER_PREFIX)
    if user.username == f"system:serviceaccount:{names.LANLOOM_NAMESPACE}:lanloom-agent":
        node = next(iter(user.extra.get("authentication.kubernetes.io/node-name", ())), "")
        pod = next(iter(user.extra.get("authentication.kubernetes.io/pod-name", ())), "")
        return node or (pod and node_of_pod(pod)) or ""
    return None


def _label_operation(key: str, value: str | None) -> Raw:
    """An operation of a JSON patch (RFC 6902): the label's new value, or None to remove it."""
    pointer = key.replace("~", "~0").replace("/", "~1")
    path = f"/metadata/labels/{pointer}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
