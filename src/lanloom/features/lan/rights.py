"""The kinds of LANs, and what manager and agents may do with them.

Agents only read LANs. That an agent writes no other node's LANNode is what the validating webhook adds: RBAC can't
say it.
"""

from lanloom.api.core import LEASES
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import GROUP, LAN_NODES, LANS, NODE_GROUP
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.runtime.rights import MAKE, READ, Access, Rights

RIGHTS = Rights(
    own=(LAN_NODES,),
    foreign=(LANS,),
    manager=Access(
        cluster=(
            {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": MAKE},
            {"apiGroups": [GROUP], "resources": [LANS.plural], "verbs": [*READ, "patch"]},
            {"apiGroups": [GROUP], "resources": [f"{LANS.plural}/status"], "verbs": ["patch"]},
            {"apiGroups": [NODE_GROUP], "resources": [LAN_NODES.plural], "verbs": READ},
            {"apiGroups": [NODE_GROUP], "resources": [f"{LAN_NODES.plural}/status"], "verbs": ["patch"]},
            # Those of LANs with subnets.
            {"apiGroups": [NETWORKS.group], "resources": [NETWORKS.plural], "verbs": MAKE},
        ),
        # Leases of VLANs that no LAN is joined to any more go. Their names are those of VLANs, which no rule can list.
        namespaces={
            BRIDGES_NAMESPACE: (
                {"apiGroups": [LEASES.group], "resources": [LEASES.plural], "verbs": ["list", "delete"]},
            )
        },
        definitions=(LANS, LAN_NODES),
    ),
    agent=Access(
        cluster=(
            # Its own node owns what it writes. Agents of the version before follow all nodes.
            {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
            # A spoke that another node has is given to the other pod of the same machine only.
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            # Before a pod gets its interface, its LAN is asked for: the watch may be behind.
            {"apiGroups": [GROUP], "resources": [LANS.plural], "verbs": READ},
            {
                "apiGroups": [NODE_GROUP],
                "resources": [LAN_NODES.plural],
                "verbs": [*READ, "create", "patch", "delete"],
            },
            {"apiGroups": [NODE_GROUP], "resources": [f"{LAN_NODES.plural}/status"], "verbs": ["patch"]},
        ),
        # The node that joins a LAN to a VLAN holds the Lease of that, and none of another VLAN may be held for the LAN.
        namespaces={
            BRIDGES_NAMESPACE: (
                {
                    "apiGroups": [LEASES.group],
                    "resources": [LEASES.plural],
                    "verbs": ["get", "list", "create", "patch"],
                },
            )
        },
        definitions=(LANS, LAN_NODES),
    ),
    # Names and VNIs of LANs are the whole cluster's, and nodes open a UDP port for them.
    admin=(LANS,),
)
