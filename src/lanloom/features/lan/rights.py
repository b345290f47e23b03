"""The kinds of LANs, and what manager and agents may do with them.

Agents only read LANs. That an agent writes no other node's LANNode is what the validating webhook adds: RBAC can't
say it.
"""

from lanloom.api.lan import GROUP, LAN_NODES, LANS, NODE_GROUP
from lanloom.api.multus import NADS
from lanloom.runtime.rights import FOLLOW, MAKE, READ, Access, Rights

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
        ),
        definitions=(LANS, LAN_NODES),
    ),
    agent=Access(
        cluster=(
            # Its own node owns what it writes, and frames are sent to live ones.
            {"apiGroups": [""], "resources": ["nodes"], "verbs": READ},
            {"apiGroups": [GROUP], "resources": [LANS.plural], "verbs": FOLLOW},
            {
                "apiGroups": [NODE_GROUP],
                "resources": [LAN_NODES.plural],
                "verbs": [*READ, "create", "patch", "delete"],
            },
            {"apiGroups": [NODE_GROUP], "resources": [f"{LAN_NODES.plural}/status"], "verbs": ["patch"]},
        ),
        definitions=(LANS, LAN_NODES),
    ),
)
