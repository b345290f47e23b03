"""The life of NICs' owners: while one lives, its addresses are kept; when it has ended, they are given back.

`evidence` has the rules and reads what they go by, `controller` holds and releases NICs.
"""

from lanloom.features.ipam.owners.controller import OwnerController
from lanloom.features.ipam.owners.evidence import OwnerInformers, owner_informers

__all__ = ["OwnerController", "OwnerInformers", "owner_informers"]
