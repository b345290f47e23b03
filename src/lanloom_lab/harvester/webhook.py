"""Harvester's webhook: what it fills in and what it refuses, as its own words have it.

It judges all users, its own controller too; only VlanConfigs of `mgmt` are that one's alone. Left out are what depends
on machines that run, on its storage network and on overlay networks.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from ipaddress import ip_interface
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.core import Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    DEFAULT_MTU,
    VLAN_CONFIGS,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.vlan.rules.desired.names import vlan_status_name
from lanloom_lab.harvester import rules
from lanloom_lab.harvester.objects import HOST_NETWORKS, Raw, is_not_ready, is_ready
from lanloom_lab.harvester.rules import Refusal

_NAMES = {
    VLAN_CONFIGS.plural: "vlanConfig",
    CLUSTER_NETWORKS.plural: "cluster network",
    HOST_NETWORKS.plural: "hostnetworkConfig",
    NADS.plural: "nad",
}
_TYPES: dict[str, Any] = {
    VLAN_CONFIGS.plural: VlanConfig,
    CLUSTER_NETWORKS.plural: ClusterNetwork,
    HOST_NETWORKS.plural: HostNetworkConfig,
    NADS.plural: NetworkAttachmentDefinition,
}
_MUTATED = (VLAN_CONFIGS, NADS)
_VALIDATED = (CLUSTER_NETWORKS, NADS, VLAN_CONFIGS, HOST_NETWORKS)


class Objects(Struct, frozen=True, kw_only=True):
    """The objects that it knows."""

    nodes: tuple[Node, ...] = ()
    networks: tuple[ClusterNetwork, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    statuses: tuple[VlanStatus, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    hosts: tuple[HostNetworkConfig, ...] = ()

    def network(self, name: str) -> ClusterNetwork:
        """Return a cluster network. Raises Refusal."""
        found = next((item for item in self.networks if item.metadata.name == name), None)
        if found is None:
            raise Refusal(f'{CLUSTER_NETWORKS.full_name} "{name}" not found')
        return found

    def labelled(self, name: str) -> list[VlanConfig]:
        """Return the VlanConfigs that carry the label of a cluster network; those without it are not seen."""
        key = names.CLUSTER_NETWORK_LABEL
        found = (item for item in self.configs if item.metadata.labels.get(key) == name)
        return [item for item in found if not item.metadata.is_deleting]


def configurations(url: str, authority: bytes) -> tuple[Raw, Raw]:
    """Return the mutating configuration, which fails open, and the validating one, which fails closed.

    (mutatingWebhookConfiguration and validatingWebhookConfiguration of vendor/github.com/harvester/webhook/pkg/server.)
    """
    made = []
    for verb, kinds, policy, operations in (
        ("mutation", _MUTATED, "Ignore", ["CREATE", "UPDATE"]),
        ("validation", _VALIDATED, "Fail", ["CREATE", "UPDATE", "DELETE"]),
    ):
        rules_ = [
            {
                "apiGroups": [kind.group],
                "apiVersions": [kind.version],
                "resources": [kind.plural],
                "operations": operations,
                "scope": "Namespaced" if kind.namespaced else "Cluster",
            }
            for kind in kinds
        ]
        noun = "mutator" if verb == "mutation" else "validator"
        config: Raw = {"url": f"{url}/v1/webhook/{verb}"}
        if authority:
            config["caBundle"] = base64.b64encode(authority).decode()
        webhook = {
            "name": f"{noun}.{names.HARVESTER_NAMESPACE}.{names.HARVESTER_WEBHOOK}",
            "clientConfig": config,
            "rules": rules_,
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
        }
        made.append({"metadata": {"name": names.HARVESTER_WEBHOOK}, "webhooks": [webhook]})
    return made[0], made[1]


def answer(path: str, review: Raw, objects: Objects) -> Raw:
    """Return the answer to an AdmissionReview; a refusal is an internal error, as it is there."""
    request = review["request"]
    response: Raw = {"uid": request["uid"], "allowed": True}
    try:
        if not path.endswith("/mutation"):
            _validate(request, objects)
        elif patch := _patch(request, objects):
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    except Refusal as error:
        key = f"{request['namespace']}/{request['name']}" if request.get("namespace") else request["name"]
        verb, noun = request["operation"].lower(), _NAMES[request["resource"]["resource"]]
        message = f"Internal error occurred: can't {verb} {noun} {key} because {error}"
        response["allowed"] = False
        response["status"] = {
            "status": "Failure",
            "code": 500,
            "reason": "InternalError",
            "message": message,
        }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _item(request: Raw, field: str) -> Any:
    raw = request.get(field)
    return msgspec.convert(raw, _TYPES[request["resource"]["resource"]], strict=False) if raw else None


def _is_controllers(request: Raw) -> bool:
    return bool(request.get("userInfo", {}).get("username") == names.HARVESTER_CONTROLLER)


# Mutation


def _patch(request: Raw, objects: Objects) -> list[Raw]:
    old, new = _item(request, "oldObject"), _item(request, "object")
    if new.metadata.is_deleting:
        return []
    if isinstance(new, VlanConfig):
        return _config_patch(old, new, objects)
    return _nad_patch(old, new, objects)


def _config_patch(old: VlanConfig | None, new: VlanConfig, objects: Objects) -> list[Raw]:
    """Return the label only on creation and a move to another network.

    The matching nodes are set always (vlanconfig/mutator.go).
    """
    network, steps = new.spec.cluster_network, list[Raw]()
    if network == names.MGMT:
        return []
    moved = old is None or old.spec.cluster_network != network
    if moved and new.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) != network:
        labels = new.metadata.labels | {names.CLUSTER_NETWORK_LABEL: network}
        steps.append({"op": "add", "path": "/metadata/labels", "value": labels})
    nodes = [node.metadata.name for node in objects.nodes if rules.is_selected(new.spec.node_selector, node)]
    if nodes:
        text = json.dumps(sorted(nodes), separators=(",", ":"))
        annotations = new.metadata.annotations | {names.MATCHED_NODES: text}
        steps.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
    return steps


def _nad_patch(
    old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition, objects: Objects
) -> list[Raw]:
    """On creation the network's MTU, on a change the labels (nad/mutator.go)."""
    config = rules.config_of(new)
    name = rules.cluster_network_of(config)
    network = objects.network(name)
    if old is None:
        mtu = _network_mtu(network, objects)
        if (config.get("mtu") or DEFAULT_MTU) == mtu:
            return []
        text = json.dumps(config | {"mtu": mtu})
        return [{"op": "replace", "path": "/spec/config", "value": text}]
    labels = rules.nad_labels(new.metadata.labels, config)
    labels[names.READY_LABEL] = "true" if is_ready(network.status.conditions) else "false"
    return [{"op": "add", "path": "/metadata/labels", "value": labels}]


def _network_mtu(network: ClusterNetwork, objects: Objects) -> int:
    text = network.metadata.annotations.get(names.UPLINK_MTU)
    if text is not None:
        return _mtu(text) or DEFAULT_MTU
    configs = objects.labelled(network.metadata.name)
    return rules.mtu_of(configs[0]) if configs else DEFAULT_MTU


def _mtu(text: str) -> int:
    if not text.isdecimal():
        raise Refusal(f"value {text} is not an integer")
    if int(text) and not rules.MTU_RANGE[0] <= int(text) <= rules.MTU_RANGE[1]:
        raise Refusal(f"value {text} is not in range [0, {rules.MTU_RANGE[0]}..{rules.MTU_RANGE[1]}]")
    return int(text)


# Validation


def _validate(request: Raw, objects: Objects) -> None:
    old, new = _item(request, "oldObject"), _item(request, "object")
    if new is not None and new.metadata.is_deleting:
        return
    item = new if new is not None else old
    if isinstance(item, VlanConfig):
        _check_config(request, old, new, objects)
    elif isinstance(item, ClusterNetwork):
        _check_network(old, new, objects)
    elif isinstance(item, HostNetworkConfig):
        _check_host_network(old, new, objects)
    elif new is not None:
        _check_nad(old, new, objects)


def _check_config(request: Raw, old: VlanConfig | None, new: VlanConfig | None, objects: Objects) -> None:
    """(vlanconfig/validator.go.) A move to another cluster network is allowed."""
    item = new if new is not None else old
    assert item is not None
    network = item.spec.cluster_network
    if network == names.MGMT and not _is_controllers(request):
        verb = request["operation"].lower()
        raise Refusal(f"users can't {verb} vlanConfig for {names.MGMT} cluster network")
    if new is None:
        return
    label = new.metadata.labels.get(names.CLUSTER_NETWORK_LABEL, "")
    if old is not None and label != network:
        raise Refusal(f"cluster network label {label} is invalid and must not be updated by user")
    objects.network(network)
    _check_mtus(new, objects)
    _check_overlaps(new, objects)


def _check_mtus(new: VlanConfig, objects: Objects) -> None:
    if new.spec.cluster_network == names.MGMT:
        return
    for other in objects.labelled(new.spec.cluster_network):
        if other.metadata.name != new.metadata.name and rules.mtu_of(other) != rules.mtu_of(new):
            mine, their = (item.spec.uplink.linkAttributes.mtu for item in (new, other))
            raise Refusal(
                f"the vlanconfig {new.metadata.name} MTU {mine} is different with another vlanconfig "
                f"{other.metadata.name} MTU {their}, all vlanconfigs on one clusternetwork need to have same MTU"
            )


def _check_overlaps(new: VlanConfig, objects: Objects) -> None:
    reports = {item.metadata.name: item.status.vlan_config for item in objects.statuses}
    nodes = rules.matched_nodes(new)
    at = {node: reports.get(vlan_status_name(new.spec.cluster_network, node)) for node in nodes}
    if taken := [node for node, config in at.items() if config not in (None, new.metadata.name)]:
        raise Refusal(f"it overlaps with other vlanconfigs matching node(s) [{' '.join(taken)}]")


def _check_network(old: ClusterNetwork | None, new: ClusterNetwork | None, objects: Objects) -> None:
    """(clusternetwork/validator.go.)"""
    if new is None:
        assert old is not None
        _check_network_is_free(old.metadata.name, objects)
        return
    name, text = new.metadata.name, new.metadata.annotations.get(names.UPLINK_MTU)
    if len(name) > names.CLUSTER_NETWORK_NAME_MAX:
        raise Refusal(
            f"the length of the clusterNetwork name {name} is more than {names.CLUSTER_NETWORK_NAME_MAX}"
        )
    if old is None:
        if text is not None:
            raise Refusal(f"annotation {names.UPLINK_MTU} can't be added")
        return
    mtu = (_mtu(text) if text is not None else 0) or DEFAULT_MTU
    for config in objects.labelled(name) if name != names.MGMT else ():
        if rules.mtu_of(config) != mtu:
            other = config.spec.uplink.linkAttributes.mtu
            raise Refusal(
                f"clusternetwork has MTU {mtu}, but the vlanconfigs {config.metadata.name} has another MTU {other}"
            )


def _check_network_is_free(name: str, objects: Objects) -> None:
    if name == names.MGMT:
        raise Refusal("it is not allowed")
    key = names.CLUSTER_NETWORK_LABEL
    if configs := [item.metadata.name for item in objects.configs if item.metadata.labels.get(key) == name]:
        raise Refusal(f"vlanconfig(s) [{' '.join(configs)}] under this clusternetwork are still existing")
    if nads := [str(nad.metadata.key) for nad in objects.nads if nad.metadata.labels.get(key) == name]:
        raise Refusal(f"nads(s) {', '.join(nads)} under this clusternetwork are still existing")


def _check_nad(
    old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition, objects: Objects
) -> None:
    """(nad/validator.go.) A change that leaves the configuration alone is not looked at any further."""
    config = rules.config_of(new)
    before = rules.config_of(old) if old is not None else None
    if config == before:
        return
    if before is not None and before.get("bridge", "") != config.get("bridge", ""):
        raise Refusal(
            f"nad bridge name can't be changed from {before.get('bridge')} to {config.get('bridge')}"
        )
    if config.get("vlan") and config.get("vlanTrunk"):
        raise Refusal("vlan can only be 0 when vlanTrunk is set")
    name = rules.cluster_network_of(config)
    label = new.metadata.labels.get(names.CLUSTER_NETWORK_LABEL, name)
    if label != name:
        raise Refusal(f"the nad label {label} does not match bridge name {name}")
    mtu = _network_mtu(objects.network(name), objects)
    if (config.get("mtu") or DEFAULT_MTU) != mtu:
        raise Refusal(f"nad MTU {config.get('mtu', 0)} does not match cluster network MTU {mtu}")


def _check_host_network(
    old: HostNetworkConfig | None, new: HostNetworkConfig | None, objects: Objects
) -> None:
    """(hostnetworkconfig/validator.go.)"""
    if new is None:
        assert old is not None
        if old.spec.underlay:
            raise Refusal("underlay is enabled, disable underlay first")
        return
    spec = new.spec
    if old is not None and old.spec == spec:
        return
    if old is not None and (old.spec.cluster_network, old.spec.vlanID) != (spec.cluster_network, spec.vlanID):
        raise Refusal(
            "cannot update clusterNetwork or vlanID field,instead delete the old hostnetworkconfig and create a new one"
        )
    if old is None:
        _check_new_host_network(new, objects)
    if spec.mode == "static":
        wanted = spec.node_selector.get("matchLabels", {})
        nodes = (node for node in objects.nodes if wanted.items() <= node.metadata.labels.items())
        _check_addresses(spec.ips, nodes)


def _check_new_host_network(new: HostNetworkConfig, objects: Objects) -> None:
    spec = new.spec
    name = rules.host_link(spec.cluster_network, spec.vlanID)
    if len(name) > names.LINK_NAME_MAX:
        raise Refusal(
            f"host network interface name {name} length {len(name)} is more than {names.LINK_NAME_MAX}"
        )
    objects.network(spec.cluster_network)
    for other in objects.hosts:
        same = (other.spec.cluster_network, other.spec.vlanID) == (spec.cluster_network, spec.vlanID)
        if same and not other.metadata.is_deleting:
            raise Refusal(
                f"hostnetworkconfig {other.metadata.name} already exists for cluster network "
                f"{spec.cluster_network} with vlanID {spec.vlanID}"
            )
    if spec.cluster_network == names.MGMT:
        return
    key = names.CLUSTER_NETWORK_LABEL
    reports = [item for item in objects.statuses if item.metadata.labels.get(key) == spec.cluster_network]
    if not reports:
        raise Refusal(f"vlan status not present for cluster network {spec.cluster_network}")
    for item in reports:
        if is_not_ready(item.status.conditions):
            raise Refusal(f"vs {item.metadata.name} status is not Ready")


def _check_addresses(ips: Mapping[str, str], nodes: Iterable[Node]) -> None:
    """Each node of the cluster that is selected needs an address, also where it has no uplink; all in one subnet."""
    subnets = set()
    for node in nodes:
        if node.metadata.name not in ips:
            raise Refusal(f"static IP not found for node {node.metadata.name}")
        subnets.add(ip_interface(ips[node.metadata.name]).network)
    if len(subnets) > 1:
        raise Refusal("static IPs are not in the same subnet: <nil>")
