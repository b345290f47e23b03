"""VLAN networks: uplinks, bridges and VLAN ids on nodes, and the nodes' own addresses on them."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="vlan",
    rights="lanloom.features.vlan.rights:RIGHTS",
    webhooks="lanloom.features.vlan.admission:WEBHOOKS",
    after=("nads", "ipam"),
    manager="lanloom.features.vlan.manager:build",
    manager_options="lanloom.features.vlan.options:MANAGER_OPTIONS",
    metrics="lanloom.features.vlan.metrics:VlanMetrics",
    agent="lanloom.features.vlan.agent:build",
    agent_metrics="lanloom.features.vlan.agent.metrics:VlanAgentMetrics",
    checks="lanloom.features.vlan.checks:check",
    blockers="lanloom.features.vlan.blockers:BLOCKERS",
    pages="lanloom.features.vlan.pages:PAGES",
    node="lanloom.features.vlan.nodepages:NODE",
    trials="lanloom.features.vlan.trials:plan",
    commands={
        "status": ("lanloom.features.vlan.cli.status", "Show the state of all networks on all nodes."),
        "harvester": (
            "lanloom.features.vlan.cli.harvester",
            "Migrate from Harvester's network controller, or to it.",
        ),
        "vlan": ("lanloom.features.vlan.cli", "Show VLAN networks, and preview changes."),
    },
)
