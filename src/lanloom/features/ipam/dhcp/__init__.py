"""DHCP for pods and machines: each node answers at the ports of its own, with what their NICs have.

It is a feature of its own, as it belongs into an agent that may look at the namespaces of LANs, while address
management itself needs no rights on a node.

`packet`, `answers`, `given` and `clients` are rules, `packet6` and `answers6` those of IPv6; `server` with its
`listeners` and `guests` is what runs.
"""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="dhcp",
    rights="lanloom.features.ipam.dhcp.rights:RIGHTS",
    after=("ipam",),
    agent="lanloom.features.ipam.dhcp.agent:build",
    agent_options="lanloom.features.ipam.dhcp.options:AGENT_OPTIONS",
    agent_metrics="lanloom.features.ipam.dhcp.metrics:DhcpMetrics",
)
