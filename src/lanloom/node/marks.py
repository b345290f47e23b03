"""The marks of links: an ifalias says that Lanloom made a link, and for which object.

`lanloom` alone marks the links of VLAN networks. `lanloom-FAMILY UID` marks a link of one object of the API, by its
uid: with another object of the same name it is another's. A feature registers its family with the kind of its objects.

The kernel takes no ifalias when it makes a link. A link with an owner therefore begins under a name that marks it as
half-made and, as a digest, for which object: the next process finishes what a dead one began. Several such processes
run at once on a host, even for one owner, and each may finish what another began.
"""

import re
from binascii import crc32

MARK = "lanloom"
"""The ifalias of every link of VLAN networks that Lanloom made. Nothing without a mark is ever deleted or renamed."""

UNFINISHED = "lanloom-new"
"""The name of a link of VLAN networks until it has its mark; renaming and marking are one message."""

_ISOLATED = "lanloom-dummy"

_OWNER = re.compile(r"[A-Za-z0-9-]{1,63}")
_UNFINISHED = re.compile(r"lanloom-[0-9a-f]{7}")
_kinds: dict[str, str] = {}


def register_family(mark: str, kind: str) -> str:
    """Register what an ifalias begins with, and the kind of the owners. The result is `mark`."""
    _kinds[mark] = kind
    return mark


def register_isolated(kind: str) -> str:
    """Register the family of bridges without an uplink, and return their mark."""
    return register_family(_ISOLATED, kind)


def is_isolated(alias: str) -> bool:
    """Return whether an ifalias is that of a bridge without an uplink, also where its family is not registered."""
    return alias.startswith(f"{_ISOLATED} ")


def is_owner(text: str) -> bool:
    """Return whether this can be an owner: a uid, of letters, digits and dashes, at most 63."""
    return _OWNER.fullmatch(text) is not None


def owner_of(alias: str) -> str:
    """Return the uid of the owner that an ifalias names; empty if it names none."""
    mark, _, owner = alias.partition(" ")
    return owner if mark in _kinds and is_owner(owner) else ""


def describe_owner(alias: str) -> str:
    """Return the owner that an ifalias names, for a message."""
    mark, _, owner = alias.partition(" ")
    return f"the {_kinds[mark]} with the uid {owner}"


def unfinished_name(owner: str) -> str:
    """Return the name of an owner's link until it has its mark; renaming and marking are one message.

    28 bits of a checksum: two owners that share them finish each other's, which is harmless, and `hashlib` would
    take 4 MB of each of many processes.
    """
    return f"lanloom-{crc32(owner.encode()) & 0xFFFFFFF:07x}"


def is_unfinished_name(name: str) -> bool:
    """Return whether a half-made link can have this name."""
    return _UNFINISHED.fullmatch(name) is not None
