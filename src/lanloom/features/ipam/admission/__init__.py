"""The webhooks' side of address management: the same rules as the command line's, on objects that anybody writes.

`networks` and `nics` validate what users write and fill in what they left out; `permissions` says who may write NICs
and statuses, `addresses` which NICs hold addresses of a network.
"""

from lanloom.features.ipam.admission.admission import WEBHOOKS, IpamAdmission

__all__ = ["WEBHOOKS", "IpamAdmission"]
