"""The NAD of an isolated network: what stands in it, and whether what is there is that.

Configurations are compared as values, never as text: whoever writes one anew (an editor, Harvester's webhook) may order
and indent it differently. Members that say what holds without them anyway count for nothing. The MTU is Harvester's:
its webhook writes that of the ClusterNetwork into the configuration, and refuses another one.
"""

import json
from typing import Any

from lanloom.api import names
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.dummy.rules.marks import Raw, is_ours, marks
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.names import resource_name

CNI_VERSION = "0.3.1"

_MTU = "mtu"
_IDLE: Raw = {
    "ipam": {},
    "dns": {},
    "vlan": 0,
    _MTU: 0,
    "promiscMode": False,
    "isGateway": False,
    "isDefaultGateway": False,
    "ipMasq": False,
    "forceAddress": False,
    "hairpinMode": False,
}
"""Members of a bridge's configuration, with the values that mean as much as their absence."""


def nad_config(net: Isolated) -> Raw:
    """The CNI configuration, for the `bridge` plugin of the CNI project.

    The gateway is each node's own: `isGateway` gives the bridge the address that the network's subnet has as gateway,
    `ipMasq` hides what goes out behind the node's. Pods keep the default route that they have. `forceAddress` takes the
    bridge's former address off, where the subnet was another one; without it the plugin would fail for every pod.
    """
    config: Raw = {"cniVersion": CNI_VERSION, "name": net.nad.name, "type": "bridge", "bridge": net.bridge}
    if net.subnet is not None:
        config["ipam"] = {"type": "lanloom-ipam", "network": resource_name(net.name, net.uid)}
        if net.gateway == "node":
            config |= {"isGateway": True, "ipMasq": True, "forceAddress": True}
    return config


def nad_body(net: Isolated) -> Raw:
    """The whole NAD, to be created. Harvester's UI takes a network for usable by its label `ready`."""
    metadata = marks(net.name, net.uid)
    metadata["labels"][names.READY_LABEL] = "true"
    return {
        "apiVersion": NADS.api_version,
        "kind": NADS.kind,
        "metadata": {"name": net.nad.name, "namespace": net.nad.namespace, **metadata},
        "spec": {"config": json.dumps(nad_config(net))},
    }


def is_as_wanted(nad: NetworkAttachmentDefinition, net: Isolated) -> bool:
    """Whether the NAD is the network's own and configures what it asks for. One that can't be read does not."""
    found = _read(nad.spec.config)
    return (
        is_ours(nad.metadata, net.uid)
        and nad.metadata.annotations.get(NAME_ANNOTATION) == net.name
        and found is not None
        and _canonical(found) == _canonical(nad_config(net))
    )


def nad_patch(nad: NetworkAttachmentDefinition, net: Isolated) -> Raw:
    """The merge patch that mends a NAD, on the version that was read; empty if it is as wanted.

    Only for the network's own: that is for the caller to ask.
    """
    if is_as_wanted(nad, net):
        return {}
    config = nad_config(net)
    mtu = (_read(nad.spec.config) or {}).get(_MTU)
    if type(mtu) is int and mtu > 0:
        config[_MTU] = mtu
    metadata = {
        "resourceVersion": nad.metadata.resource_version,
        "labels": {UID_LABEL: net.uid},
        "annotations": {NAME_ANNOTATION: net.name},
    }
    return {"metadata": metadata, "spec": {"config": json.dumps(config)}}


def _read(text: str) -> Raw | None:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _canonical(config: Raw) -> str:
    """Equal for configurations that mean the same. As text, because in Python 1, 1.0 and True are equal."""
    said = {key: value for key, value in config.items() if key not in _IDLE or not _is(value, _IDLE[key])}
    if type(said.get(_MTU)) is int:
        del said[_MTU]
    return json.dumps(said, sort_keys=True)


def _is(value: Any, other: Any) -> bool:
    return value is None or (type(value) is type(other) and value == other)
