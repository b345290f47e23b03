"""The manager's part of VLAN networks: derives what the agents read, and sums up what they report.

`controllers` is the whole; `networks` looks after one ClusterNetwork at a time, `labels` after the NADs of one, and
`views` remember what follows from objects until these change.
"""

from lanloom.features.vlan.manager.controllers import VlanManager

__all__ = ["VlanManager"]
