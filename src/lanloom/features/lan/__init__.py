"""LANs: virtual LANs across the nodes of a cluster, for pods and machines with any source MAC address."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="lan",
    rights="lanloom.features.lan.rights:RIGHTS",
    webhooks="lanloom.features.lan.admission:WEBHOOKS",
    after=("nads", "ipam", "vlan"),
    manager="lanloom.features.lan.manager:build",
    manager_options="lanloom.features.lan.options:MANAGER_OPTIONS",
    metrics="lanloom.features.lan.metrics:LanMetrics",
    agent="lanloom.features.lan.agent:build",
    agent_metrics="lanloom.features.lan.agent.metrics:LanAgentMetrics",
    agent_options="lanloom.features.lan.agentoptions:AGENT_OPTIONS",
    blockers="lanloom.features.lan.blockers:BLOCKERS",
    cni=("macvtap", "k8slanveth"),
    cni_socket="lan",
    cni_optional=True,
    pages="lanloom.features.lan.pages:PAGES",
    node="lanloom.features.lan.pages:NODE",
    trials="lanloom.features.lan.trials:plan",
    commands={"lan": ("lanloom.features.lan.cli", "Show LANs across the nodes of the cluster.")},
)
