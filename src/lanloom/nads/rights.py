"""What the manager may do to know the users of NADs, in addition to what every manager may read."""

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.runtime.rights import FOLLOW, Access, Rights

RIGHTS = Rights(
    manager=Access(
        cluster=(
            # A NIC that moves uses both networks.
            {"apiGroups": [NETWORK_SWAPS.group], "resources": [NETWORK_SWAPS.plural], "verbs": FOLLOW},
        ),
    ),
)
