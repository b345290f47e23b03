"""The webhooks of isolated networks.

`admission` dispatches requests. `objects` validates networks, their NADs and VlanConfigs, `references` the NADs that
machines and pods name; `reservations` records on NADs what was allowed. `reader` is the cluster as the stores have it.
"""

from lanloom.features.dummy.admission.admission import WEBHOOKS, DummyAdmission
from lanloom.features.dummy.admission.reader import StoreReader

__all__ = ["WEBHOOKS", "DummyAdmission", "StoreReader"]
