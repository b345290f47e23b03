"""`lanloom agent` with LANs alone, as a program: `python -m tests.features.lan.realserver.agent agent --node …`."""

import asyncio

from lanloom.__main__ import command_line
from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.options import LanAgentSettings
from lanloom.features.lan.agent.parts import DataPlane
from lanloom.features.lan.agent.services import serve_spokes
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.feature import Feature

LAN_ALONE = Feature(
    name="lan",
    agent="tests.features.lan.realserver.agent:build",
    agent_options="lanloom.features.lan.agent.options:AGENT_OPTIONS",
    agent_metrics="lanloom.features.lan.agent.metrics:LanAgentMetrics",
    cni={
        "macvtap": "lanloom.features.lan.agent.programs:macvtap",
        "k8slanveth": "lanloom.features.lan.agent.programs:k8slanveth",
    },
)


def build(context: AgentContext) -> AgentPart:
    """The node's part of LANs with what it offers to kubelet and to CNI programs."""
    plane = DataPlane(context, NetlinkLanKernel())
    settings = context.setting("lan", LanAgentSettings())

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(plane.run())
            group.create_task(serve_spokes(plane.spokes, context.cni, settings, context.metrics["lan"]))

    return AgentPart(run=run, controllers=plane.controllers)


if __name__ == "__main__":
    command_line((LAN_ALONE,))(prog_name="lanloom")
