"""The kinds of VLAN networks, and what manager and agents may do with them.

That an agent writes only its own node's reports is what the validating webhook adds: RBAC can't say it.
"""

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import SERVICE_ACCOUNTS
from lanloom.api.harvester import CLUSTER_NETWORKS, GROUP, HOST_NETWORK_CONFIGS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.runtime.rights import FOLLOW, MAKE, READ, Access, Rights, Rule

_REPORTS = CLUSTER_NETWORK_NODES
_HARVESTER: Rule = {
    "apiGroups": [""],
    "resources": [SERVICE_ACCOUNTS.plural],
    "resourceNames": [names.HARVESTER_ACCOUNT],
    "verbs": FOLLOW,
}
"""Whether Harvester's controller is installed."""

RIGHTS = Rights(
    own=(CLUSTER_NETWORK_NODES,),
    foreign=(CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES, NADS),
    manager=Access(
        cluster=(
            {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": MAKE},
            {"apiGroups": [GROUP], "resources": ["clusternetworks"], "verbs": MAKE},
            {"apiGroups": [GROUP], "resources": ["vlanconfigs"], "verbs": [*FOLLOW, "patch"]},
            {"apiGroups": [GROUP], "resources": ["clusternetworks/status"], "verbs": ["patch"]},
            {"apiGroups": [_REPORTS.group], "resources": [_REPORTS.plural], "verbs": [*FOLLOW, "delete"]},
            {"apiGroups": [GROUP], "resources": ["vlanstatuses"], "verbs": ["delete"]},
            {"apiGroups": [GROUP], "resources": ["hostnetworkconfigs"], "verbs": READ},
            _HARVESTER,
        ),
        definitions=(NADS, HOST_NETWORK_CONFIGS),
    ),
    agent=Access(
        cluster=(
            {"apiGroups": [GROUP], "resources": ["clusternetworks", "vlanconfigs"], "verbs": FOLLOW},
            {"apiGroups": [NADS.group], "resources": [NADS.plural], "verbs": FOLLOW},
            {
                "apiGroups": [_REPORTS.group],
                "resources": [_REPORTS.plural],
                "verbs": [*READ, "create", "delete"],
            },
            {"apiGroups": [_REPORTS.group], "resources": [f"{_REPORTS.plural}/status"], "verbs": ["patch"]},
            {"apiGroups": [GROUP], "resources": ["vlanstatuses"], "verbs": MAKE},
            _HARVESTER,
        ),
    ),
)
