"""The kinds of live update, and what manager and agents may do with them.

KubeVirt's kinds are never installed: on a cluster without KubeVirt there are no machines to move.
"""

from lanloom.api.core import EVENTS, PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.lan import LAN_NODES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.runtime.rights import MAKE, READ, Access, Rights

_KUBEVIRT = VIRTUAL_MACHINES.group
_CHANGED = [VIRTUAL_MACHINES.plural, VIRTUAL_MACHINE_INSTANCES.plural]
_MACHINES = [*_CHANGED, MIGRATIONS.plural]

RIGHTS = Rights(
    own=(NETWORK_SWAPS,),
    manager=Access(
        cluster=(
            {"apiGroups": [NETWORK_SWAPS.group], "resources": [NETWORK_SWAPS.plural], "verbs": MAKE},
            {
                "apiGroups": [NETWORK_SWAPS.group],
                "resources": [f"{NETWORK_SWAPS.plural}/status"],
                "verbs": ["patch"],
            },
            {"apiGroups": [_KUBEVIRT], "resources": [*_MACHINES, KUBEVIRTS.plural], "verbs": READ},
            # The network of a NIC in the machine's template, and what an edit of the template changes of its instance.
            # KubeVirt's instances have no status subresource: a condition is written to the object.
            {
                "apiGroups": [_KUBEVIRT],
                "resources": [name for plural in _CHANGED for name in (plural, f"{plural}/status")],
                "verbs": ["patch"],
            },
            {"apiGroups": [_KUBEVIRT], "resources": [MIGRATIONS.plural], "verbs": ["create", "delete"]},
            # The template with which a machine was started, which KubeVirt keeps.
            {
                "apiGroups": ["apps"],
                "resources": ["controllerrevisions"],
                "verbs": ["get"],
            },
            {"apiGroups": [""], "resources": [PODS.plural], "verbs": READ},
            # Why the target pod of a migration does not run.
            {"apiGroups": [""], "resources": [EVENTS.plural], "verbs": ["list"]},
            # The same in the annotations by which Multus and KubeVirt know the launcher pod's networks. As Multus does,
            # through the status: who may patch pods themselves may give them another image.
            {"apiGroups": [""], "resources": [f"{PODS.plural}/status"], "verbs": ["patch"]},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": READ},
            # Whether Multus isolates namespaces, as agents report it, and a condition about that.
            {"apiGroups": [LAN_NODES.group], "resources": [LAN_NODES.plural], "verbs": READ},
            {"apiGroups": [LAN_NODES.group], "resources": [f"{LAN_NODES.plural}/status"], "verbs": ["patch"]},
        ),
        definitions=(VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS, KUBEVIRTS),
    ),
    agent=Access(
        cluster=(
            {"apiGroups": [NETWORK_SWAPS.group], "resources": [NETWORK_SWAPS.plural], "verbs": READ},
            {
                "apiGroups": [NETWORK_SWAPS.group],
                "resources": [f"{NETWORK_SWAPS.plural}/status"],
                "verbs": ["patch"],
            },
            # The launcher pod, the machine and both networks of a NIC that moves.
            {"apiGroups": [""], "resources": [PODS.plural], "verbs": ["get"]},
            {
                "apiGroups": [VIRTUAL_MACHINES.group],
                "resources": [VIRTUAL_MACHINE_INSTANCES.plural],
                "verbs": ["get"],
            },
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": ["get"]},
        ),
        definitions=(NETWORK_SWAPS,),
    ),
    edit=(NETWORK_SWAPS,),
)
