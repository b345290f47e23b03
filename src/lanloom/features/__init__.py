"""The features. A new one is a folder next to these, and an entry here.

NADS is no folder here, as the others build on it.

The order is that of manifests and registrations. Webhooks are asked in the reverse order: a feature builds on those
before it and has narrower rules.
"""

from lanloom.features.dummy import FEATURE as DUMMY
from lanloom.features.ipam import FEATURE as IPAM
from lanloom.features.ipam.dhcp import FEATURE as DHCP
from lanloom.features.lan import FEATURE as LAN
from lanloom.features.liveupdate import FEATURE as LIVEUPDATE
from lanloom.features.vlan import FEATURE as VLAN
from lanloom.nads import FEATURE as NADS
from lanloom.runtime.feature import Feature

FEATURES: tuple[Feature, ...] = (VLAN, IPAM, DUMMY, NADS, LAN, LIVEUPDATE, DHCP)
