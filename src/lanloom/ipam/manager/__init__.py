"""The manager's side of address management: the one allocator of each network.

`controllers` says when which network is looked at; `allocator` looks after one network at a time and is the only place
that gives addresses away, `book` is what it knows of a network that it has taken over, `homeless` are NICs without a
network. Pure rules: `decisions` (which addresses a NIC gets), `nicstatus`, `netstatus`, `levels` (how full pools are).
"""

from lanloom.ipam.manager.controllers import IpamManager
from lanloom.ipam.manager.informers import BY_NETWORK, BY_OWNER, IpamInformers, ipam_informers

__all__ = ["BY_NETWORK", "BY_OWNER", "IpamInformers", "IpamManager", "ipam_informers"]
