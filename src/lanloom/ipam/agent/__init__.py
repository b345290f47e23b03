"""The node's side of address management: answers the CNI plugin `lanloom-ipam`."""

from lanloom.ipam.agent.server import CniServer
from lanloom.ipam.agent.service import IpamService

__all__ = ["CniServer", "IpamService"]
