"""The kind of isolated networks, and what manager and agents may do for it.

The right to create DaemonSets in a namespace is one to run any pod there that its Pod Security level admits. The
manager may in one namespace only, where nothing runs but the daemons of isolated networks. It can't change the agents.
"""

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, GROUP
from lanloom.api.lan import LANS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.runtime.rights import FOLLOW, Access, Rights

CONFIG_MAP = "lanloom-dummy"
"""The ConfigMap with the settings, in Lanloom's namespace."""

RIGHTS = Rights(
    own=(DUMMY_CLUSTER_NETWORKS,),
    manager=Access(
        cluster=(
            {
                "apiGroups": [GROUP],
                "resources": ["dummyclusternetworks"],
                "verbs": [*FOLLOW, "create", "patch"],
            },
            {"apiGroups": [GROUP], "resources": ["dummyclusternetworks/status"], "verbs": ["patch"]},
            # Networks that span the cluster stand on LANs.
            {
                "apiGroups": [LANS.group],
                "resources": [LANS.plural],
                "verbs": [*FOLLOW, "get", "create", "delete"],
            },
        ),
        namespaces={
            LANLOOM_NAMESPACE: (
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": [CONFIG_MAP],
                    "verbs": FOLLOW,
                },
                # Older versions made the DaemonSets here. The manager takes those away and can change none.
                {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["delete"]},
            ),
            BRIDGES_NAMESPACE: (
                # Why pods of DaemonSets can't be created.
                {"apiGroups": [""], "resources": ["events"], "verbs": FOLLOW},
                {
                    "apiGroups": ["apps"],
                    "resources": ["daemonsets"],
                    "verbs": ["get", "create", "patch", "delete"],
                },
            ),
        },
    ),
    agent=Access(
        cluster=({"apiGroups": [GROUP], "resources": ["dummyclusternetworks"], "verbs": FOLLOW},),
    ),
)
