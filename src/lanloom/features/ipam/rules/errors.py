"""What the rules of address management raise beside the plain refusals.

Denied
├── AddressInUse     another NIC owns it, or an operation is about to give it away
├── AddressReserved  externally reserved, which `force` overrides
├── OutsideSubnets   no subnet of the network contains it
├── UnknownPool      the network has no pool of that name
└── Exhausted        nothing is free where an address was wanted
"""

from lanloom.refusals import Denied


class AddressInUse(Denied):
    """An address has one owner at the most. `owner` is the key of the NIC that has it, `ip` the address as text."""

    def __init__(self, message: str = "", owner: str = "", ip: str = "") -> None:
        super().__init__(message)
        self.owner = owner
        self.ip = ip


class AddressReserved(Denied):
    """An externally reserved address is given only by force."""


class OutsideSubnets(Denied):
    """An address that is in no subnet of the network."""


class UnknownPool(Denied):
    """A name that no pool of the network has."""


class Exhausted(Denied):
    """A network or pool without a free address."""
