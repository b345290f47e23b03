"""The webhooks' side of isolated networks.

`admission` answers requests. `networks` judges what users write of networks, `nads` who may do what to their NADs,
`references` whether a machine or a pod may refer to one; `notes` writes down on NADs what was allowed. `world` is the
cluster as they see it.
"""

from lanloom.dummy.admission.admission import MUTATED, REFERENCES, VALIDATED, DummyAdmission
from lanloom.dummy.admission.world import StoreWorld, World

__all__ = ["MUTATED", "REFERENCES", "VALIDATED", "DummyAdmission", "StoreWorld", "World"]
