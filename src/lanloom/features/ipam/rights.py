"""The kinds of address management, and what manager and agents may do with them."""

from lanloom.api.ipam import GROUP, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.runtime.rights import MAKE, Access, Rights

_VMS = VIRTUAL_MACHINE_INSTANCES

RIGHTS = Rights(
    own=(NETWORKS, NICS),
    manager=Access(
        cluster=(
            {"apiGroups": [GROUP], "resources": ["networks"], "verbs": MAKE},
            {"apiGroups": [GROUP], "resources": ["networks/status", "nics/status"], "verbs": ["patch"]},
            {"apiGroups": [GROUP], "resources": ["nics"], "verbs": MAKE},
        ),
        definitions=(NETWORKS, NICS),
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
)
