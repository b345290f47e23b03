"""The kinds of address management, and what manager and agents may do with them."""

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import HOST_NETWORK_CONFIGS
from lanloom.api.ipam import GROUP, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.runtime.rights import MAKE, READ, Access, Rights

_VMS = VIRTUAL_MACHINE_INSTANCES

RIGHTS = Rights(
    own=(NETWORKS, NICS),
    manager=Access(
        cluster=(
            {"apiGroups": [GROUP], "resources": ["networks"], "verbs": MAKE},
            {"apiGroups": [GROUP], "resources": ["networks/status", "nics/status"], "verbs": ["patch"]},
            {"apiGroups": [GROUP], "resources": ["nics"], "verbs": MAKE},
            # A NIC that moves keeps the addresses of both networks meanwhile.
            # What else has addresses on the wires of networks.
            {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": READ},
            {
                "apiGroups": [CLUSTER_NETWORK_NODES.group],
                "resources": [CLUSTER_NETWORK_NODES.plural],
                "verbs": READ,
            },
            {"apiGroups": [LANS.group], "resources": [LANS.plural], "verbs": READ},
            {
                "apiGroups": [HOST_NETWORK_CONFIGS.group],
                "resources": [HOST_NETWORK_CONFIGS.plural],
                "verbs": READ,
            },
            {"apiGroups": [NETWORK_SWAPS.group], "resources": [NETWORK_SWAPS.plural], "verbs": READ},
        ),
        definitions=(NETWORKS, NICS, NETWORK_SWAPS, LANS, HOST_NETWORK_CONFIGS),
    ),
    agent=Access(
        cluster=(
            {"apiGroups": [GROUP], "resources": ["networks"], "verbs": ["get", "list"]},
            {"apiGroups": [GROUP], "resources": ["nics"], "verbs": MAKE},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [_VMS.group], "resources": [_VMS.plural], "verbs": ["get"]},
        ),
        definitions=(_VMS, NICS),
    ),
    edit=(NICS,),
)
