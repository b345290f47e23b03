"""The manager's side of VLAN networks: derives what the agents read, and sums up what they report.

`controllers` is the whole; `networks` looks after one ClusterNetwork at a time, `labels` after the NADs of one,
`views` remember what follows from objects until these change, `informers` says what is watched.
"""

from lanloom.features.vlan.informers import BY_CLUSTER_NETWORK, VlanInformers, vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager

__all__ = ["BY_CLUSTER_NETWORK", "VlanInformers", "VlanManager", "vlan_informers"]
