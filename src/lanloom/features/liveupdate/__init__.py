"""Live update: a running machine moves to another network, without a reboot."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="liveupdate",
    rights="lanloom.features.liveupdate.rights:RIGHTS",
    webhooks="lanloom.features.liveupdate.admission:WEBHOOKS",
    metrics="lanloom.features.liveupdate.metrics:LiveUpdateMetrics",
    checks="lanloom.features.liveupdate.checks:check",
    blockers="lanloom.features.liveupdate.blockers:BLOCKERS",
    after=("ipam", "lan"),
    manager="lanloom.features.liveupdate.manager:build",
    manager_options="lanloom.features.liveupdate.options:MANAGER_OPTIONS",
    agent="lanloom.features.liveupdate.agent:build",
    agent_options="lanloom.features.liveupdate.agentoptions:AGENT_OPTIONS",
    agent_metrics="lanloom.features.liveupdate.agent.metrics:SwapAgentMetrics",
    pages="lanloom.features.liveupdate.pages:PAGES",
    commands={
        "vm": ("lanloom.features.liveupdate.cli", "Show virtual machines, and move NICs to other networks.")
    },
)
