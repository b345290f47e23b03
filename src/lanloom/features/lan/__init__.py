"""LANs: virtual LANs across the nodes of a cluster, for pods and machines with any source MAC address."""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="lan",
    rights="lanloom.features.lan.rights:RIGHTS",
)
