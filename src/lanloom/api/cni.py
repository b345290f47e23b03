"""Labels and annotations of pods, and of the NICs that agents make for them, when a runtime calls `lanloom-ipam`."""

import hashlib

from lanloom.api.ipam import GROUP

ADDRESSES = f"{GROUP}/addresses"
"""Annotation of a pod, or of a virtual machine's template: a JSON object, interface or NAD → list as in `spec.ips`."""

NODE_LABEL = f"{GROUP}/node"
"""Label of a pod's NIC: the node on which the pod is."""

NETWORK_NAME = f"{GROUP}/cni-network"
"""Annotation of a pod's NIC: the name of the CNI network (of its configuration), by which runtimes collect garbage."""

CONTAINER = f"{GROUP}/cni-container"
"""Annotation of a pod's NIC: the id of the container (sandbox) for which it was made.

Of a machine's NIC that is being deleted: the container that uses it all the same.
"""

NAD = f"{GROUP}/nad"
"""Annotation of a machine's NIC: the NAD (`namespace/name`) of the machine's network for which it was made."""

LINK = f"{GROUP}/cni-interface"
"""Annotation of a pod's NIC: the interface's name inside that container."""

MULTUS_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation of a pod: the NADs that Multus attaches it to."""

_LABEL_MAX = 63


def node_value(node: str) -> str:
    """A node's name as the value of NODE_LABEL: cut, with a hash, where it is longer than a label may be."""
    if len(node) <= _LABEL_MAX:
        return node
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"{node[: _LABEL_MAX - 9].rstrip('.-')}-{digest}"
