"""The node's side of VLAN networks: see `loop` for its life, and the other modules for what it is made of."""

from lanloom.features.vlan.agent.desired import AgentInformers
from lanloom.features.vlan.agent.loop import VlanAgent

__all__ = ["AgentInformers", "VlanAgent"]
