"""The kinds of address management, and what manager and agents may do with them."""

from lanloom.api.ipam import GROUP, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.liveupdate import NETWORK_SWAPS
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
            {"apiGroups": [NETWORK_SWAPS.group], "resources": [NETWORK_SWAPS.plural], "verbs": READ},
        ),
        definitions=(NETWORKS, NICS, NETWORK_SWAPS),
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
