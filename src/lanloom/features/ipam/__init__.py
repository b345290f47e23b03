"""Address management: networks with subnets and pools, and the addresses of NICs."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="ipam",
    rights="lanloom.features.ipam.rights:RIGHTS",
    webhooks="lanloom.features.ipam.admission:WEBHOOKS",
    manager="lanloom.features.ipam.manager:build",
    metrics="lanloom.features.ipam.metrics:IpamMetrics",
    agent="lanloom.features.ipam.agent:build",
    agent_metrics="lanloom.features.ipam.agent.metrics:IpamAgentMetrics",
    blockers="lanloom.features.ipam.blockers:BLOCKERS",
    cni=("lanloom-ipam",),
    pages="lanloom.features.ipam.pages:PAGES",
    trials="lanloom.features.ipam.trials:plan",
    commands={
        "ganeti": (
            "lanloom.features.ipam.cli.ganeti",
            "Import, check and convert a Ganeti cluster's networks.",
        ),
        "instance": (
            "lanloom.features.ipam.cli.instance",
            "Manage instances with their NICs and addresses.",
        ),
        "network": (
            "lanloom.features.ipam.cli.network",
            "Manage networks with their subnets and address pools.",
        ),
    },
)
