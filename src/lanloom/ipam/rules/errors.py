"""What the rules of address management raise. A message says what is wrong, where, and what to do.

IpamError
├── Malformed            the input itself is wrong, whatever the state is (exit status 2)
└── Refused              the state does not allow it (exit status 1)
    ├── AddressInUse     another NIC owns it, or an operation is about to give it away
    ├── AddressReserved  externally reserved, which `force` overrides
    ├── OutsideSubnets   no subnet of the network contains it
    ├── UnknownPool      the network has no pool of that name
    └── Exhausted        nothing is free where an address was wanted
"""


class IpamError(Exception):
    """Base of all of them; the message is the user's."""


class Malformed(IpamError):
    """An option, field, name, address or range that can't be read or can never be."""


class Refused(IpamError):
    """Well said, but the state forbids it; nothing was changed."""


class AddressInUse(Refused):
    """An address has one owner at the most."""


class AddressReserved(Refused):
    """An externally reserved address is given only by force."""


class OutsideSubnets(Refused):
    """An address that is in no subnet of the network."""


class UnknownPool(Refused):
    """A name that no pool of the network has."""


class Exhausted(Refused):
    """A network or pool without a free address."""
