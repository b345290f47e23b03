"""The kernel of this machine, as far as ports of machines go."""

from lanloom.features.liveupdate.agent.links.ports import NetlinkPorts

__all__ = ["NetlinkPorts"]
