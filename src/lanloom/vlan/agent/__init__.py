"""The node's side of VLAN networks: see `agent` for its life, and the other modules for what it is made of."""

from lanloom.vlan.agent.agent import VlanAgent
from lanloom.vlan.agent.wanted import AgentInformers

__all__ = ["AgentInformers", "VlanAgent"]
