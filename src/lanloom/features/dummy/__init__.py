"""Isolated networks: bridges without an uplink, one on each node."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="dummy",
    after=("nads",),
    rights="lanloom.features.dummy.rights:RIGHTS",
    webhooks="lanloom.features.dummy.admission:WEBHOOKS",
    manager="lanloom.features.dummy.manager:build",
    manager_options="lanloom.features.dummy.options:MANAGER_OPTIONS",
    metrics="lanloom.features.dummy.metrics:DummyMetrics",
    agent="lanloom.features.dummy.agent:build",
    agent_metrics="lanloom.features.dummy.agent.metrics:DummyAgentMetrics",
    blockers="lanloom.features.dummy.blockers:BLOCKERS",
    pages="lanloom.features.dummy.pages:PAGES",
    node="lanloom.features.dummy.pages:NODE",
    trials="lanloom.features.dummy.trials:plan",
    commands={"dummy": ("lanloom.features.dummy.cli", "Show isolated networks and their users.")},
)
