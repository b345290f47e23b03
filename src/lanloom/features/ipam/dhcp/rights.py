"""What an agent may do to answer DHCP requests: it reads, and writes Events alone."""

from lanloom.api.core import PODS
from lanloom.api.ipam import GROUP, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.multus import NADS
from lanloom.runtime.rights import READ, Access, Rights

_VMS = VIRTUAL_MACHINE_INSTANCES

RIGHTS = Rights(
    agent=Access(
        cluster=(
            {"apiGroups": [GROUP], "resources": [NETWORKS.plural], "verbs": ["get", "list"]},
            {"apiGroups": [GROUP], "resources": [NICS.plural], "verbs": ["get", "list"]},
            # Which interfaces the pods of the node have.
            {"apiGroups": [""], "resources": [PODS.plural], "verbs": READ},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": ["get"]},
            {"apiGroups": [_VMS.group], "resources": [_VMS.plural], "verbs": ["get"]},
        ),
        definitions=(_VMS,),
    ),
)
