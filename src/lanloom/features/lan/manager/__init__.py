"""The manager's part of LANs: their NADs, their statuses, and their end.

`informers` is what is watched, `lans` reconciles one LAN, `removal` takes NADs and LANs away, `controllers` is what
wakes them.
"""

from lanloom.features.lan.manager.controllers import LanManager
from lanloom.features.lan.manager.informers import LanInformers, lan_informers

__all__ = ["LanInformers", "LanManager", "lan_informers"]
