"""NADs of every feature: who refers to them, who uses them, and how new users are refused until none is left.

Features build on this package as on the rest of the ground, and import it. Its `FEATURE` is how processes find its
webhooks, its rights and its part of the manager.
"""

from lanloom.runtime.feature import Feature

FEATURE = Feature(
    name="nads",
    rights="lanloom.nads.rights:RIGHTS",
    webhooks="lanloom.nads.admission:WEBHOOKS",
    manager="lanloom.nads.manager:build",
)
