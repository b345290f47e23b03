"""The webhooks' side of address management: the same rules as the command line's, on objects that anybody writes.

`networks`, `nics` and `owners` judge what users write, `agents` what the agents of nodes may, `statuses` who may write
what the allocator goes by; `defaults` fills in.
"""

from lanloom.ipam.admission.admission import MUTATED, VALIDATED, IpamAdmission

__all__ = ["MUTATED", "VALIDATED", "IpamAdmission"]
