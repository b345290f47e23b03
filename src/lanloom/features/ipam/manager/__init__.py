"""The manager's side of address management: the one allocator of each network.

`controllers` says when each network is reconciled. `allocator` is the only place that gives addresses away. `term` has
the networks that this process has taken over, and writes their objects; `allocation` is what is known of one. Pure
rules: `decisions` (which addresses a NIC gets, and its status), `networkstatus` (how full pools are).
"""

from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.informers import (
    BY_NETWORK,
    BY_OWNER,
    IpamInformers,
    ipam_informers,
)

__all__ = ["BY_NETWORK", "BY_OWNER", "IpamInformers", "IpamManager", "ipam_informers"]
