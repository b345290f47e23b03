"""The life of NICs' owners: while one lives, its addresses are kept; when it has ended, they are given back.

`ends` are the rules, `looks` reads what they are judged by, `controller` holds and lets go.
"""

from lanloom.ipam.owners.controller import OwnerController
from lanloom.ipam.owners.informers import OwnerInformers, owner_informers

__all__ = ["OwnerController", "OwnerInformers", "owner_informers"]
